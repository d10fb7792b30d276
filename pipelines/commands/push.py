"""`spanmarker push`: uploads a bundle to a model hub."""

from typing import Annotated

import typer

from pipelines.commands.options import shown
from spanmarker_core.shown import Panel


def push(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE", help="Folder of the bundle.")],
    repository: Annotated[
        str,
        typer.Argument(
            metavar="OWNER/NAME", help="Repository on the Hub, owner/name; it is created if it does not exist."
        ),
    ],
    private: Annotated[
        bool | None,
        shown(
            Panel.MODEL, None, "Visibility of a new repository.  [default: the owner's default]", "--private/--public"
        ),
    ] = None,
    branch: Annotated[
        str | None,
        shown(Panel.MODEL, "BRANCH", "Branch, which is created if it does not exist.  [default: main]"),
    ] = None,
    message: Annotated[str, shown(Panel.MODEL, "TEXT", "Message of the commit.")] = "Upload span-marker bundle",
) -> None:
    """Upload a bundle with its card to the Hugging Face Hub, and print its address and the commit.

    Log in first (`hf auth login`), or set HF_TOKEN. Other files of the folder are not uploaded.
    """
    from rich.console import Console

    from spanmarker_core.bundle.hub import push_to_hub, url_of
    from spanmarker_core.bundle.reader import read_info

    info = read_info(bundle)
    commit = push_to_hub(info, repository, private=private, revision=branch, commit_message=message)
    console = Console()
    for line in (url_of(repository), f"Commit {commit}. Use it anywhere: --model {repository}@{commit}"):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
