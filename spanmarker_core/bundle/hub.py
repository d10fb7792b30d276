"""Download and upload of bundles on the Hugging Face Hub.

Only a bundle's own files are downloaded, by name, and they are checked against their digests like those of any
bundle. No code of a repository is downloaded or run.
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

#: Files of a bundle, with the identity last; the card, its metadata and the gate's curve are optional.
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
    """Return the folder of a bundle, after downloading it if it is in a repository of the hub.

    Args:
        name: a folder, or a repository such as "owner/name". A folder of that name takes precedence.
        revision: commit, tag or branch of a repository. Required for a repository, because its default branch can
            change at any time.
        token: access token for the hub; None for the token stored on the computer.
        cache_dir: folder for downloads; None for the hub client's default cache.
        local_files_only: use the cache only and don't send requests, like HF_HUB_OFFLINE=1.

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
    """Copy a bundle to a folder, byte for byte, and return its digest. On failure, nothing is left behind.

    Args:
        bundle: the bundle.
        path: a folder that doesn't exist or is empty.

    Raises:
        CoreError: `bundle.output_exists`, `bundle.output_not_writable`; if the bundle has changed, `hub.changed`,
            `bundle.not_found`, `bundle.missing_file`, `bundle.digest_mismatch`, `bundle.bad_file`,
            `bundle.bad_config`.
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
    """Upload a bundle to a repository of the hub and return the commit, for use as a revision.

    Args:
        bundle: the bundle.
        repository: the repository, such as "owner/name"; it is created if it doesn't exist.
        private: whether a new repository is private; None for the owner's default.
        revision: branch; None for the main branch.
        token: access token for the hub; None for the token stored on the computer.
        commit_message: message of the commit.

    Raises:
        CoreError: `hub.failed`; if the bundle has changed, `hub.changed`, `bundle.not_found`, `bundle.missing_file`,
            `bundle.digest_mismatch`, `bundle.bad_file`, `bundle.bad_config`.
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
    """Download the bundle of a repository and return its folder."""
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
    """Convert errors of the hub's client (access denied, not reachable, offline mode) to `hub.failed`."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CoreError("hub.failed", name=name, reason=reason) from error
