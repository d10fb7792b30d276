"""The tokenizer and the limits that training data were packed with."""

import hashlib

from tokenizers import Tokenizer

from pipelines.storage import absolute, join, read_all
from spanmarker_core.windows.packer import Context, Packer


def packing_identity(packer: Packer, context: Context) -> dict[str, str]:
    """Return all that decides the windows of given sentences."""
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
    """Return where an output's tokenizer lies."""
    return join(absolute(output), "tokenizer.json")


def read_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer in a file, which may lie in a store."""
    return Tokenizer.from_str(read_all([path])[0].decode())


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """Return a digest of all that a tokenizer does."""
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
