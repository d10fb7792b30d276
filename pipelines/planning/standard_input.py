"""Standard input as an input file: a copy in the output folder, where workers and later runs can read it."""

import hashlib
import shutil
import sys
import tempfile

from pipelines.storage import exists, join, make_folder, publish, writing

#: The name of standard input among the inputs of a job.
STANDARD_INPUT = "-"

_FOLDER = "stdin"
_BLOCK = 1 << 20


def spooled(output: str) -> str:
    """Copy standard input to a file named by its content, and return the path of the file.

    The same content gives the same file, so a run that is repeated with it finds its shards done.

    Args:
        output: the output folder; the caller holds its lock.

    Raises:
        PipelineError: `output.not_writable`.
    """
    digest = hashlib.blake2b(digest_size=16)
    with tempfile.TemporaryFile() as copy:
        with writing(tempfile.gettempdir()):
            while block := sys.stdin.buffer.read(_BLOCK):
                digest.update(block)
                copy.write(block)
        path = join(output, _FOLDER, f"{digest.hexdigest()}.jsonl")
        if not exists(path):
            make_folder(join(output, _FOLDER))
            copy.seek(0)
            with publish(path) as file, writing(path):
                shutil.copyfileobj(copy, file, _BLOCK)
    return path


def is_spooled(path: str, output: str) -> bool:
    """Return whether a file is a copy of standard input in an output.

    Args:
        path: a path or URL.
        output: the output folder.
    """
    return path.startswith(join(output, _FOLDER) + "/")
