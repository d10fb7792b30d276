"""`spanmarker tag --text`: entities of texts on the command line, printed. The stages are those of a run."""

from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from pipelines.jobs.tag_text import TextJob
from pipelines.runs.progress import Display
from pipelines.stages.languages import with_languages
from pipelines.stages.pack import pack
from pipelines.stages.read import INPUTS
from pipelines.stages.split import split
from pipelines.stages.tag import tag
from spanmarker_core.bundle.reader import read_info

#: Styles of labels, in the order in which labels occur.
_STYLES = tuple(f"black on bright_{name}" for name in ("cyan", "yellow", "green", "magenta", "blue", "red"))


def tag_texts(job: TextJob, texts: list[str], console: Console) -> None:
    """Print texts with their entities highlighted, and a line for each entity: score, label, text.

    Args:
        job: the job.
        texts: the texts.
        console: receives the output of the command.

    Raises:
        CodedError: an error of the job or of its model.
    """
    info = read_info(job.model_path)
    job.identity(info)  # Labels and decoder are checked before the model is loaded, which takes seconds.

    # The entities are the output of this command, so its progress is not written there.
    with Display(Console(stderr=True)) as display, display.phase("loading PyTorch and the model"):
        import torch

        from spanmarker_core import load
        from spanmarker_core.inference.input_checks import validate_texts

        texts = validate_texts(texts)
        torch.set_num_threads(job.threads_per_worker)
        model = load(info.path, device=job.device, dtype=job.dtype, gate=job.gate)
    documents = pa.RecordBatch.from_pylist(
        [
            {"document_id": str(number), "source": "", "source_row": number, "text": text}
            for number, text in enumerate(texts)
        ],
        schema=INPUTS,
    )
    task = job.task(info, "")
    sentences = split(with_languages(documents, job.language), breaks=job.sentence_breaks)
    found = tag(pack(sentences, model.packer, model.config.context), model, task.decoder, task.thresholds, task.labels)
    entities = found.to_pylist()
    styles: dict[str, str] = {}
    for number, text in enumerate(texts):
        if number:
            console.print()
        _print(text, [each for each in entities if each["document_id"] == str(number)], styles, console)


def _print(text: str, entities: list[dict[str, Any]], styles: dict[str, str], console: Console) -> None:
    shown = Text(text)
    width = max((len(entity["label"]) for entity in entities), default=0)
    lines = []
    for entity in entities:
        label = entity["label"]
        style = styles.setdefault(label, _STYLES[len(styles) % len(_STYLES)])
        shown.stylize(style, entity["char_start"], entity["char_end"])
        surface = " ".join(entity["text"].split())
        space = " " * (width - len(label) + 2)
        lines.append(Text.assemble(f"  {entity['score']:.3f}  ", (label, style), space, surface))
    for line in [shown, *(lines or [Text("  no entities")])]:
        console.print(line, soft_wrap=not console.is_terminal)
