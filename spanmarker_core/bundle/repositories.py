"""Models that a user names: a folder, or a repository of the Hugging Face Hub such as owner/name@revision.

A path that exists takes precedence. The branch or tag of a repository is resolved to a commit, and what was found is
known by that commit, so that other machines and later readers of a card get the same files. Only files of known names
are downloaded, and no code of a repository is downloaded or run.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanmarker_core.bundle.reader import CARD, CARD_FACTS, CONFIG, DIGESTS, GATE_CURVE, TOKENIZER, WEIGHTS
from spanmarker_core.errors import CoreError, single_line

#: Files of a bundle, with the identity last; the card, its metadata and the gate's curve are optional.
BUNDLE_FILES = (WEIGHTS, CONFIG, TOKENIZER, CARD, CARD_FACTS, GATE_CURVE, DIGESTS)

_TOKENIZER_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)
_TEXT_FILES = ("README.md", "LICENSE", "LICENSE.txt", "LICENSE.md")
_SAFETENSORS = ("model.safetensors", "model-*.safetensors", "model.safetensors.index.json")
_PICKLES = ("pytorch_model.bin", "pytorch_model-*.bin", "pytorch_model.bin.index.json")

_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@([^\s@]+))?")
_MAIN = "main"

#: Folders of commits that this process has found, by cache, repository, commit and files.
_commits: dict[tuple[str, str, str, tuple[str, ...]], Path] = {}


@dataclass(frozen=True, slots=True)
class Found:
    """A model on this machine.

    Attributes:
        path: its folder.
        name: its name: the folder as it was given, or owner/name@commit.
        repository: owner/name; None for a folder.
        commit: the commit of the repository; None for a folder.
    """

    path: Path
    name: str
    repository: str | None = None
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the hub.

    Attributes:
        token: access token; None for the token stored on the computer.
        cache_dir: folder for downloads; None for the hub client's default cache.
        local_files_only: use the cache only and send no requests, like HF_HUB_OFFLINE=1.
    """

    token: str | bool | None = None
    cache_dir: str | Path | None = None
    local_files_only: bool = False


def repository_of(name: str | Path) -> tuple[str, str | None] | None:
    """Return (repository, revision) of a name of the hub; None for a path, and for what is neither.

    The revision is None if the name has none. A path that exists takes precedence.

    Args:
        name: the name that a user gave.

    >>> repository_of("owner/name@v1.0"), repository_of("owner/name"), repository_of("./owner/name")
    (('owner/name', 'v1.0'), ('owner/name', None), None)
    """
    form = _NAME.fullmatch(str(name))
    if form is None or Path(name).exists():
        return None
    return form[1], form[2]


def find_bundle(name: str | Path, revision: str | None = None, access: Access | None = None) -> Found:
    """Return a bundle, after downloading it if it is in a repository.

    Args:
        name: a folder, or a repository: owner/name, or owner/name@revision.
        revision: commit, tag or branch of the repository; None for that of the name, or else the main branch.
        access: how to reach the hub; None for the defaults.

    Raises:
        CoreError: `hub.not_found`, `hub.not_a_bundle`, and those of `download`.
    """
    found = _find(name, "hub.not_found", BUNDLE_FILES, revision, access)
    if found.repository is not None and not (found.path / DIGESTS).is_file():
        raise CoreError("hub.not_a_bundle", name=found.repository, revision=found.commit, file=DIGESTS)
    return found


def find_encoder(name: str | Path, *, weights: bool = True) -> Found:
    """Return a pretrained encoder, after downloading it if it is in a repository.

    Args:
        name: a folder, or a repository: owner/name, or owner/name@revision.
        weights: whether the weights are needed; config and tokenizer always are.

    Raises:
        CoreError: `encoder.not_found`, and those of `download`.
    """
    return _find(name, "encoder.not_found", (*_TOKENIZER_FILES, *_TEXT_FILES, *(_SAFETENSORS if weights else ())))


