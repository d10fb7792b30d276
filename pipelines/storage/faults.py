"""Errors of the stores' libraries: how they are translated, and how long a failing request is retried."""

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
from spanmarker_core.text.messages import continued

Result = TypeVar("Result")

#: Seconds for which requests to a failing store are retried. A store that was reached before may be restarting or
#: throttling; one that was never reached may have a wrong name or wrong credentials.
PATIENCE, FIRST_PATIENCE = 60.0, 5.0

#: The extra of this package that supports each store.
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure", "abfss": "azure"}

#: Errors of a network or of a store, by package and class name. Some of them are OSErrors.
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
#: Errors of a store's library that finds no credentials, by class name.
_NO_CREDENTIALS = {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError"}
_CREDENTIALS = (
    " Set the credentials, for S3 in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or in a profile named by AWS_PROFILE; "
    "for a public bucket of S3, pass --storage-option s3.anon=true."
)
#: Error numbers that the same request would return again.
_LASTING = {errno.EINVAL, errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EMSGSIZE, errno.ENAMETOOLONG}

_reached: set[fsspec.AbstractFileSystem] = set()


class StorageError(OSError):
    """A store failed or can't be reached. This says nothing about the file, so the operation may be retried."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.errno not in _LASTING

    def __str__(self) -> str:
        return self.strerror or super().__str__()  # The error number is set by this program, not by the store.


def as_os_error(error: Exception) -> OSError | None:
    """Translate an error raised by a store's library; return None if the error concerns the use of the library.

    An OSError of a specific kind, such as `FileNotFoundError`, is returned unchanged. A plain OSError, which Arrow
    raises for damaged content, and the errors of the network libraries become a `StorageError`.

    Args:
        error: the error.
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
        return StorageError(error.errno or errno.EACCES, _line(error))  # gcsfs sets no error number for a 403
    return StorageError(errno.EINVAL if status == 400 else errno.EIO, _line(error))


def _line(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return next(iter(reason.strip().splitlines()), "") or type(error).__name__


@contextlib.contextmanager
def translate_storage_errors(url: str, passes: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Turn every exception of a store's library into an OSError (see `as_os_error`) or a coded error.

    An exception that is not an OSError means that the library is missing, has no credentials or is misused. Exceptions
    of the types in `passes` never become coded errors: the caller decides whether an unreadable file is a fault.

    Args:
        url: the file or folder that is accessed.
        passes: exception types that are raised as they are, once translated.

    Raises:
        PipelineError: `url.unusable`.
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
        elif type(error).__name__ in _NO_CREDENTIALS:
            remedy = _CREDENTIALS
        elif "::" in url:
            remedy = " Stores within stores (::) are not supported."
        elif isinstance(error, ValueError) and "rotocol not known" in str(error):
            remedy = " Pass a local path, or a URL that begins with s3://, gs://, abfs:// or the like."
        raise PipelineError("url.unusable", url=url, reason=continued(_line(error)), remedy=remedy) from error


def with_retries(fs: fsspec.AbstractFileSystem, work: Callable[[], Result]) -> Result:
    """Call `work` until it succeeds or the time for retries is over.

    Args:
        fs: the file system; calls to a local one are not retried.
        work: the function to call; it must be safe to repeat.

    Raises:
        OSError: the translated error (see `as_os_error`); an error that can't be translated is raised unchanged.
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
            time.sleep(wait * random.uniform(0.5, 1))  # so that a thousand workers don't retry at the same moment
            wait = min(2 * wait, 8.0)
        else:
            _reached.add(fs)
            return result
