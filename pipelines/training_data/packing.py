"""The tokenizer and the limits used to pack training data."""

import hashlib

from tokenizers import Tokenizer

from pipelines.storage import absolute, join, read_all
from spanmarker_core.windows.packer import Context, Packer


def packing_identity(packer: Packer, context: Context) -> dict[str, str]:
    """Return the settings that determine the windows of given sentences, as strings by name.

    Args:
        packer: the packer.
        context: the text that a window shows around its sentence.
    """
    return {
        "tokenizer": tokenizer_digest(packer.tokenizer),
        "special_tokens": f"{packer.prefix.tolist()} {packer.suffix.tolist()}, unknown {packer.unknown_id}",
        "max_tokens": str(packer.max_tokens),
        "entity_max_length": str(packer.entity_max_length),
        "splitter": packer.splitter,
        "context": context.policy,
        "max_prev_context": str(context.max_prev),
        "max_next_context": str(context.max_next),
    }


def tokenizer_path(output: str) -> str:
    """Return the path of an output's tokenizer.

    Args:
        output: the output folder.
    """
    return join(absolute(output), "tokenizer.json")


def read_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer in a file.

    Args:
        path: a path or URL.
    """
    return Tokenizer.from_str(read_all([path])[0].decode())


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """Return a digest of everything that determines the results of a tokenizer: SHA-256, hexadecimal.

    Args:
        tokenizer: the tokenizer.
    """
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
