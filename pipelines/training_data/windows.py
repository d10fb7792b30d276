"""Windows for training, read from the output of a `spanmarker prepare --annotated`.

An index of 12 bytes per window is kept in memory. Pools are read from disk each time they are needed; a pool is one
record batch of a file. Only the columns that are needed are read. The folder may be in a store.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipelines.errors import PipelineError
from pipelines.output.digest_set import DigestSet
from pipelines.output.job_identity import identity_differences
from pipelines.output.layout import TRAINING_TABLES, table_path, tables_of
from pipelines.output.manifest import find_done, identity_digest, plan_path, planned, read_entries
from pipelines.output.plan_file import plan_identity
from pipelines.stages.samples import flat, windows_of
from pipelines.storage import absolute, exists, open_input
from pipelines.training_data.packing import packing_identity
from pipelines.training_data.summary import AlignmentSummary
from schemas import ANNOTATED_SAMPLES
from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.errors import CoreError
from spanmarker_core.training.dataset import Gold
from spanmarker_core.windows.packer import Context, Packer, Windows

#: Maximum share of annotations that do not match words, and of rejected documents or sentences.
MAX_MISALIGNED = 0.01

_INDEX = ("n_tokens", "n_candidates")
_WORDS = ("word_token_start", "word_token_end", "word_sentence", "word_index", "word_tag", "word_long")
_GOLD = ("gold_word_start", "gold_word_end", "gold_label")
_READ = ("document_id", "token_ids", *_WORDS, "n_candidates", *_GOLD)


@dataclass(frozen=True, slots=True)
class PackedAs:
    """Settings with which windows were packed, named as in `TrainingSettings`.

    Attributes:
        max_tokens: tokens of the longest window.
        entity_max_length: words of the longest candidate span.
        splitter: name of the word splitter.
        context: the text that a window shows around its sentence.
    """

    max_tokens: int
    entity_max_length: int
    splitter: str
    context: Context


class PreparedWindows:
    """Prepared windows, an implementation of `spanmarker_core.training.dataset.TrainingWindows`.

    Args:
        folder: output of a `spanmarker prepare --annotated` that is complete.
        max_misaligned: maximum share of annotations that do not match words, and of rejected documents or sentences;
            data above it raise an error.

    Attributes:
        packed_as: how the windows were packed; a model trained on them must pack in the same way.
        gold: counts of the annotations and their alignment.
        summary: summary of the sentences to learn.
        labels: labels of the entities, sorted, without "O".
        digest: digest of the content and of how it was packed.
        n_tokens: int32 [n], tokens of each window.
        n_candidates: int64 [n], candidate spans of each window, at least one.
        pool_offsets: int64 [n_pools + 1], the windows of each pool.

    Raises:
        PipelineError: `samples.not_annotated`, `samples.not_ready`, `samples.misaligned`, `samples.rejected`,
            `plan.other_version`, `output.damaged`, `output.table_damaged`, `output.not_readable`.
        CoreError: `data.no_windows`.
    """

    def __init__(self, folder: str, max_misaligned: float = MAX_MISALIGNED) -> None:
        self._folder = folder = absolute(folder)
        self._identity = identity = _identity(folder)
        shards = [shard.name for shard in planned(folder)]
        names = DigestSet.of(shards)
        if left := len(names - find_done(folder).done):
            raise PipelineError("samples.not_ready", path=folder, left=left, total=len(shards))
        entries = {entry.shard: entry for entry in read_entries(folder, names)}
        self.gold = AlignmentSummary.over(entries.values())
        self._refuse_faulty(max_misaligned)
        self.summary = self.gold.data
        self.labels = sorted(self.summary.labels)
        self.packed_as = PackedAs(
            int(identity["max_tokens"]), int(identity["entity_max_length"]), identity["splitter"], _context(identity)
        )
        contents = [entries[name].outputs[ANNOTATED_SAMPLES.name].blake2b for name in shards]
        whole = "\n".join([identity_digest(identity), *contents])
        self.digest = hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()
        self._index(shards)

    def check(self, packer: Packer, context: Context) -> None:
        """Check that a model with this packer and context would see the same windows.

        Args:
            packer: packer of the model.
            context: context of the model.

        Raises:
            PipelineError: `samples.other_packing` with the differences.
        """
        here = packing_identity(packer, context)
        there = {key: value for key, value in self._identity.items() if key in here}
        if lines := identity_differences(there, here):
            raise PipelineError("samples.other_packing", path=self._folder, differences="\n".join(lines))

    def read(self, pool: int) -> tuple[Windows, Gold]:
        """Return the windows of a pool that have candidates, and their gold entities.

        Args:
            pool: index of the pool.
        """
        rows = self._rows(pool, _READ)
        rows = rows.filter(pa.array(rows["n_candidates"].to_numpy() > 0))
        return windows_of(rows), self._gold(rows)

    def names(self, windows: np.ndarray) -> list[str]:
        """Return for each window a name of the first sentence that it tags, such as "document d1, sentence 3".

        Args:
            windows: indices of windows.
        """
        names: dict[int, str] = {}
        pools = np.searchsorted(self.pool_offsets, windows, "right") - 1
        for pool in np.unique(pools).tolist():
            rows = self._rows(pool, ("document_id", "word_sentence", "word_tag", "n_candidates"))
            rows = rows.filter(pa.array(rows["n_candidates"].to_numpy() > 0))
            for window in windows[pools == pool].tolist():
                row = rows.slice(window - int(self.pool_offsets[pool]), 1).to_pylist()[0]
                sentence = row["word_sentence"][row["word_tag"].index(True)]
                names[window] = f"document {row['document_id']}, sentence {sentence}"
        return [names[window] for window in windows.tolist()]

    def _refuse_faulty(self, limit: float) -> None:
        gold = self.gold
        if gold.lost_share > limit:
            raise PipelineError(
                "samples.rejected",
                path=self._folder,
                rejected=gold.rejected,
                documents=gold.documents,
                unreadable=gold.unreadable,
                sentences=gold.data.sentences,
                limit=f"{limit:.2%}",
            )
        if gold.wrong > limit * gold.annotations:
            raise PipelineError(
                "samples.misaligned",
                path=self._folder,
                wrong=gold.wrong,
                total=gold.annotations,
                share=f"{gold.wrong / gold.annotations:.2%}",
                limit=f"{limit:.2%}",
            )

    def _index(self, shards: Sequence[str]) -> None:
        n_tokens, n_candidates = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        lengths, self._pools = [], []
        for name in shards:
            url = table_path(self._folder, ANNOTATED_SAMPLES.name, name)
            with _opened(url, _INDEX) as file:
                for number in range(file.num_record_batches):
                    rows = file.get_batch(number)
                    kept = rows["n_candidates"].to_numpy() > 0
                    if kept.any():
                        n_tokens.append(rows["n_tokens"].to_numpy()[kept])
                        n_candidates.append(rows["n_candidates"].to_numpy()[kept])
                        lengths.append(int(kept.sum()))
                        self._pools.append((url, number))
        if not lengths:
            raise CoreError("data.no_windows", path=self._folder)
        self.n_tokens, self.n_candidates = np.concatenate(n_tokens), np.concatenate(n_candidates)
        self.pool_offsets = ragged_offsets(np.array(lengths))

    def _rows(self, pool: int, columns: tuple[str, ...]) -> pa.RecordBatch:
        url, number = self._pools[pool]
        with _opened(url, columns) as file:
            return file.get_batch(number)

    def _gold(self, rows: pa.RecordBatch) -> Gold:
        offsets, starts = flat(rows["gold_word_start"])
        _, ends = flat(rows["gold_word_end"])
        _, labels = flat(rows["gold_label"])
        names, label = np.unique(labels.astype(np.str_), return_inverse=True)
        index = {name: number for number, name in enumerate(self.labels)}
        of_names = np.array([index[name] for name in names.tolist()], np.int32)
        return Gold(
            window=np.repeat(np.arange(len(rows)), np.diff(offsets)),
            word_start=starts,
            word_end=ends,
            label=of_names[label] if len(label) else np.zeros(0, np.int32),
        )


def is_prepared(path: str) -> bool:
    """Return whether a path is the output of a job over shards, as opposed to input data.

    Args:
        path: a path or URL.
    """
    return exists(plan_path(absolute(path)))


def _identity(folder: str) -> dict[str, str]:
    """Return the identity of the job that prepared the annotated data in a folder."""
    identity = plan_identity(plan_path(folder)) if is_prepared(folder) else {}
    # Of the tables, training reads this one: those beside it may be of another version.
    version = identity.get(f"schema.{ANNOTATED_SAMPLES.name}")
    if tables_of(identity) != TRAINING_TABLES or version != str(ANNOTATED_SAMPLES.version):
        raise PipelineError("samples.not_annotated", path=folder)
    return identity


@contextmanager
def _opened(url: str, columns: tuple[str, ...]) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """Open a file of windows to read some of its columns."""
    fields = sorted(ANNOTATED_SAMPLES.schema.get_field_index(column) for column in columns)
    with open_input(url) as file:
        yield pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=fields))


def _context(identity: dict[str, str]) -> Context:
    limits = (identity[f"max_{side}_context"] for side in ("prev", "next"))
    return Context(identity["context"], *(None if limit == "None" else int(limit) for limit in limits))
