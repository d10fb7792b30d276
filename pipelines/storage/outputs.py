"""Outputs that appear whole or not at all.

An output is always written to a local scratch file first. On a local disk that file lies in the target's folder, is
synced and renamed; for any other store it is uploaded, in one request or in parts that are joined at the end, which
shows the object when it is complete and not before.
"""

import contextlib
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


@contextlib.contextmanager
def writing(url: str) -> Iterator[None]:
    """Turn what a full disk, a missing permission or a lost store raises into a coded error."""
    try:
        yield
    except OSError as error:
        raise PipelineError("output.not_writable", path=url, reason=_reason(error)) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).rstrip(".")


@contextlib.contextmanager
def publish(url: str) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears at `url` whole, when the block ends well, or not at all.

    The file yielded is a real local file. If the block raises, nothing is left behind; if the process dies,
    a scratch file or a part of an upload may stay, which `remove_scratch` clears.
    """
    fs, path = resolve(url)
    local = is_local(fs)
    folder, _, name = path.rpartition("/")
    scratch_folder = folder if local else tempfile.gettempdir()
    scratch = os.path.join(scratch_folder, f".{name}.{secrets.token_hex(4)}{_SCRATCH_ENDING}")
    try:
        with writing(url):
            file = open(scratch, "xb")  # noqa: SIM115 - closed below, where its error is the disk's
        try:
            yield file
            with writing(url):
                file.flush()
                os.fsync(file.fileno())
                file.close()
        finally:
            with contextlib.suppress(OSError):  # On a full disk this one fails like the write that is reported.
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
    """Publish a small file whole."""
    with publish(url) as file, writing(url):
        file.write(content)


def _sync_folder(folder: str) -> None:
    # A rename is on the disk when its folder is. Windows can't open folders and needs no such thing.
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_scratch(folders: Iterable[str]) -> None:
    """Remove what processes that died left in output folders: scratch files, and parts of uploads to S3.

    Other stores drop unfinished uploads by themselves.
    """
    for url in folders:
        fs, path = resolve(url)
        if is_local(fs) and os.path.isdir(path):
            for name in os.listdir(path):
                if name.startswith(".") and name.endswith(_SCRATCH_ENDING):
                    with writing(url), contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(path, name))
        elif "s3" in fs.protocol:
            # They are invisible and cost a little room, so an account that may not list them goes without.
            with contextlib.suppress(OSError), translate_storage_errors(url):
                _abort_uploads(fs, path)


def _abort_uploads(fs: fsspec.AbstractFileSystem, folder: str) -> None:
    bucket, key, *_ = fs.split_path(folder)
    where = {"Bucket": bucket, "Prefix": f"{key}/" if key else ""}

    def listed() -> dict[str, Any]:
        return fs.call_s3("list_multipart_uploads", **where)

    while True:  # over pages, each once: what can't be aborted would be listed for ever
        page = with_retries(fs, listed)
        for upload in page.get("Uploads", ()):
            with contextlib.suppress(OSError):  # It may have ended meanwhile.
                fs.call_s3("abort_multipart_upload", Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        if not page.get("IsTruncated"):
            return
        where |= {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
