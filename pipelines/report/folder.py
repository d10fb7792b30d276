"""The folder of a report."""

import contextlib
from collections.abc import Iterator

from pipelines.storage import exists, join, make_folder, publish_bytes, remove, resolve


@contextlib.contextmanager
def report_folder(folder: str) -> Iterator[None]:
    """Find out that the folder can be written before work is spent on it, which is then the block.

    What was there stays until the block replaces it. A folder that was made for a block that fails goes again.

    Raises:
        PipelineError: `output.not_writable`.
    """
    there = exists(folder)
    make_folder(folder)
    probe = join(folder, ".probe")
    publish_bytes(probe, b"")
    remove(probe)
    try:
        yield
    except BaseException:
        if not there:
            fs, path = resolve(folder)
            with contextlib.suppress(OSError):
                fs.rmdir(path)
        raise
