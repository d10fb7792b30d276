"""What stores' libraries raise, as the rest of the program takes it, and how long it is borne."""

import contextlib
import errno
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from pipelines.errors import PipelineError
from spanmarker_core.errors import CodedError

Result = TypeVar("Result")

#: How long a store may fail, in seconds: one that was reached before, for a restart or a spell of "slow down", and one
#: that never was, whose name or credentials may be wrong.
PATIENCE, FIRST_PATIENCE = 60.0, 5.0

#: The extra of this package that brings each store.
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure", "abfss": "azure"}

#: Errors of a network, or of the store at its other end, by package and name. Some are OSErrors, some are not.
_NETWORK = {
    "aiohttp.ClientError",
    "azure.HttpResponseError",
    "azure.ServiceRequestError",
    "azure.ServiceResponseError",
    "botocore.ClientError",
    "botocore.ConnectionError",
    "botocore.HTTPClientError",
    "botocore.ResponseParserError",
    "gcsfs.HttpError",
    "google.TransportError",
    "requests.RequestException",
    "urllib3.HTTPError",
}
#: What the same request would meet again.
_LASTING = {errno.EINVAL, errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EMSGSIZE, errno.ENAMETOOLONG}

_reached: set[fsspec.AbstractFileSystem] = set()


class StorageError(OSError):
    """A store failed or can't be reached, which says nothing of the file: what was tried may be tried again."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may have another end."""
        return self.errno not in _LASTING

    def __str__(self) -> str:
        return self.strerror or super().__str__()  # The number is ours, not the store's.


def as_os_error(error: Exception) -> OSError | None:
    """Return what an error that a store's library raised means, None if it is about how the library is used.

    An OSError of another kind is itself: `FileNotFoundError` and the like. A plain one, which Arrow raises for
    damaged content, becomes a `StorageError`, as do the networks' own errors.
    """
    names = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
    if names.isdisjoint(_NETWORK) and type(error) is not OSError:
        return error if isinstance(error, OSError) else None
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if status in (401, 403):
        return PermissionError(errno.EACCES, _line(error))
    if status == 404:
        return FileNotFoundError(errno.ENOENT, _line(error))
    if type(error) is OSError:
        return StorageError(error.errno or errno.EACCES, _line(error))  # gcsfs gives its 403 no number
    return StorageError(errno.EINVAL if status == 400 else errno.EIO, _line(error))


def _line(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return next(iter(reason.strip().splitlines()), "") or type(error).__name__


@contextlib.contextmanager
def translate_storage_errors(url: str, passes: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Turn whatever a store's library raises into an OSError (see `as_os_error`) or a coded error.

    What is not an OSError says that the library is missing, has no credentials or is misused. Only what `passes` is
    not made a coded error: whether a file that can't be read is a fault is the caller's to tell.
    """
    try:
        yield
    except CodedError:
        raise
    except Exception as error:
        remote = "://" in url and not url.startswith(("/", "file:", "local:"))
        meant = as_os_error(error) if remote else error
        if isinstance(meant, passes):
            if meant is error:
                raise
            raise meant from error
        remedy = ""
        if isinstance(error, ImportError) and (extra := _EXTRAS.get(url.partition("://")[0])):
            remedy = f" Install it: pip install 'spanmarker-pipelines[{extra}]'."
        elif "::" in url:
            remedy = " Stores within stores (::) are not supported."
        raise PipelineError("url.unusable", url=url, reason=_line(error).rstrip("."), remedy=remedy) from error


def with_retries(fs: fsspec.AbstractFileSystem, work: Callable[[], Result]) -> Result:
    """Do `work`, which must bear repeating, until it succeeds or the patience with the store is over.

    Raises:
        OSError: as `as_os_error`; what is none is raised as it is.
    """
    if isinstance(fs, LocalFileSystem):
        return work()
    deadline, wait = time.monotonic() + (PATIENCE if fs in _reached else FIRST_PATIENCE), 0.5
    while True:
        try:
            result = work()
        except Exception as error:
            meant = as_os_error(error)
            passing = isinstance(meant, TimeoutError | ConnectionError)
            passing = passing or (isinstance(meant, StorageError) and meant.may_pass)
            if not passing or time.monotonic() > deadline:
                if meant is None or meant is error:
                    raise
                raise meant from error
            time.sleep(wait * random.uniform(0.5, 1))  # so that a thousand workers don't come back at once
            wait = min(2 * wait, 8.0)
        else:
            _reached.add(fs)
            return result


def is_storage_error(error: Exception) -> bool:
    """Tell a fault of the disk or the store from damaged content, which Arrow raises as OSError as well.

    >>> is_storage_error(OSError("Corrupt snappy compressed data.")), is_storage_error(OSError(5, "I/O error"))
    (False, True)
    """
    if type(error) is OSError:  # Arrow's has no number, but for EINVAL, where damage sends it to odd offsets.
        return error.errno is not None and error.errno != errno.EINVAL
    return isinstance(error, OSError)
