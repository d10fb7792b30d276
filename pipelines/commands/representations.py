"""`spanmarker representations`: analyses a model's span representations."""

from typing import Annotated

from pipelines.commands.options import Data, Device, Model, Quiet, Scheme, shown
from spanmarker_core.shown import Panel


def representations(
    model: Model,
    data: Data,
    scheme: Scheme = None,
    report: Annotated[
        str | None,
        shown(Panel.FILES, "FOLDER", "Folder for representations.html, representations.md and representations.json."),
    ] = None,
    spans: Annotated[
        int, shown(Panel.FILES, "N", "Maximum number of spans per class; the sample is always the same.", min=1)
    ] = 100,
    device: Device = "cpu",
    dtype: Annotated[
        str, shown(Panel.SPEED, "float32|bfloat16|int8", "float32; bfloat16 or int8, which change representations.")
    ] = "float32",
    quiet: Quiet = False,
) -> None:
    """Analyse a model's span representations: norms and cosines by class and by overlap, and a scatter plot."""
    from contextlib import nullcontext

    from rich.console import Console

    from pipelines.report.folder import refuse_foreign, report_folder
    from pipelines.report.printed import print_markdown, print_plain, wide_console
    from pipelines.report.representations import publish_representations, to_markdown
    from pipelines.runs.progress import Display
    from pipelines.storage import absolute
    from spanmarker_core.bundle.reader import read_info
    from spanmarker_core.bundle.repositories import find_bundle
    from spanmarker_core.data import read_annotated
    from spanmarker_core.data.batches import count_words

    folder = absolute(report) if report else None
    if folder:
        refuse_foreign(folder, "representations", [model, data])
    found = find_bundle(model)
    info = read_info(found.path)
    # The report is the output of this command, so its progress is not written there.
    with Display(Console(stderr=True, quiet=quiet)) as display:
        with display.phase("loading PyTorch and the model"):
            from spanmarker_core import load
            from spanmarker_core.evaluation.representations.representations import analyse

            tagger = load(info.path, device, dtype)
        with display.phase("reading the data"):
            n_words = count_words(read_annotated(data, scheme))
        tagger.progress = display
        facts = {
            "model": found.name,
            "model_digest": info.digest,
            "architecture": info.config.architecture,
            "options": dict(info.config.options),
            "data": data,
            "entity_max_length": info.config.entity_max_length,
            "context": info.config.context.policy,
            "device": str(tagger.device),
            "dtype": dtype,
        }
        # The folder is created last, because that is the last of the checks.
        with (
            report_folder(folder) if folder else nullcontext(),
            display.phase("encoding spans", n_words, "words"),
        ):
            values = analyse(tagger, read_annotated(data, scheme), spans).to_json(facts)
    console = wide_console()
    print_markdown(console, to_markdown(values))
    if folder:
        page = publish_representations(folder, values)
        print_plain(console, f"Report: {page}")
