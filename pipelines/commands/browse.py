"""`spanmarker browse`: a local web page for exploring an output."""

import inspect
from typing import Annotated, Any

import typer

from pipelines.commands.options import options_of, shown, with_options
from spanmarker_core.shown import Panel


def _options() -> list[inspect.Parameter]:
    from pipelines.jobs.base import ShardJob

    return options_of(ShardJob, without=ShardJob.model_fields.keys() - {"storage_option"})


@with_options(_options)
def browse(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="Output folder of `spanmarker tag`: a path or URL.")],
    port: Annotated[
        int, shown(Panel.FILES, "PORT", "Port on 127.0.0.1; 0 selects a free one.", min=0, max=65535)
    ] = 8420,
    sources: Annotated[
        list[str] | None,
        shown(
            Panel.FILES,
            "FOLDER",
            "Folder or URL that contains the inputs: texts are read from files below it. Can be repeated.",
        ),
    ] = None,
    open: Annotated[bool, shown(Panel.FILES, None, "Open the page in the web browser.")] = True,
    **options: Any,
) -> None:
    """Explore the entities, documents and rejects of an output in a web browser on this machine.

    The command only reads, and can be used while a run is writing. Without --sources it shows entities but no texts: an
    output from somebody else names the sources of its documents itself, and could name any file or URL.
    All users of this machine can open the page while the command runs. Ctrl-C ends it.
    """
    from pipelines.browse.catalogue import LiveCatalogue, output_folder
    from pipelines.browse.database import Database
    from pipelines.browse.server import Server
    from pipelines.browse.views import Site
    from pipelines.storage import use_options
    from pipelines.texts.sources import Sources

    use_options(options["storage_option"] or [])
    folder = output_folder(output)
    print(f"Reading the finished shards of {folder}", flush=True)  # takes one second for ten thousand shards
    live = LiveCatalogue(folder)
    identity = live.now().identity
    database = Database(folder)
    try:
        texts = Sources(folder, identity["id_column"], identity["text_column"], sources or [])
        site = Site(folder, live, database, texts)
        with Server(port, site.page, site.error_page) as server:
            print(f"Open {server.url} in a browser (stop with Ctrl-C)", flush=True)
            if open:
                _show(server.url)
            server.run()
    except KeyboardInterrupt as error:
        error.add_note("The server has stopped.")
        raise
    finally:
        database.close()


def _show(url: str) -> None:
    """Open a URL in the user's graphical web browser. A browser in text mode would take over the terminal."""
    import os
    import sys
    import webbrowser

    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)
