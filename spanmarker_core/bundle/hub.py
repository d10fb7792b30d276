"""Copies of bundles: to a folder, and to a repository of the Hugging Face Hub."""

import shutil
from pathlib import Path

from spanmarker_core.bundle.reader import BundleInfo, read_info
from spanmarker_core.bundle.repositories import BUNDLE_FILES
from spanmarker_core.errors import CoreError, single_line


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
    from spanmarker_core.bundle.writer import check_output, whole_or_nothing  # It imports torch.

    check_output(path)
    path = Path(path)
    with whole_or_nothing(path, BUNDLE_FILES):
        for name in BUNDLE_FILES:
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
        revision: branch, which is created from the main branch if it doesn't exist; None for the main branch.
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
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(repository, branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=bundle.path,
            allow_patterns=list(BUNDLE_FILES),
            revision=revision,
            commit_message=commit_message,
        )
    except Exception as error:  # access denied, not reachable, offline mode, …
        reason = single_line(error, 500) or type(error).__name__
        raise CoreError("hub.failed", name=repository, reason=reason) from error
    return commit.oid


def url_of(repository: str) -> str:
    """Return the address of a repository's page.

    Args:
        repository: the repository, such as "owner/name".
    """
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{repository}"
