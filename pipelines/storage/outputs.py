"""Outputs that appear whole or not at all.

An output is first written to a local scratch file. On a local disk that file is in the target's folder, is
synced and renamed; for any other store it is uploaded, in one request or in parts that are joined at the end, so that
the object becomes visible only when it is complete.
"""

import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

import fsspec

from pipelines.errors import PipelineError
from pipelines.storage.faults import translate_storage_errors, with_retries
from pipelines.storage.urls import is_local, resolve

_SCRATCH_ENDING = ".scratch"
#: Reasons that the system states in a way that misleads here.
_PLAIN = {
    errno.EEXIST: "it, or a folder above it, is a file, not a folder",
    errno.ENOTDIR: "it, or a folder above it, is a file, not a folder",
    errno.ENOENT: "no folder can be created there",
}


@contextlib.contextmanager
def writing(url: str) -> Iterator[None]:
    """Turn the errors of a full disk, a missing permission or a lost store into a coded error.

    Args:
        url: the output being written, for the message.

    Raises:
        PipelineError: `output.not_writable`.
    """
    try:
        yield
    except OSError as error:
        raise PipelineError("output.not_writable", path=url, reason=_reason(error)) from error


def _reason(error: OSError) -> str:
    reason = _PLAIN.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__
    return f"{reason[:1].lower()}{reason[1:]}".rstrip(".")


@contextlib.contextmanager
def publish(url: str) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears at `url` whole when the block ends without an exception, or not at all.

    The yielded file is a real local file. If the block raises, nothing is left behind. If the process dies,
    a scratch file or parts of an upload may remain, which `remove_scratch` removes.

    Args:
        url: a path or URL.

    Raises:
        PipelineError: `output.not_writable`.
    """
    fs, path = resolve(url)
    local = is_local(fs)
    folder, _, name = path.rpartition("/")
    scratch_folder = folder if local else tempfile.gettempdir()
    scratch = os.path.join(scratch_folder, f".{name}.{secrets.token_hex(4)}{_SCRATCH_ENDING}")
    try:
        with writing(url):
            file = open(scratch, "xb")  # noqa: SIM115 - closed below, where an error means a full disk
        try:
            yield file
            with writing(url):
                file.flush()
                os.fsync(file.fileno())
                file.close()
        finally:
            with contextlib.suppress(OSError):  # On a full disk this fails as well, and the write's error is reported.
                file.close()
        with writing(url):
            if local:
                os.replace(scratch, path)
                _sync_folder(folder)
            else:
                with translate_storage_errors(url):
                    with_retries(fs, lambda: fs.put_file(scratch, path))
    finally:
        with contextlib.suppress(OSError):
            os.unlink(scratch)


def publish_bytes(url: str, content: bytes) -> None:
    """Write a small file atomically.

    Args:
        url: a path or URL.
        content: content of the file.

    Raises:
        PipelineError: `output.not_writable`.
    """
    with publish(url) as file, writing(url):
        file.write(content)


def _sync_folder(folder: str) -> None:
    # A rename is durable once its folder is synced. Windows can't open folders and does not need this.
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_scratch(folders: Iterable[str]) -> None:
    """Remove files left in output folders by processes that died: scratch files, and parts of uploads to S3.

    Other stores drop unfinished uploads by themselves.

    Args:
        folders: paths or URLs.
    """
    for url in folders:
        fs, path = resolve(url)
        if is_local(fs) and os.path.isdir(path):
            for name in os.listdir(path):
                if name.startswith(".") and name.endswith(_SCRATCH_ENDING):
                    with writing(url), contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(path, name))
        elif "s3" in fs.protocol:
            # Such parts are invisible and take little space, so it does not matter if the account may not list them.
            with contextlib.suppress(OSError), translate_storage_errors(url):
                _abort_uploads(fs, path)


def _abort_uploads(fs: fsspec.AbstractFileSystem, folder: str) -> None:
    bucket, key, *_ = fs.split_path(folder)
    where = {"Bucket": bucket, "Prefix": f"{key}/" if key else ""}

    def listed() -> dict[str, Any]:
        return fs.call_s3("list_multipart_uploads", **where)

    while True:  # each page once: an upload that can't be aborted would be listed for ever
        page = with_retries(fs, listed)
        for upload in page.get("Uploads", ()):
            with contextlib.suppress(OSError):  # The upload may have ended in the meantime.
                fs.call_s3("abort_multipart_upload", Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        if not page.get("IsTruncated"):
            return
        where |= {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
