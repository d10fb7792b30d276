"""A complete training run: check the data, train, keep the best checkpoint on dev, and write a bundle."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import TrainerCallback, TrainingArguments, set_seed

from spanmarker_core.bundle.config import packer_of
from spanmarker_core.bundle.repositories import find_encoder
from spanmarker_core.bundle.writer import check_output
from spanmarker_core.card.origin import encoder_origin
from spanmarker_core.data import Sentence
from spanmarker_core.data.summary import DataSummary, summarise
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.scores.reach import count_flat, report_of
from spanmarker_core.inference.loading import choose_device
from spanmarker_core.training.checkpoints import TrainingFolder, seconds_of
from spanmarker_core.training.collate import Examples
from spanmarker_core.training.data_warnings import advice
from spanmarker_core.training.dataset import (
    SentenceWindows,
    TrainingWindows,
    check_distinct_sentences,
    sentences_digest,
)
from spanmarker_core.training.distributed import PATIENCE, on_rank_zero, rank, world_size
from spanmarker_core.training.export import TrainingResult, finish
from spanmarker_core.training.initialise import new_model
from spanmarker_core.training.loss import SpanLoss
from spanmarker_core.training.settings import TrainingSettings
from spanmarker_core.training.trainer import SpanTrainer
from spanmarker_core.windows.packer import Packer

#: Settings of speed, memory and location, which may change when a run resumes. Accumulation changes the dropout draws.
_FREE = ("accumulation", "gradient_checkpointing", "save_steps", "report_to", "device")
#: Files of the encoder that the model depends on.
_ENCODER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "*.safetensors")


def train(
    train_sentences: Sequence[Sentence] | TrainingWindows,
    dev_sentences: Sequence[Sentence],
    encoder_path: str | Path,
    output: str | Path,
    settings: TrainingSettings,
    *,
    test_sentences: Sequence[Sentence] = (),
    facts: dict[str, object] | None = None,
    card_facts: dict[str, object] | None = None,
    log: Callable[[str], None] = print,
    callbacks: Sequence[TrainerCallback] = (),
) -> TrainingResult:
    """Train a model on annotated sentences and write it as a bundle.

    If started by `torchrun` or `accelerate launch`, the processes share the work of each step; the steps equal those of
    a single process. Checkpoints are kept in `<output>.training` until the bundle is written. Calling the function
    again resumes an interrupted run from the last complete checkpoint, with the same final weights as without
    interruption.

    Args:
        train_sentences: annotated sentences, grouped by document; or windows of them.
        dev_sentences: annotated sentences, grouped by document, on which the best epoch is chosen.
        encoder_path: folder of a pretrained encoder, or its repository on the hub: "owner/name" or
            "owner/name@revision". The card states the commit.
        output: the bundle's folder; must not exist or be empty.
        settings: settings of the run.
        test_sentences: annotated sentences that are scored once at the end, for the card only.
        facts: additional facts for the card, such as names and licences of the data. They become part of the model's
            identity.
        card_facts: facts for the card only, such as the name of the data's file; `facts` take precedence.
        log: receives lines about progress, in the first process only.
        callbacks: further callbacks of transformers' Trainer.

    Raises:
        CoreError: for the output `bundle.output_exists`, `bundle.output_not_writable`, `bundle.nan_weight`; for the
            data `data.empty`, `data.no_entities`, `data.no_common_label`, `data.duplicate_sentence`, `data.no_windows`;
            for the encoder `encoder.not_found`, `hub.*` as in `find_encoder`, `encoder.unreadable`,
            `encoder.no_fast_tokenizer`, `encoder.no_position_ids`, `encoder.not_independent`, `encoder.too_few_layers`,
            `encoder.too_many_pair_layers`, `encoder.entity_too_long`, `encoder.window_too_long`,
            `encoder.window_too_short`; for the run `device.not_available`, `training.contradiction`,
            `training.no_precision`, `training.no_sharding`, `training.in_use`, `training.changed`,
            `training.bad_checkpoint`, `training.folder_not_writable`, `training.not_finite`.
    """
    with TrainingFolder(output) as folder:
        arguments = _arguments(settings, folder.path)
        say = log if rank() == 0 else _silent
        on_rank_zero(lambda: check_output(output))
        summary = _check_data(train_sentences, dev_sentences, test_sentences, say)
        _report_data(train_sentences, summary, settings, say)
        encoder = find_encoder(encoder_path)
        set_seed(settings.seed)
        config, network, tokenizer = new_model(encoder.name, sorted(summary.labels), settings)
        packer = packer_of(config, tokenizer)
        dataset = _as_dataset(train_sentences, summary, packer, settings, say)
        checkpoint = on_rank_zero(lambda: folder.open(_identity(dataset, dev_sentences, encoder.path, settings)))
        examples, model = _examples(dataset, settings), _loss(network, settings)
        # Searching for unused weights slows DistributedDataParallel down, so it is enabled only if there are any.
        arguments.ddp_find_unused_parameters = world_size() > 1 and _leaves_weights_out(model, examples)
        trainer = SpanTrainer(
            config,
            packer,
            examples,
            dev_sentences,
            batch_tokens=settings.batch_tokens,
            head_learning_rate=settings.head_learning_rate,
            save_steps=settings.save_steps,
            folder=folder,
            log=say,
            callbacks=callbacks,
            model=model,
            args=arguments,
        )
        steps = _fit(trainer, checkpoint, say)
        seconds = trainer.seconds()

        def export() -> TrainingResult:
            result = finish(
                trainer.tagger(),
                summary,
                dev_sentences,
                test_sentences,
                folder.bundle,
                settings,
                steps=steps,
                seconds=seconds,
                history=trainer.state.log_history,
                facts=facts or {},
                card_facts={
                    "bundle_name": Path(output).absolute().name,
                    **encoder_origin(encoder, facts or {}),
                    **(card_facts or {}),
                },
                log=say,
            )
            folder.publish()
            return result

        return on_rank_zero(export)


def search_trainer(
    train_sentences: Sequence[Sentence] | TrainingWindows,
    dev_sentences: Sequence[Sentence],
    encoder_path: str | Path,
    folder: str | Path,
    settings: TrainingSettings,
    *,
    log: Callable[[str], None] = print,
    callbacks: Sequence[TrainerCallback] = (),
) -> SpanTrainer:
    """Return a trainer for `hyperparameter_search` that builds a new model for each trial.

    A trial may set `learning_rate`, `weight_decay`, `warmup_steps`, `num_train_epochs`, `seed` and
    `per_device_train_batch_size` (windows per step, over all processes); everything else follows the settings. The
    objective is computed from `eval_f1`. Trials save no checkpoints: train a bundle with the best settings afterwards.

    Args:
        train_sentences: as in `train`.
        dev_sentences: as in `train`.
        encoder_path: as in `train`.
        folder: output folder of logging integrations that write files.
        settings: settings of all trials.
        log: as in `train`.
        callbacks: as in `train`.
    """
    arguments = _arguments(settings, Path(folder))
    arguments.save_strategy = "no"
    arguments.load_best_model_at_end = False
    say = log if rank() == 0 else _silent
    summary = _check_data(train_sentences, dev_sentences, (), say)
    labels = sorted(summary.labels)
    config, _, tokenizer = new_model(encoder_path, labels, settings)
    packer = packer_of(config, tokenizer)
    return SpanTrainer(
        config,
        packer,
        _examples(_as_dataset(train_sentences, summary, packer, settings, say), settings),
        dev_sentences,
        batch_tokens=settings.batch_tokens,
        head_learning_rate=settings.head_learning_rate,
        log=say,
        callbacks=callbacks,
        model_init=lambda: _loss(new_model(encoder_path, labels, settings)[1], settings),
        args=arguments,
    )


def _silent(line: str) -> None:
    pass


def _check_data(
    train: Sequence[Sentence] | TrainingWindows,
    dev: Sequence[Sentence],
    test: Sequence[Sentence],
    log: Callable[[str], None],
) -> DataSummary:
    """Return a summary of the training data, after rejecting splits that cannot be used for training or scoring."""
    summary = train.summary if isinstance(train, TrainingWindows) else summarise(train)
    labels = _labels(summary, "training")
    for sentences, split in ((dev, "dev"), (test, "test")):
        if split == "test" and not sentences:
            continue
        gold = _labels(summarise(sentences), split)
        check_distinct_sentences(sentences)
        if not set(gold) & set(labels):
            raise CoreError("data.no_common_label", found=", ".join(gold), labels=", ".join(labels))
        if unseen := sorted(set(gold) - set(labels)):
            log(f"Labels of {split} that do not occur in the training data and count as missed: {', '.join(unseen)}")
    return summary


def _labels(summary: DataSummary, split: str) -> list[str]:
    if not summary.sentences:
        raise CoreError("data.empty", path=f"the {split} data")
    if not summary.labels:
        raise CoreError("data.no_entities", path=f"the {split} data")
    return sorted(summary.labels)


def _report_data(
    train: Sequence[Sentence] | TrainingWindows,
    summary: DataSummary,
    settings: TrainingSettings,
    log: Callable[[str], None],
) -> None:
    """Print a summary of the data under these settings, and warnings about them."""
    limit = settings.entity_max_length
    flat = None if isinstance(train, TrainingWindows) else count_flat(train, limit)
    report = report_of(summary, limit, flat)
    log(report.to_text(tags=settings.architecture_options.output == "tags"))
    if warnings := advice(report, settings):
        log(warnings)


def _as_dataset(
    train: Sequence[Sentence] | TrainingWindows,
    summary: DataSummary,
    packer: Packer,
    settings: TrainingSettings,
    log: Callable[[str], None],
) -> TrainingWindows:
    """Return the windows to train on; of sentences, also print what can't be learned."""
    if isinstance(train, TrainingWindows):
        return train
    windows = SentenceWindows(train, packer, settings.shown, summary=summary)
    if windows.spans_of_several_labels:
        log(
            f"{windows.spans_of_several_labels} spans have several labels; training uses the first in alphabetical "
            "order."
        )
    if windows.unreachable:
        log(
            f"{windows.unreachable} entities of at most {settings.entity_max_length} words cannot be learned: they "
            f"fit no window of {settings.max_tokens} tokens, or their first or last word has no token."
        )
    return windows


