"""Configuration of `spanmarker train`: flat, typed, closed, like every job."""

from itertools import islice
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from rich.console import Console

from spanmarker_core.data import read_annotated
from spanmarker_core.training import TrainingSettings, train
from spanmarker_core.windows import Context


class TrainJob(BaseModel):
    """One `spanmarker train`. The training defaults are the thesis's (Appendix C, FewNERD, BERT-base)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: str = Field(description="annotated sentences: .jsonl, CoNLL, or a folder saved by `datasets`")
    dev: str = Field(description="annotated sentences that choose the best epoch")
    test: str | None = Field(None, description="annotated sentences scored once at the end, for the card")
    scheme: str | None = Field(None, description="label scheme of tagged data, such as IOB2")
    encoder: str = Field(description="folder of a pretrained transformers encoder")
    output: str = Field(description="folder for the bundle; must not exist or be empty")

    train_sentences: int | None = Field(None, ge=1, description="take the first so many training sentences")
    encoder_layers: int | None = Field(None, ge=1, description="keep the encoder's first layers only")
    pair_layers: int | None = Field(None, ge=0, description="let markers pair in the top layers only; all if left out")
    gate: bool = Field(False, description="train a gate too: which words start and end entities")
    gate_weight: float = Field(0.2, gt=0, lt=1, description="share of the gate in the loss")
    gate_share: float = Field(0.05, ge=0, le=1, description="with a gate: share of spans at other words to train on")
    entity_max_length: int = Field(8, ge=1, description="words of the longest entity")
    max_tokens: int = Field(256, ge=16, description="tokens of a window")
    context: Literal["sentence", "document", "block"] = Field("sentence", description="what a window shows and tags")
    max_prev_context: int | None = Field(None, ge=0, description="limit of previous sentences; none if left out")
    max_next_context: int | None = Field(None, ge=0, description="limit of next sentences; none if left out")
    splitter: Literal["words.v1", "tokenizer.v1"] = Field("words.v1", description="how raw text becomes words")
    learning_rate: float = Field(5e-5, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(0.01, ge=0)
    warmup_share: float = Field(0.1, ge=0, lt=1, description="share of the steps in which the rate rises")
    batch_size: int = Field(32, ge=1, description="windows a step")
    epochs: int = Field(3, ge=1)
    seed: int = Field(42, ge=0)
    weight_dtype: Literal["float32", "float16"] = Field("float32", description="how weights are stored")
    device: str = Field("auto", description="cpu, cuda or auto")

    name: str | None = Field(None, description="for the card: name of the model")
    description: str | None = Field(None, description="for the card: what it is")
    licence: str | None = Field(None, description="for the card: licence, in words")
    licence_id: str | None = Field(None, description="for the card: licence, as model hubs name it")
    training_data: str | None = Field(None, description="for the card: name and source of the data")
    encoder_name: str | None = Field(None, description="for the card: name of the encoder")
    not_for: str | None = Field(None, description="for the card: what the model must not be used for")

    @model_validator(mode="after")
    def _options_of_a_gate(self) -> "TrainJob":
        if not self.gate and (given := sorted({"gate_weight", "gate_share"} & self.model_fields_set)):
            raise ValueError(f"{', '.join(given)} given, and no gate is trained: give gate too, or leave them out")
        return self

    def settings(self) -> TrainingSettings:
        """Return the plain arguments that the core takes."""
        return TrainingSettings(
            context=Context(self.context, self.max_prev_context, self.max_next_context),
            **{name: getattr(self, name) for name in TrainingSettings.__dataclass_fields__ if name != "context"},
        )

    def facts(self) -> dict[str, Any]:
        """Return what the card tells in words."""
        names = ("name", "description", "licence", "licence_id", "training_data", "encoder_name", "not_for")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def run_training(job: TrainJob, console: Console) -> None:
    """Read the data, train, write the bundle and say how good it is."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False)

    settings = job.settings()
    result = train(
        list(islice(read_annotated(job.train, job.scheme), job.train_sentences)),
        list(read_annotated(job.dev, job.scheme)),
        job.encoder,
        job.output,
        settings,
        test_sentences=list(read_annotated(job.test, job.scheme)) if job.test else (),
        facts=job.facts(),
        log=say,
    )
    say(
        f"{job.output}: dev F1 {result.dev.micro.f1:.1%} after {result.steps} steps "
        f"in {result.seconds:.0f} s, model {result.digest[:12]}"
    )
