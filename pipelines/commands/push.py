"""`spanmarker push`: uploads a bundle to a model hub."""

from typing import Annotated

import typer


def push(
    bundle: Annotated[str, typer.Argument(help="Folder of the bundle.")],
    repository: Annotated[
        str, typer.Argument(help="Repository of the Hub, owner/name; it is created if it does not exist.")
    ],
    private: Annotated[
        bool | None,
        typer.Option("--private/--public", help="Visibility of a new repository.  [default: the owner's default]"),
    ] = None,
    branch: Annotated[
        str | None, typer.Option(help="Branch, which is created if it does not exist.  [default: main]")
    ] = None,
    message: Annotated[str, typer.Option(help="Message of the commit.")] = "Upload span-marker bundle",
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