def find_checkpoint(name: str | Path) -> Found:
    """Return a checkpoint of the span_marker library, after downloading it if it is in a repository.

    Args:
        name: a folder, or a repository: owner/name, or owner/name@revision.

    Raises:
        CoreError: `checkpoint.not_found`, and those of `download`.
    """
    found = _find(name, "checkpoint.not_found", (*_TOKENIZER_FILES, *_TEXT_FILES, *_SAFETENSORS))
    safe = any((found.path / weights).is_file() for weights in ("model.safetensors", "model.safetensors.index.json"))
    if found.repository is None or safe:
        return found
    return _find(found.name, "checkpoint.not_found", (*_TOKENIZER_FILES, *_TEXT_FILES, *_PICKLES))


def _find(
    name: str | Path, code: str, files: tuple[str, ...], revision: str | None = None, access: Access | None = None
) -> Found:
    """Return a folder, or a repository with these files; `code` is the error for what is neither."""
    named = repository_of(name)
    if named is None:
        if not Path(name).is_dir():
            raise CoreError(code, path=name)
        return Found(Path(name), str(name))
    repository, of_name = named
    if None not in (revision, of_name) and revision != of_name:
        raise CoreError("hub.two_revisions", name=name, revision=revision)
    path = download(repository, revision or of_name or _MAIN, files, access or Access())
    return Found(path, f"{repository}@{path.name}", repository, path.name)


def download(repository: str, revision: str, files: tuple[str, ...], access: Access) -> Path:
    """Download files of a repository, as far as it has them, and return their folder, which is named by the commit.

    Args:
        repository: owner/name.
        revision: commit, tag or branch.
        files: names and patterns of the files.
        access: how to reach the hub.

    Raises:
        CoreError: `hub.no_repository`, `hub.no_revision`, `hub.not_cached`, `hub.not_reached`, `hub.failed`.
    """
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        """A bar on terminals only."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "disable": options.get("disable") or None})  # type: ignore[no-untyped-call]

    cache = str(access.cache_dir or constants.HF_HUB_CACHE)
    known = _commits.get((cache, repository, revision, files))
    if known is not None and known.is_dir():
        return known
    with asking(repository, revision, access):
        folder = Path(
            snapshot_download(
                repository,
                revision=revision,
                token=access.token,
                cache_dir=access.cache_dir,
                local_files_only=access.local_files_only,
                allow_patterns=list(files),
                tqdm_class=Bar,
            )
        )
    _commits[cache, repository, folder.name, files] = folder
    return folder


@contextmanager
def asking(repository: str, revision: str, access: Access) -> Iterator[None]:
    """Convert errors of the hub's client.

    Args:
        repository: owner/name.
        revision: commit, tag or branch.
        access: how to reach the hub.

    Raises:
        CoreError: `hub.no_repository`, `hub.no_revision`, `hub.not_cached`, `hub.not_reached`, `hub.failed`.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    values: dict[str, Any] = {"name": repository, "revision": revision}
    try:
        yield
    except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        if not (access.local_files_only or constants.HF_HUB_OFFLINE):
            raise CoreError("hub.not_reached", **values, reason=_reason(error.__cause__ or error)) from error
        option = "local_files_only is set" if access.local_files_only else "HF_HUB_OFFLINE is set"
        cache = access.cache_dir or constants.HF_HUB_CACHE
        raise CoreError("hub.not_cached", **values, cache=cache, option=option) from error
    except RevisionNotFoundError as error:
        raise CoreError("hub.no_revision", **values) from error
    except RepositoryNotFoundError as error:
        if isinstance(error, GatedRepoError):
            raise CoreError("hub.failed", name=repository, reason=_reason(error)) from error
        raise CoreError("hub.no_repository", name=repository) from error
    except Exception as error:
        raise CoreError("hub.failed", name=repository, reason=_reason(error)) from error


def _reason(error: BaseException) -> str:
    return single_line(error, 500) or type(error).__name__
