"""Standard input as an input file: a copy in the output folder, where workers and later runs can read it."""

import atexit
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from typing import IO

from pipelines.storage import exists, join, make_folder, publish, writing

#: The names of standard input among the inputs of a job.
STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0")

_FOLDER = "stdin"
_BLOCK = 1 << 20


def _spooled(output: str) -> str:
    """Copy standard input to a file named by its content, and return the path of the file.

    The same content gives the same file, so a run that is repeated with it finds its shards done.

    Args:
        output: the output folder; the caller holds its lock.

    Raises:
        PipelineError: `output.not_writable`.
    """
    copy, digest = _copied(sys.stdin.buffer)
    path = join(output, _FOLDER, f"{digest}.jsonl")
    if not exists(path):
        make_folder(join(output, _FOLDER))
        with open(copy, "rb") as content, publish(path) as file, writing(path):
            shutil.copyfileobj(content, file, _BLOCK)
    return path


def with_copies(patterns: Iterable[str], output: str | None) -> list[str]:
    """Return inputs with the path of a copy in the place of standard input.

    Args:
        patterns: the inputs.
        output: the output folder, whose lock is held, for a copy that lasts; None for one on this machine that lasts as
            long as this process.

    Raises:
        PipelineError: `output.not_writable`.
    """
    given = list(patterns)
    if not any(pattern in STANDARD_INPUT for pattern in given):
        return given
    copy = _copied(sys.stdin.buffer)[0] if output is None else _spooled(output)
    return [copy if pattern in STANDARD_INPUT else pattern for pattern in given]


@lru_cache(maxsize=1)
def _copied(stream: IO[bytes]) -> tuple[str, str]:
    """Return path and digest of a copy of a stream, which can be read only once."""
    digest = hashlib.blake2b(digest_size=16)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = join(folder, "stdin.jsonl")
    with writing(folder), open(path, "wb") as copy:
        while block := stream.read(_BLOCK):
            digest.update(block)
            copy.write(block)
    return path, digest.hexdigest()


def is_spooled(path: str, output: str) -> bool:
    """Return whether a file is a copy of standard input in an output.

    Args:
        path: a path or URL.
        output: the output folder.
    """
    return path.startswith(join(output, _FOLDER) + "/")
