"""One training run: report what can't be learned, train, keep the best on dev, write a bundle."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic

import torch
from torch import Tensor, nn
from transformers import PrinterCallback, Trainer, TrainerControl, TrainingArguments, set_seed

from spanmarker_core.bundle import ModelConfig, packer_of
from spanmarker_core.data import Sentence
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.gate import THRESHOLDS, GateScores, annotated_windows, best_threshold
from spanmarker_core.evaluation.metrics import EvaluationResult
from spanmarker_core.evaluation.reach import length_report
from spanmarker_core.evaluation.run import evaluate
from spanmarker_core.model_card import card_files, model_card
from spanmarker_core.models.batch import Batch
from spanmarker_core.saving import WEIGHT_DTYPES, check_output, save_bundle
from spanmarker_core.tagger import Tagger, choose_device
from spanmarker_core.training.encoder import new_model
from spanmarker_core.training.examples import SpanExamples
from spanmarker_core.training.settings import TrainingSettings


@dataclass(frozen=True)
class TrainingResult:
    """What a run made: the model's digest, its dev scores, steps and seconds."""

    digest: str
    dev: EvaluationResult
    steps: int
    seconds: float


class SpanLoss(nn.Module):
    """A network with its training loss: cross-entropy over the batch's spans, classes weighted equally.

    With a gate, w · gate + (1 - w) · spans, where the gate's part is the binary cross-entropy of its two answers a
    word. Sources: thesis 2.3.1; SmartSpanner, equations 6 and 7.

    Args:
        network: the model.
        gate_weight: w.
    """

    def __init__(self, network: nn.Module, gate_weight: float) -> None:
        super().__init__()
        self.network = network
        self.gate_weight = gate_weight

    def forward(self, batch: Batch, labels: Tensor, gate: Tensor, asked: Tensor) -> dict[str, Tensor]:
        """Return `{"loss": scalar}`; labels int64 [n_spans], gate and asked [n_words, 2] as `collate` made them."""
        scores = self.network(batch.to(labels.device))
        # A sum, since the mean over no spans is not a number.
        loss = nn.functional.cross_entropy(scores.logits, labels, reduction="sum") / max(1, len(labels))
        if scores.gate is not None:
            gate_loss = nn.functional.binary_cross_entropy_with_logits(scores.gate, gate, asked, reduction="sum")
            gate_loss = gate_loss / asked.sum().clamp_min(1)
            loss = self.gate_weight * gate_loss + (1 - self.gate_weight) * loss
        return {"loss": loss}