def _fit(trainer: SpanTrainer, checkpoint: Path | None, log: Callable[[str], None]) -> int:
    """Train, from a checkpoint if there is one, and return the number of steps."""
    if checkpoint is None:
        return trainer.train().global_step
    log(f"Resuming from {checkpoint}.")
    trainer.seconds_before = seconds_of(checkpoint)
    return trainer.train(str(checkpoint)).global_step


def _loss(network: nn.Module, settings: TrainingSettings) -> SpanLoss:
    network.checkpoint_spans = settings.gradient_checkpointing  # type: ignore[assignment]
    return SpanLoss(network, settings.gate_weight, settings.tag_weight if settings.architecture_options.spans else 1.0)


def _leaves_weights_out(model: SpanLoss, examples: Examples) -> bool:
    """Return whether the model has weights that no output depends on."""
    inputs: dict[str, Any] = examples.batch(np.zeros(1, np.int64))
    model(**inputs)["loss"].backward()
    unused = any(weight.grad is None for weight in model.parameters())
    model.zero_grad()
    return unused


def _examples(source: TrainingWindows, settings: TrainingSettings) -> Examples:
    return Examples(
        source,
        settings.entity_max_length,
        share=settings.gate_share if settings.gate else None,
        negatives=settings.negatives,
        boundary_smoothing=settings.boundary_smoothing,
        tags=settings.architecture_options.tags is not None,
        seed=settings.seed,
    )


