"""Parameters of a shard task.

They are small and contain no configuration object, because they are sent to every worker.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from spanmarker_core.spans.decoding import TaskThreshold, Threshold
from spanmarker_core.text.sentences import SentenceBreaks
from spanmarker_core.windows.packer import Context

#: What a job writes of sentences: no table, a table of their offsets, or one that also has their texts.
WriteSentences = Literal["none", "offsets", "text"]

#: The column of ids if a job names none.
DEFAULT_ID = "id"


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a table, or keys of JSON records, that a job reads.

    Each is a path: `metadata.text` is the field `text` of the column `metadata`, unless a column has that very name.

    Attributes:
        id: path of the ids.
        text: path of the texts.
        language: path of the languages; None if the documents do not state theirs.
        make_ids: whether a record without an id column gets an id made of its file and row; otherwise it is rejected.
        keep: paths of further columns to read; a path may also be a key of Hive partitions, such as `year=2024/`.
        kept: name and type of each of these columns in the rows of the job, in the same order.
    """

    id: str
    text: str
    language: str | None = field(default=None, kw_only=True)
    make_ids: bool = field(default=False, kw_only=True)
    keep: tuple[str, ...] = field(default=(), kw_only=True)
    kept: pa.Schema = field(default=pa.schema([]), kw_only=True)

    @property
    def read(self) -> tuple[str, ...]:
        """All paths that are read where a file has them, each once."""
        language = () if self.language is None else (self.language,)
        return tuple(dict.fromkeys((self.id, self.text, *language, *self.keep)))

    @staticmethod
    def of_identity(identity: Mapping[str, str]) -> "Columns":
        """Return the columns that a job read, without those that it kept.

        Args:
            identity: identity of the job; `read_values` of `pipelines.jobs.base` make this part of it.
        """
        id_column = identity["id_column"]
        made = id_column == DEFAULT_ID and "ids" not in identity
        return Columns(id_column, identity["text_column"], language=identity.get("language_column"), make_ids=made)


@dataclass(frozen=True, slots=True)
class Task:
    """Parameters shared by all shards of a job. This base class prepares shards, which does not need torch.

    Attributes:
        output: output folder, a path or URL.
        job: digest of the job identity.
        model: folder of the bundle, or its repository and commit, owner/name@commit, which each machine downloads once;
            "" is the bundled model, wherever a worker has it.
        model_digest: digest of the bundle.
        columns: columns of the inputs.
        language: language of the texts that don't state theirs, for the sentence splitter; "auto" detects it.
        code: `CODE_VERSION` of the program that planned the job.
        threads: CPU threads per worker; 0 leaves them unchanged.
        shard_seconds: time limit of a shard, in seconds; a process that exceeds it ends itself. 0 means no limit.
        worker_bytes: limit of resident memory, in bytes; a process that exceeds it ends itself. 0 means no limit.
        storage_options: options of the stores, `KEY=VALUE` or `PROTOCOL.KEY=VALUE`. Excluded from `repr`, because
            engines log their calls.
        lease: token of the driver's lease, checked against the output's lock before anything is published; "" means
            no lease. Excluded from comparison: the tasks of two runs are otherwise equal, so a worker that serves both
            loads its model once.
        sentence_breaks: what ends a sentence, see `spanmarker_core.text.sentences.SentenceBreaks`.
    """

    output: str
    job: str
    model: str
    model_digest: str
    columns: Columns
    language: str
    code: str
    threads: int
    shard_seconds: float
    worker_bytes: int
    storage_options: tuple[str, ...] = field(repr=False)
    lease: str = field(default="", kw_only=True, compare=False)
    sentence_breaks: SentenceBreaks = field(default="auto", kw_only=True)

    @property
    def machine(self) -> dict[str, str]:
        """Requirements on a worker's machine, for display."""
        return {}


@dataclass(frozen=True, slots=True)
class TagTask(Task):
    """Parameters for tagging shards.

    Attributes:
        device: device of the model.
        dtype: number format of the model.
        decoder: name of the decoder.
        threshold: threshold of the scores, or pairs of label and threshold, where None stands for entities whose best
            label it is; None uses the bundle's.
        gate: one of `spanmarker_core.bundle.config.GATE_CHOICES`.
        samples: output folder of the `spanmarker prepare` that read the shards; "" reads them in this job.
        samples_job: digest of the identity of that job.
        keep_in_annotations: whether every row of `annotations` has the kept columns of its document.
        write_sentences: what the table `sentences` holds, see `WriteSentences`.
        labels: the labels to write; () writes all.
    """

    device: str
    dtype: str
    decoder: str
    threshold: TaskThreshold
    gate: str
    samples: str
    samples_job: str
    keep_in_annotations: bool = field(default=False, kw_only=True)
    write_sentences: WriteSentences = field(default="none", kw_only=True)
    labels: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def thresholds(self) -> Threshold:
        """The threshold, by label where it has pairs."""
        return dict(self.threshold) if isinstance(self.threshold, tuple) else self.threshold

    @property
    def machine(self) -> dict[str, str]:
        """Device and number format."""
        return {"device": self.device, "dtype": self.dtype}


@dataclass(frozen=True, slots=True)
class AnnotatedTask(Task):
    """Parameters for preparing annotated shards for training. `model` is "", `model_digest` is the tokenizer's digest.

    The tokenizer is a file in the output, so that a worker needs neither the encoder nor transformers.

    Attributes:
        prefix: ids of the special tokens before a window's text.
        suffix: ids of the special tokens after it.
        unknown_id: id of the unknown token.
        max_tokens: tokens of the longest window.
        entity_max_length: words of the longest candidate span.
        splitter: name of the word splitter.
        context: text that a window shows around its sentence.
        scheme: tag scheme of data with tags; None for data without.
        token_column: CoNLL: column of the words, by number or name; None for the first but for an index.
        tag_column: CoNLL: column of the tags, by number or name; None for the last.
    """

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    unknown_id: int
    max_tokens: int
    entity_max_length: int
    splitter: str
    context: Context
    scheme: str | None
    token_column: int | str | None = None
    tag_column: int | str | None = None