class SpanTrainer(Trainer):
    """transformers' Trainer whose evaluation tags the dev sentences and scores entities."""

    def __init__(self, tagger: Tagger, dev: Sequence[Sentence], log: Callable[[str], None], **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.remove_callback(PrinterCallback)
        self.control: TrainerControl
        self.tagger = tagger
        self.dev = dev
        self.say = log

    def evaluate(self, *args: object, **kwargs: object) -> dict[str, float]:
        """Return entity F1 on dev, as Trainer tracks it; with a gate, at the threshold that is best now."""
        self.tagger.network.eval()
        if self.tagger.config.gate is None:
            f1, at = evaluate(self.tagger, self.dev).micro.f1, ""
        else:
            curve = gate_curve(self.tagger, self.dev)
            threshold = best_threshold(curve)
            f1 = next(point["f1"] for point in curve if point["threshold"] == threshold)
            at = f" with the gate at {threshold}"
        metrics = {"eval_f1": f1}
        self.say(f"epoch {self.state.epoch:.2f}: dev F1 {f1:.2%}{at}")
        self.log(metrics)
        # Trainer's own loop reads `control` after this, which is how it learns that a checkpoint is due.
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def train(
    train_sentences: Sequence[Sentence],
    dev_sentences: Sequence[Sentence],
    encoder_path: str | Path,
    output: str | Path,
    settings: TrainingSettings,
    *,
    test_sentences: Sequence[Sentence] = (),
    facts: dict[str, object] | None = None,
    log: Callable[[str], None] = print,
) -> TrainingResult:
    """Train a model on annotated sentences and write it as a bundle.

    Args:
        train_sentences, dev_sentences: annotated; the sentences of a document next to each other.
        encoder_path: a pretrained encoder in a local folder.
        output: the bundle's folder; must not exist or be empty.
        settings: see `TrainingSettings`.
        test_sentences: scored once at the end, for the card; they steer nothing.
        facts: what else the card should tell, such as names and licences of the data.
        log: takes lines about progress.

    Raises:
        CoreError: `bundle.output_exists`, `encoder.*`, `data.no_entities`, `data.no_common_label`.
    """
    check_output(output)
    labels = _labels(train_sentences, "training")
    for sentences, split in ((dev_sentences, "dev"), (test_sentences, "test")):
        if split == "test" and not sentences:
            continue
        gold = _labels(sentences, split)
        if not set(gold) & set(labels):
            raise CoreError("data.no_common_label", found=", ".join(gold), labels=", ".join(labels))
        if unseen := sorted(set(gold) - set(labels)):
            log(f"Labels of {split} that training never shows, which count as misses: {', '.join(unseen)}")
    log(length_report(train_sentences, settings.entity_max_length).to_text())
    set_seed(settings.seed)
    config, network, tokenizer = new_model(encoder_path, labels, settings)
    device = choose_device(settings.device)
    packer = packer_of(config, tokenizer)
    examples = SpanExamples(
        train_sentences,
        packer,
        settings.context,
        config.labels,
        config.outside_index,
        share=settings.gate_share if settings.gate else None,
        seed=settings.seed,
    )
    if examples.spans_of_several_labels:
        log(f"{examples.spans_of_several_labels} spans have several labels; the first by name is learned.")
    tagger = Tagger(config, packer, network, device)
    with tempfile.TemporaryDirectory(prefix="spanmarker-train-") as scratch:
        trainer = SpanTrainer(
            tagger,
            dev_sentences,
            log,
            model=SpanLoss(network, settings.gate_weight),
            args=_arguments(settings, scratch, device),
            train_dataset=examples,
            eval_dataset=examples,
            data_collator=examples.collate,
        )
        began = monotonic()
        steps = trainer.train().global_step
        seconds = monotonic() - began
    # The figures are those of the weights as they are stored.
    network.to(WEIGHT_DTYPES[settings.weight_dtype]).to(torch.float32)
    network.eval()
    if config.gate is not None:
        config, tagger = _with_threshold(tagger, dev_sentences)
        log(f"gate: spans whose edges have a probability of {tagger.gate_threshold} or more, chosen on dev")
    dev = evaluate(tagger, dev_sentences)
    measured = {
        "settings": asdict(settings),
        "train_sentences": len(train_sentences),
        "train_entities": sum(len(sentence.entities) for sentence in train_sentences),
        "steps": steps,
        **_scores("dev", dev_sentences, dev),
    }
    if test_sentences:
        measured |= _scores("test", test_sentences, evaluate(tagger, test_sentences))
    config = replace(config, facts={**(facts or {}), **measured})
    # The card alone tells the time: what is in the config is the model's identity, which a clock has no part in.
    timed = replace(config, facts={**config.facts, "train_seconds": round(seconds, 1)})
    card, files = model_card(timed), card_files(config)
    digest = save_bundle(output, config, network, tokenizer, card, settings.weight_dtype, files)
    return TrainingResult(digest, dev, steps, seconds)


def gate_curve(tagger: Tagger, dev: Sequence[Sentence]) -> list[dict[str, float]]:
    """Return what the gate does on annotated sentences at each of `THRESHOLDS`, of the spans that pass the lowest."""
    lowest = Tagger(
        tagger.config, tagger.packer, tagger.network, tagger.device, tagger.dtype, gate_threshold=THRESHOLDS[0]
    )
    scores = GateScores(lowest, *annotated_windows(dev, tagger))
    return [scores.at(threshold) for threshold in THRESHOLDS]


def _with_threshold(tagger: Tagger, dev: Sequence[Sentence]) -> tuple[ModelConfig, Tagger]:
    """Return the config with the gate's curve on dev and the best threshold on it, and a tagger that has it."""
    config, curve = tagger.config, gate_curve(tagger, dev)
    threshold = best_threshold(curve)
    config = replace(config, gate={**(config.gate or {}), "threshold": threshold, "curve": curve})
    return config, Tagger(config, tagger.packer, tagger.network, tagger.device, tagger.dtype, threshold)


def _labels(sentences: Sequence[Sentence], split: str) -> list[str]:
    labels = sorted({entity.label for sentence in sentences for entity in sentence.entities})
    if not labels:
        raise CoreError("data.no_entities", path=f"the {split} data")
    return labels


def _arguments(settings: TrainingSettings, scratch: str, device: torch.device) -> TrainingArguments:
    return TrainingArguments(
        output_dir=scratch,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_steps=settings.warmup_share,
        lr_scheduler_type="linear",
        per_device_train_batch_size=settings.batch_size,
        num_train_epochs=settings.epochs,
        seed=settings.seed,
        data_seed=settings.seed,
        use_cpu=device.type == "cpu",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        remove_unused_columns=False,
        report_to=[],
        disable_tqdm=True,
        logging_steps=50,
    )


def _scores(split: str, sentences: Sequence[Sentence], result: EvaluationResult) -> dict[str, object]:
    return {
        f"{split}_sentences": len(sentences),
        f"{split}_precision": round(result.micro.precision, 4),
        f"{split}_recall": round(result.micro.recall, 4),
        f"{split}_f1": round(result.micro.f1, 4),
    }