def _identity(
    source: TrainingWindows, dev: Sequence[Sentence], encoder: Path, settings: TrainingSettings
) -> dict[str, Any]:
    """Return the identity of a run: data, encoder, labels and settings."""
    files = {path.name: path for pattern in _ENCODER_FILES for path in encoder.glob(pattern)}
    digest = blake2b(digest_size=16)
    for name, path in sorted(files.items()):
        digest.update(name.encode())
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    # Omitted options equal those that are set to their defaults.
    values = {**settings.to_json(), "options": asdict(settings.architecture_options)}
    return {
        "training data": source.digest,
        "dev data": sentences_digest(dev),
        "encoder": digest.hexdigest(),
        "labels": source.labels,
        "settings": {name: value for name, value in values.items() if name not in _FREE},
    }


def _arguments(settings: TrainingSettings, folder: Path) -> TrainingArguments:
    """Return the Trainer's arguments; creating them also initialises the process group.

    Raises:
        CoreError: `device.not_available`, `training.no_precision`, `training.no_sharding`.
    """
    for kind in ("FSDP", "DEEPSPEED"):  # set by accelerate's launcher
        if os.environ.get(f"ACCELERATE_USE_{kind}", "").lower() == "true":
            raise CoreError("training.no_sharding", kind=kind)
    device = choose_device(settings.device)
    if settings.precision == "fp16" and device.type == "cpu":
        _no_precision(settings, device, "CPUs support bf16 only", "bf16")
    if settings.precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        _no_precision(settings, device, "the GPU does not support it", "fp16")
    arguments = TrainingArguments(
        output_dir=str(folder),
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_steps=settings.warmup_share,
        lr_scheduler_type="linear",
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulation,
        num_train_epochs=settings.epochs,
        seed=settings.seed,
        data_seed=settings.seed,
        use_cpu=device.type == "cpu",
        bf16=settings.precision == "bf16",
        fp16=settings.precision == "fp16",
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        # The stream starts at the resumed step, and the callbacks restore their own state.
        ignore_data_skip=True,
        restore_callback_states_from_checkpoint=True,
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        ddp_timeout=int(PATIENCE.total_seconds()),  # for GPUs: one process may wait for another's part of dev
        report_to=list(settings.report_to),
        disable_tqdm=True,
        logging_steps=50,
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # Otherwise Trainer would split batches over the GPUs, which is not possible.
    return arguments


def _no_precision(settings: TrainingSettings, device: torch.device, reason: str, other: str) -> None:
    raise CoreError("training.no_precision", precision=settings.precision, device=device, reason=reason, other=other)
