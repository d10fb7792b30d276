"""A transformers Trainer that follows a plan of steps: same steps, losses and scores for any number of processes."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby, islice
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch
from datasets.distributed import split_dataset_by_node
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from spanmarker_core.arrays.counter_rng import uniform
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.data import Sentence
from spanmarker_core.data.batches import count_words
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.evaluate import score
from spanmarker_core.evaluation.gate import THRESHOLDS, GateScores, annotated_windows, best_threshold, curve_point
from spanmarker_core.evaluation.scores.metrics import SpanScorer
from spanmarker_core.inference.tagger import Tagger
from spanmarker_core.progress import SILENT, Progress
from spanmarker_core.training.checkpoints import TrainingFolder, step_of
from spanmarker_core.training.collate import Examples
from spanmarker_core.training.distributed import gather, wait_for_all
from spanmarker_core.training.sampler import MicroBatch, Steps, deal, stream
from spanmarker_core.windows.packer import Packer

#: Maximum number of windows of a failed step to name.
_NAMED = 8


class SpanTrainer(Trainer):
    """Trainer of a `SpanLoss` on the windows of `Examples`, scored by entities on dev.

    Of `args`, `per_device_train_batch_size` is the number of windows per step over all processes; `num_train_epochs`,
    `seed` and `gradient_accumulation_steps` have their usual meaning. All of them can be searched over.

    Args:
        config: config of the model.
        packer: packer of the model.
        examples: builder of training batches.
        dev: annotated sentences that are scored at the end of each epoch.
        batch_tokens: text tokens per step, in place of a number of windows.
        head_learning_rate: peak learning rate of weights that are not pretrained; None is that of `args`.
        save_steps: steps between checkpoints, in addition to those at the ends of epochs; None saves only at the ends.
        folder: folder of the checkpoints; None keeps none.
        log: receives lines about progress.
        progress: receives the progress of training and of scoring dev.
        callbacks: further callbacks of transformers' Trainer.
        kwargs: further arguments of transformers' Trainer: `args` and either `model` or `model_init`.
    """

    def __init__(
        self,
        config: ModelConfig,
        packer: Packer,
        examples: Examples,
        dev: Sequence[Sentence],
        *,
        batch_tokens: int | None = None,
        head_learning_rate: float | None = None,
        save_steps: int | None = None,
        folder: TrainingFolder | None = None,
        log: Callable[[str], None] = print,
        progress: Progress = SILENT,
        callbacks: Sequence[TrainerCallback] = (),
        **kwargs: Any,
    ) -> None:
        self.span_config, self.packer, self.examples, self.dev = config, packer, examples, dev
        self.batch_tokens, self.head_learning_rate = batch_tokens, head_learning_rate
        self.say, self.progress = log, progress
        self.phases = ExitStack()  # the phase of training, once it has begun
        self._steps: Steps | None = None
        self._first_step = 0
        #: Training time of the run before the checkpoint that it resumes from, in seconds.
        self.seconds_before = 0.0
        self._began = monotonic()
        self._parts: deque[MicroBatch] = deque()  # remaining parts of the step
        self._part: MicroBatch
        self._done: list[tuple[MicroBatch, Tensor]] = []
        #: Words and loss of the current step, in this process.
        self.step_words, self.step_loss = 0, 0.0
        self.control: TrainerControl
        # transformers requires an evaluation set for evaluations at the ends of epochs.
        super().__init__(**kwargs, eval_dataset=dev, callbacks=[_Ends(self, save_steps, folder), *callbacks])
        self.remove_callback(PrinterCallback)
        # The loss is divided by the counts of a whole step, so it must not be divided again for accumulation.
        self.model_accepts_loss_kwargs = True

    @property
    def steps(self) -> Steps:
        """The plan of steps for the current arguments."""
        assert self._steps is not None
        return self._steps

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs: Any) -> Any:
        """Train, optionally from a checkpoint.

        Args:
            resume_from_checkpoint: folder of the checkpoint; None starts from the beginning.
            kwargs: further arguments of transformers' Trainer.

        Raises:
            CoreError: `training.bad_checkpoint`, `training.not_finite`, `training.folder_not_writable`.
        """
        assert not isinstance(resume_from_checkpoint, bool), "name the checkpoint"
        self._first_step, self._began = 0, monotonic()
        if resume_from_checkpoint is not None:
            self._first_step = step_of(Path(resume_from_checkpoint), self.model)
        with self.phases:
            return super().train(resume_from_checkpoint=resume_from_checkpoint, **kwargs)

    def seconds(self) -> float:
        """Return the training time of the run in seconds, including the time before its checkpoint."""
        return self.seconds_before + monotonic() - self._began

    def create_optimizer(self, model: nn.Module | None = None) -> Any:
        """Create the optimizer, with a separate learning rate for weights that are not pretrained if one is set.

        Args:
            model: the model to optimise; None is the trainer's own.
        """
        made = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if made and self.head_learning_rate is not None:
            network = (model or self.model).network
            pretrained = {id(weight) for weight in network.pretrained_weights()}  # type: ignore[union-attr, operator]
            groups = []
            for group in optimizer.param_groups:
                for rate, is_pretrained in ((group["lr"], True), (self.head_learning_rate, False)):
                    weights = [weight for weight in group["params"] if (id(weight) in pretrained) == is_pretrained]
                    groups.append({**group, "params": weights, "lr": rate})
            optimizer.param_groups = groups
        return optimizer

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return this process's micro-batches, starting from the next step."""
        args, source = self.args, self.examples.source
        self._steps = Steps(
            source.n_tokens,
            source.n_candidates,
            source.pool_offsets,
            seed=args.seed,
            epochs=int(args.num_train_epochs),
            batch_size=args.per_device_train_batch_size,
            batch_tokens=self.batch_tokens,
            parts=args.world_size * args.gradient_accumulation_steps,
        )
        args.max_steps = len(self._steps)
        all_parts = stream(self._steps, self._first_step, f"{source.digest} {args.seed} {self.batch_tokens}")
        # Examples are assigned round-robin: of a step's parts, process r has r, r + world size, …
        mine: Any = split_dataset_by_node(all_parts, rank=args.process_index, world_size=args.world_size)
        return DataLoader(mine, batch_size=None, collate_fn=self._collate)

    def _collate(self, example: Any) -> dict[str, Any]:
        micro_batch = example["micro_batch"]
        return {**self.examples.batch(micro_batch.windows, micro_batch.epoch), "micro_batch": micro_batch}

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Any]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Any]], Tensor | None]:
        """Return this process's parts of a step, and the denominators of the loss over all parts (`SpanLoss.counts`).

        A mean over each part would give more weight to spans in small parts; the step's loss must not depend on the
        parts.

        Args:
            epoch_iterator: the micro-batches of this process.
            num_batches: number of parts of this process in a step.
            device: device of the denominators.
        """
        samples = list(islice(epoch_iterator, num_batches))
        self._parts, self._done = deque(sample.pop("micro_batch") for sample in samples), []
        if not samples:
            return samples, None
        self.step_words = sum(len(sample["gate"]) for sample in samples)
        counts = torch.zeros(3, dtype=torch.int64)
        loss = self.accelerator.unwrap_model(self.model)
        for sample, micro_batch in zip(samples, self._parts, strict=True):
            if micro_batch.counts:
                counts += loss.counts(sample)
        counts = counts.to(device)
        if self.args.world_size > 1:
            torch.distributed.all_reduce(counts)
        return samples, counts

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """Run the forward and backward pass of one part of a step.

        Args:
            model: the model.
            inputs: the batch with its targets.
            num_items_in_batch: denominators of the losses of the whole step, int64 [3].
        """
        self._part = self._parts.popleft()
        # Seed dropout by step and part, independent of the process and of earlier work.
        draw = uniform(self.args.seed, self._part.step, np.array([self._part.part]), np.zeros(1, np.int64))
        torch.manual_seed(int(draw[0] * 2**53))
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        self._done.append((self._part, loss))
        if not self._parts:
            total = torch.stack([loss for _, loss in self._done]).sum()
            self._check_finite("the loss", total)
            self.step_loss = float(total)
        return loss

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return this part's share of the step's loss, times the number of processes, which average their gradients.

        Args:
            model: the model.
            inputs: the batch with its targets.
            return_outputs: whether to return (loss, outputs).
            num_items_in_batch: denominators of the losses of the whole step, int64 [3].
        """
        outputs = model(**inputs, totals=num_items_in_batch)
        loss = outputs["loss"] * (self.args.world_size if self._part.counts else 0)
        return (loss, outputs) if return_outputs else loss

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        try:
            super()._save_checkpoint(model, trial)
        except Exception as error:  # a full disk is an OSError, a SafetensorError or, from torch, a RuntimeError
            raise CoreError("training.folder_not_writable", path=self.args.output_dir, reason=error) from error

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        norm = super()._clip_grad_norm(model)
        if norm is not None and self.accelerator.scaler is None:  # a scaler skips such steps by design
            self._check_finite("the gradient", norm.detach())
        return norm

    def _check_finite(self, what: str, value: Tensor) -> None:
        """Stop all processes before the weights change, if any of them has a value that is not finite.

        Raises:
            CoreError: `training.not_finite`, with the windows of the step.
        """
        bad = (~torch.isfinite(value)).float()
        if self.args.world_size > 1:
            torch.distributed.all_reduce(bad)
        if not bad:
            return
        suspects = [part.windows for part, loss in self._done if part.counts and not torch.isfinite(loss)]
        gathered = gather((suspects, [part.windows for part, _ in self._done if part.counts]))
        # If no single part is bad, which is possible for a gradient, any part may be the cause.
        windows = [part for bad, _ in gathered for part in bad] or [part for _, parts in gathered for part in parts]
        numbers = np.concatenate(windows)
        names = self.examples.source.names(numbers[:_NAMED])
        more = f" and {len(numbers) - _NAMED} more windows" if len(numbers) > _NAMED else ""
        step = self.state.global_step + 1
        raise CoreError("training.not_finite", what=what, step=step, windows="; ".join(names) + more)

    def tagger(self, threshold: float | None = None) -> Tagger:
        """Return a tagger with the current weights.

        Args:
            threshold: threshold of the gate; None scores all candidate spans.
        """
        network = self.accelerator.unwrap_model(self.model).network
        tagger = Tagger(self.span_config, self.packer, network, self.args.device, gate_threshold=threshold)
        tagger.progress = self.progress
        return tagger

    def evaluate(self, *args: object, **kwargs: object) -> dict[str, float]:
        """Return entity scores on dev, of which each process tags a part; with a gate, at its currently best threshold.

        Args:
            args: ignored.
            kwargs: ignored.
        """
        mine = _my_documents(self.dev, self.args.process_index, self.args.world_size)
        with self.progress.phase("scoring dev", count_words(mine), "words"):
            metrics, at = self._scored(mine)
        if self.is_world_process_zero():
            self.say(f"epoch {self.state.epoch:.2f}: dev F1 {metrics['eval_f1']:.2%}{at}")
        self.log(metrics)
        # Trainer's own loop reads `control` after this, to learn whether a checkpoint is due.
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _scored(self, mine: Sequence[Sentence]) -> tuple[dict[str, float], str]:
        """Return the scores of all processes, each of which tags its own sentences, and the end of the line on them."""
        if self.span_config.gate is None:
            scorer = SpanScorer(self.span_config.entity_max_length)
            for part in gather(score(self.tagger(), mine)):
                scorer.merge(part)
            micro = scorer.result().micro
            return {"eval_precision": micro.precision, "eval_recall": micro.recall, "eval_f1": micro.f1}, ""
        counts = gate_counts(self.tagger(THRESHOLDS[0]), mine)
        threshold = best_threshold([curve_point(each, count) for each, count in counts.items()])
        best = counts[threshold]
        metrics = {
            "eval_precision": best["correct"] / max(1, best["found"]),
            "eval_recall": best["correct"] / max(1, best["gold"]),
            "eval_f1": curve_point(threshold, best)["f1"],
        }
        return metrics, f" with the gate at {threshold}"


class _Ends(TrainerCallback):
    """Callback that marks ends of epochs in the stream of steps, marks complete checkpoints, and tells progress."""

    def __init__(self, trainer: SpanTrainer, save_steps: int | None, folder: TrainingFolder | None) -> None:
        self.trainer, self.save_steps, self.folder = trainer, save_steps, folder
        self._began, self._seconds, self._words = 0.0, 0.0, 0  # of the steps, without scoring and saving

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        state.num_train_epochs = len(self.trainer.steps.epoch_ends)
        state.epoch = self.trainer.steps.epochs_done(state.global_step)
        steps = len(self.trainer.steps)
        self.trainer.phases.enter_context(self.trainer.progress.phase("training", steps, "steps", state.global_step))

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._began = monotonic()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        steps, step = self.trainer.steps, state.global_step
        self._tell(steps, step, args.world_size)
        state.epoch = steps.epochs_done(step)
        if step == len(steps):
            return  # Trainer treats this as the end of its only epoch.
        saves = args.save_strategy != "no"
        if step in steps.epoch_ends:
            control.should_evaluate, control.should_save = True, saves
        elif self.save_steps is not None and step % self.save_steps == 0:
            control.should_save = saves

    def _tell(self, steps: Steps, step: int, world_size: int) -> None:
        self._seconds += monotonic() - self._began
        self._words += self.trainer.step_words * world_size
        epoch = int(np.searchsorted(steps.epoch_ends, step)) + 1
        speed = self._words / max(self._seconds, 1e-9)
        shown = f"epoch {epoch} of {len(steps.epoch_ends)}, loss {self.trainer.step_loss:.4f}, {speed:,.0f} words/s"
        self.trainer.progress.advance(1, shown)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        state.epoch = self.trainer.steps.epochs_done(state.global_step)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        wait_for_all()
        if self.folder is not None and state.is_world_process_zero:
            self.folder.keep(state.global_step, state.best_global_step, self.trainer.seconds())


def gate_counts(tagger: Tagger, dev: Sequence[Sentence]) -> dict[float, Counter[str]]:
    """Return the counts of a gate at each of `THRESHOLDS`, summed over the sentences of all processes.

    Args:
        tagger: a tagger with the lowest of these thresholds.
        dev: annotated sentences of this process; may be empty.
    """
    counts = [Counter[str]() for _ in THRESHOLDS]
    if dev:
        scores = GateScores(tagger, *annotated_windows(dev, tagger))
        counts = [scores.counts(threshold) for threshold in THRESHOLDS]
    totals = [Counter[str]() for _ in THRESHOLDS]
    for part in gather(counts):
        for total, more in zip(totals, part, strict=True):
            total.update(more)
    return dict(zip(THRESHOLDS, totals, strict=True))


def _my_documents(sentences: Sequence[Sentence], rank: int, world_size: int) -> Sequence[Sentence]:
    """Return the sentences of this process's documents; all processes get a similar number of words."""
    if world_size == 1:
        return sentences
    documents = [list(group) for _, group in groupby(sentences, key=lambda sentence: sentence.document_id)]
    words = np.array([sum(len(sentence.words) for sentence in document) for document in documents])
    return [sentence for place in deal(words, world_size)[rank] for sentence in documents[place]]
