"""`spanmarker browse`: a page to look around in the rows."""

from typing import Annotated

import typer

from pipelines.commands import options


def browse(
    output: Annotated[str, typer.Argument(help="The --output of a `spanmarker tag`, on this machine.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0 takes one that is free.")] = 8420,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder or URL that the inputs are in: texts are read back from files below it. Repeat for more."
        ),
    ] = None,
    open: Annotated[bool, typer.Option(help="Show the page in the web browser.")] = True,
    storage_option: options.StorageOption = None,
) -> None:
    """Look around in the entities, documents and rejects of an output: a page for a web browser on this machine.

    It only reads, also while a run is writing there. Without --sources it shows entities and no texts: an output from
    somebody else says itself where its documents came from, and could name any file or URL.
    Whoever works on this machine can open the page while it is there. Ctrl-C ends it.
    """
    from pipelines.browse.catalogue import LiveCatalogue, local_folder
    from pipelines.browse.queries import Database
    from pipelines.browse.server import Server
    from pipelines.browse.sources import Sources
    from pipelines.browse.views import Site
    from pipelines.storage import use_options

    use_options(storage_option or [])
    folder = local_folder(output)
    print(f"Reading what is done in {folder}", flush=True)  # A second for ten thousand shards.
    live = LiveCatalogue(folder)
    identity = live.now().identity
    database = Database(folder)
    try:
        texts = Sources(folder, identity["id_column"], identity["text_column"], sources or [])
        site = Site(folder, live, database, texts)
        with Server(port, site.page, site.problem) as server:
            print(f"Browse it at {server.url} (Ctrl-C ends it)", flush=True)
            if open:
                _show(server.url)
            server.serve_forever()
    finally:
        database.close()


def _show(url: str) -> None:
    """Open a page in the user's web browser, where there is a screen: one in a terminal would take the terminal."""
    import os
    import sys
    import webbrowser

    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)
