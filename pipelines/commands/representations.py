"""`spanmarker representations`: analyses a model's span representations."""

from typing import Annotated

from pipelines.commands.options import Data, Device, Model, Scheme, shown
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
) -> None:
    """Analyse a model's span representations: norms and cosines by class and by overlap, and a scatter plot."""
    from contextlib import nullcontext

    from pipelines.report.folder import refuse_foreign, report_folder
    from pipelines.report.printed import print_markdown, print_plain, wide_console
    from pipelines.report.representations import publish_representations, to_markdown
    from pipelines.storage import absolute
    from spanmarker_core import load
    from spanmarker_core.bundle.reader import read_info
    from spanmarker_core.bundle.repositories import find_bundle
    from spanmarker_core.data import read_annotated
    from spanmarker_core.evaluation.representations.representations import analyse

    folder = absolute(report) if report else None
    if folder:
        refuse_foreign(folder, "representations", [model, data])
    found = find_bundle(model)
    info = read_info(found.path)
    sentences = read_annotated(data, scheme)
    tagger = load(info.path, device, dtype)
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
    with report_folder(folder) if folder else nullcontext():  # last of the checks, because it creates the folder
        values = analyse(tagger, sentences, spans).to_json(facts)
    console = wide_console()
    print_markdown(console, to_markdown(values))
    if folder:
        page = publish_representations(folder, values)
        print_plain(console, f"Report: {page}")
