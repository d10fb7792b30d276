"""Bundles by the names of the Hugging Face Hub: from a folder or a repository, to a folder, to a repository.

What is fetched is a bundle's own files under their names and nothing else; they are checked against their digests
as every bundle is. No code of a repository is fetched, let alone run.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spanmarker_core.bundle.reader import (
    CARD,
    CARD_FACTS,
    CONFIG,
    DIGESTS,
    GATE_CURVE,
    TOKENIZER,
    WEIGHTS,
    BundleInfo,
    read_info,
)
from spanmarker_core.bundle.writer import check_output, whole_or_nothing
from spanmarker_core.errors import CoreError

#: What a bundle consists of, the identity last; a bundle may lack the card, its facts and the curve.
FILES = (WEIGHTS, CONFIG, TOKENIZER, CARD, CARD_FACTS, GATE_CURVE, DIGESTS)

_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def local_folder(
    name: str | Path,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
) -> Path:
    """Return the folder of a bundle; one in a repository of the hub is downloaded.

    Args:
        name: a folder, or a repository, such as "owner/name". A folder of that name comes first.
        revision: commit, tag or branch of a repository. Has to be named: the default branch may change from one day to
            the next.
        token: for the hub; None takes the one that is stored on this machine.
        cache_dir: folder for downloads; None is the hub client's own cache.
        local_files_only: use the cache only and send no request, as with HF_HUB_OFFLINE=1.

    Raises:
        CoreError: `hub.not_found`, `hub.no_revision`, `hub.not_a_bundle`, `hub.failed`.
    """
    if Path(name).is_dir():
        return Path(name)
    if not _REPOSITORY.fullmatch(str(name)):
        raise CoreError("hub.not_found", name=name)
    if revision is None:
        raise CoreError("hub.no_revision", name=name)
    return _downloaded(str(name), revision, token, cache_dir, local_files_only)


def save_pretrained(bundle: BundleInfo, path: str | Path) -> str:
    """Copy a bundle to a folder, byte by byte; return its digest. What ends it early leaves nothing behind.

    Raises:
        CoreError: `bundle.output_exists`, `bundle.output_not_writable`, and those of `read_info` if the bundle is no
            longer what it was.
    """
    check_output(path)
    path = Path(path)
    with whole_or_nothing(path, FILES):
        for name in FILES:
            if (bundle.path / name).is_file():
                shutil.copyfile(bundle.path / name, path / name)
        found = read_info(path).digest
        if found != bundle.digest:
            raise CoreError("hub.changed", path=bundle.path, found=found, expected=bundle.digest)
    return found


def push_to_hub(
    bundle: BundleInfo,
    repository: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    commit_message: str = "Upload span-marker bundle",
) -> str:
    """Upload a bundle to a repository of the hub, made if it isn't there; return the commit, to load it by.

    Args:
        bundle: what `read_info` says of it.
        repository: such as "owner/name".
        private: whether a new repository can be seen by its owners only; None is as the owner has it by default.
        revision: branch; None is the main one.
        token: for the hub; None is what is stored on this machine.
        commit_message: of the commit.

    Raises:
        CoreError: `hub.failed`, and those of `read_info` if the bundle is no longer what it was.
    """
    from huggingface_hub import HfApi

    found = read_info(bundle.path).digest
    if found != bundle.digest:
        raise CoreError("hub.changed", path=bundle.path, found=found, expected=bundle.digest)
    api = HfApi(token=token)
    with _asking(repository):
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=bundle.path,
            allow_patterns=list(FILES),
            revision=revision,
            commit_message=commit_message,
        )
    return commit.oid


def _downloaded(
    name: str, revision: str, token: str | bool | None, cache_dir: str | Path | None, local_files_only: bool
) -> Path:
    """Return the folder that holds a repository's bundle."""
    from huggingface_hub import snapshot_download

    with _asking(name):
        folder = snapshot_download(
            name,
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            allow_patterns=list(FILES),
        )
    if not (Path(folder) / DIGESTS).is_file():
        raise CoreError("hub.not_a_bundle", name=name, revision=revision, file=DIGESTS)
    return Path(folder)


@contextmanager
def _asking(name: str) -> Iterator[None]:
    """Turn what the hub's client raises (a hub that says no, isn't there, may not be asked) into `hub.failed`."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CoreError("hub.failed", name=name, reason=reason) from error
