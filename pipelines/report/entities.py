"""Statistics that require reading annotation rows: the most frequent entity texts and the distribution of scores.

Texts are counted exactly while there are few distinct ones. Above `MAX_TEXTS`, the summary of each label is reduced to
its largest counts with the algorithm of Misra and Gries ("Finding repeated elements", 1982): the count of the first
dropped text is subtracted from all counts, and texts whose count drops to zero are removed. Summaries of parts can be
merged (Agarwal et al. 2012, "Mergeable summaries"). A count is too small by at most the sum of the subtracted counts,
which the report shows with it; with k texts kept, this is at most 1 / (k + 1) of the label's rows. A `GROUP BY` of a
database would be exact, but its memory grows with the distinct texts, of which 10^9 rows have many.

For a large output only a sample of the shards is read, chosen by a digest of their names. The pass therefore takes
seconds for any output, and the same rows in the same shards give the same report.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.output.digest_set import DigestSet, Sizes, chunks
from pipelines.output.layout import table_path
from pipelines.report.tables import table_batches
from schemas import ANNOTATIONS

#: Maximum numbers of rows and files that are read; the first file is always read.
MAX_ROWS, MAX_FILES = 4_000_000, 1_000
#: Maximum number of distinct texts counted at once, over all labels.
MAX_TEXTS = 1 << 18
#: Number of code points of a text that are compared; texts with the same beginning are counted as one.
TEXT_CHARACTERS = 100
#: Number of bars in the histogram of scores, each 1 / SCORE_BINS wide; the last one includes 1.
SCORE_BINS = 20
#: Number of texts per label in the report.
SHOWN_TEXTS = 10
#: Maximum number of labels whose texts and scores are in the report, those with the most rows first.
SHOWN_LABELS = 100

_READERS = 4
_COLUMNS = ["label", "score", "text"]
_COUNTED = pa.schema([("label", pa.string()), ("text", pa.string()), ("count", pa.int64())])


@dataclass(slots=True)
class EntityCounts:
    """Counts over annotation rows.

    Attributes:
        rows: number of rows by label.
        scores: histogram of scores by label, int64 [SCORE_BINS] each.
        score_sums: sum of scores by label.
        taken: by label, the maximum by which counts of texts are too small.
    """

    rows: dict[str, int] = field(default_factory=dict)
    scores: dict[str, np.ndarray] = field(default_factory=dict)
    score_sums: dict[str, float] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    # Tables of type _COUNTED; a (label, text) pair may be in several of them
    _texts: list[pa.Table] = field(default_factory=list)
    _held: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add annotation rows.

        Args:
            batch: columns `label`, `score` and `text`.
        """
        if not len(batch):
            return
        labels = pc.dictionary_encode(batch["label"])
        codes, names = labels.indices.to_numpy(zero_copy_only=False), labels.dictionary.to_pylist()
        score = batch["score"].to_numpy(zero_copy_only=False).astype(np.float64)
        bins = np.clip((score * SCORE_BINS).astype(np.int64), 0, SCORE_BINS - 1)
        counts = np.bincount(codes * SCORE_BINS + bins, minlength=len(names) * SCORE_BINS).reshape(-1, SCORE_BINS)
        sums = np.bincount(codes, weights=score, minlength=len(names))
        for number, name in enumerate(names):
            self._count(name, counts[number], float(sums[number]))
        text = pc.utf8_slice_codeunits(batch["text"], 0, TEXT_CHARACTERS).cast(pa.string())
        # Group by label codes, which are faster to compare than labels.
        table = pa.table({"code": labels.indices, "text": text})
        grouped = table.group_by(["code", "text"]).aggregate([([], "count_all")])
        self._hold(
            pa.table(
                [labels.dictionary.cast(pa.string()).take(grouped["code"]), grouped["text"], grouped["count_all"]],
                schema=_COUNTED,
            )
        )

    def merge(self, other: "EntityCounts") -> None:
        """Add the counts over other rows.

        Args:
            other: the counts to add.
        """
        for label, scores in other.scores.items():
            self._count(label, scores, other.score_sums[label])
        for label, taken in other.taken.items():
            self.taken[label] = self.taken.get(label, 0) + taken
        for texts in other._texts:
            self._hold(texts)

    def top(self, count: int = SHOWN_TEXTS) -> dict[str, list[tuple[str, int]]]:
        """Return the most frequent texts of each label with their counts; ties are broken by the text.

        Args:
            count: maximum number of texts per label.
        """
        self._compact()
        found: dict[str, list[tuple[str, int]]] = {label: [] for label in self.rows}
        texts = self._whole()
        ordered = texts.sort_by([("label", "ascending"), ("count", "descending"), ("text", "ascending")])
        first = ordered.filter(pa.array(_ranks(ordered["label"]) < count))
        for row in first.to_pylist():
            found[row["label"]].append((row["text"], row["count"]))
        return found

    def _count(self, label: str, scores: np.ndarray, score_sum: float) -> None:
        self.rows[label] = self.rows.get(label, 0) + int(scores.sum())
        self.scores[label] = self.scores.get(label, 0) + scores
        self.score_sums[label] = self.score_sums.get(label, 0.0) + score_sum

    def _hold(self, texts: pa.Table) -> None:
        self._texts.append(texts)
        self._held += len(texts)
        if self._held > 2 * MAX_TEXTS:
            self._compact()

    def _whole(self) -> pa.Table:
        return pa.concat_tables([_COUNTED.empty_table(), *self._texts]).combine_chunks()

    def _compact(self) -> None:
        """Merge duplicate pairs, and reduce each label if there are too many texts."""
        grouped = self._whole().group_by(["label", "text"]).aggregate([("count", "sum")])
        texts = grouped.rename_columns({"count_sum": "count"}).select(_COUNTED.names)
        if len(texts) > MAX_TEXTS:
            texts = self._cut(texts)
        self._texts, self._held = [texts], len(texts)

    def _cut(self, texts: pa.Table) -> pa.Table:
        kept = max(MAX_TEXTS // 2 // len(self.rows), 1)
        ordered = texts.sort_by([("label", "ascending"), ("count", "descending"), ("text", "ascending")])
        labels = pc.dictionary_encode(ordered["label"].combine_chunks())
        codes = labels.indices.to_numpy(zero_copy_only=False)
        counts = ordered["count"].to_numpy()
        left_out = _ranks(ordered["label"]) == kept  # the first dropped text of each label
        taken = np.zeros(len(labels.dictionary), np.int64)
        taken[codes[left_out]] = counts[left_out]
        for number, name in enumerate(labels.dictionary.to_pylist()):
            self.taken[name] = self.taken.get(name, 0) + int(taken[number])
        rest = counts - taken[codes]
        cut = ordered.set_column(2, "count", pa.array(rest))
        return cut.filter(pa.array(rest > 0))


def _ranks(labels: pa.ChunkedArray) -> np.ndarray:
    """Return the rank of each row among the rows of its label, from 0. Labels must be sorted.

    >>> _ranks(pa.chunked_array([["a", "a", "b"]])).tolist()
    [0, 1, 0]
    """
    codes = pc.dictionary_encode(labels.combine_chunks()).indices.to_numpy(zero_copy_only=False)
    first = np.flatnonzero(np.diff(codes, prepend=-1))
    return np.arange(len(codes)) - np.repeat(first, np.diff(first, append=len(codes)))


def shards_to_look_at(rows: Sizes, max_rows: int = MAX_ROWS, max_files: int = MAX_FILES) -> DigestSet:
    """Return shards with at most `max_rows` rows together: all, or those whose names have the smallest digests.

    Args:
        rows: number of annotation rows by shard.
        max_rows: maximum number of rows in the shards returned; the first shard is always included.
        max_files: maximum number of shards returned.
    """
    order = rows.names.keys  # sorted by digest
    fits = np.cumsum(rows.sizes) <= max_rows
    fits[:1] = True
    return DigestSet(order[: int(np.argmin(fits)) if not fits.all() else len(order)][:max_files])


def count_entities(output: str, shards: Iterable[str]) -> EntityCounts:
    """Count the annotations of finished shards. Memory holds a few row groups and about `MAX_TEXTS` texts.

    Args:
        output: the output folder.
        shards: names of finished shards.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`.
    """
    found = EntityCounts()
    with ThreadPoolExecutor(_READERS) as pool:
        for chunk in chunks(shards, _READERS):  # merged in the order of the names, whichever finishes first
            for counts in pool.map(lambda shard: _of_shard(output, shard), chunk):
                found.merge(counts)
    return found


def _of_shard(output: str, shard: str) -> EntityCounts:
    counts = EntityCounts()
    for batch in table_batches(table_path(output, ANNOTATIONS.name, shard), _COLUMNS):
        counts.add(batch)
    return counts


def describe_entities(
    counts: EntityCounts, shards: int, all_shards: int, all_rows: int, *, texts: bool = True
) -> dict[str, Any]:
    """Return the entity statistics of the report as plain values.

    Args:
        counts: counts of the shards that were read.
        shards: number of shards that were read.
        all_shards: number of shards in the output.
        all_rows: number of annotation rows in the output.
        texts: whether to include the most frequent texts.
    """
    labels = sorted(counts.rows, key=lambda label: (-counts.rows[label], label))[:SHOWN_LABELS]
    top = counts.top() if texts else {}
    bins = np.sum([*counts.scores.values(), np.zeros(SCORE_BINS, np.int64)], axis=0)
    return {
        "rows_looked_at": sum(counts.rows.values()),
        "rows": all_rows,
        "shards_looked_at": shards,
        "shards": all_shards,
        "score_bins": bins.tolist(),
        "labels": [
            {
                "label": label,
                "rows": counts.rows[label],
                "mean_score": round(counts.score_sums[label] / counts.rows[label], 4),
                "score_bins": counts.scores[label].tolist(),
                "top": [{"text": text, "count": count} for text, count in top.get(label, [])],
                "counts_too_small_by_up_to": counts.taken.get(label, 0),
            }
            for label in labels
        ],
        "labels_not_shown": len(counts.rows) - len(labels),
    }
