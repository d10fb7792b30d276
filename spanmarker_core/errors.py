"""Every error a user of the models can meet: a stable code, the value, the limit, the remedy.

The messages live in one place so that they can be read as one text. `CodedError` formats
a message from its code:

    >>> raise CoreError("bundle.missing_file", path="bundle/", file="config.json")
    Traceback (most recent call last):
    CoreError: [bundle.missing_file] bundle/ has no config.json. ...
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar


class CodedError(Exception):
    """An error with a stable `code` that looks its message up in the class's `MESSAGES`."""

    MESSAGES: ClassVar[dict[str, str]] = {}

    def __init__(self, code: str, **values: object) -> None:
        self.code = code
        self.values = values
        super().__init__(f"[{code}] {self.MESSAGES[code].format(**values)}")

    def __reduce__(self) -> tuple[object, ...]:
        # The default passes the formatted message as the code, which breaks errors that cross processes.
        return _rebuild, (type(self), self.code, self.values)


def _rebuild(kind: type[CodedError], code: str, values: dict[str, object]) -> CodedError:
    return kind(code, **values)


class UnusableError(Exception):
    """What keeps a folder, a file or a config from being used, in words. Callers add the code and the path."""


@contextmanager
def as_core_error(code: str, **values: object) -> Iterator[None]:
    """Turn an `UnusableError` into a `CoreError` with this code; its `problem` is what was said."""
    try:
        yield
    except UnusableError as error:
        raise CoreError(code, problem=str(error), **values) from error


@contextmanager
def wrap_errors(what: str) -> Iterator[None]:
    """Turn whatever another library raises over what it was given into an `UnusableError`.

    tokenizers, safetensors, torch and a hundred model types each have their own exceptions, bare ones too.
    """
    try:
        yield
    except (CodedError, UnusableError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise UnusableError(f"{what} ({reason})") from error


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
        raise CoreError("library.panicked", library=library, reason=" ".join(str(error).split())[:300]) from None


def _is_panic(error: BaseException) -> bool:
    # The class is made anew in each extension module, and none exports it.
    return type(error).__name__ == "PanicException"


class CoreWarning(UserWarning):
    """What a user of the models should know and that stops nothing: a stable code, and what to do.

    `warnings.filterwarnings("error", category=CoreWarning)` makes errors of them.
    """

    MESSAGES: ClassVar[dict[str, str]] = {
        "context.differs": "windows show {found}, and the model was trained with {trained}. Entities may be worse for "
        "it: leave out context to tag as trained.",
        "context.no_documents": "the model was trained with {trained}, and these sentences came without document_ids, "
        "so each is shown alone. Say which document each belongs to.",
        "spacy.not_on_tokens": "{count} of {total} entities do not begin and end with spaCy's tokens and {done}. Said "
        "once; the component's `counts` go on, and doc.user_data['spanmarker'] has every entity as it was found.",
    }

    def __init__(self, code: str, told: Mapping[str, object] | None = None, /, **values: object) -> None:
        self.code = code
        self.values = {**(told or {}), **values}
        # Its parts, not its text, so that another process can make it again.
        super().__init__(code, self.values)

    def __str__(self) -> str:
        return f"[{self.code}] {self.MESSAGES[self.code].format(**self.values)}"


class CoreError(CodedError):
    """An error of `spanmarker_core`: models, bundles, words, labels, annotated data."""

    MESSAGES: ClassVar[dict[str, str]] = {
        # bundles
        "bundle.not_found": "{path} is not a model bundle: it holds no {file}. Name a folder written by "
        "`spanmarker train` or `spanmarker import-checkpoint`.",
        "bundle.missing_file": "{path} has no {file}, which its digests.json lists. Copy the bundle again, whole.",
        "bundle.digest_mismatch": "{path}/{file} has SHA-256 {found}, but digests.json says {expected}. "
        "The file was changed or damaged after the bundle was saved: copy the bundle again.",
        "bundle.bad_config": "{path}/config.json can't be used: {problem}.",
        "bundle.bad_file": "{path}/{file} can't be used: {problem}. Copy the bundle again, whole.",
        "bundle.format_too_new": "{path} has bundle format {found}, and this version reads up to {limit}. "
        "Upgrade spanmarker-pipelines.",
        "bundle.nan_weight": "{path}: weight {name} holds {count} values that are not finite. "
        "Training diverged or the file is damaged: use an earlier checkpoint.",
        "bundle.weights_mismatch": "{path}: weights and config disagree: {problem}.",
        "bundle.output_exists": "{path} already exists and is not empty. Choose another --output or remove it.",
        "bundle.output_not_writable": "{path} can't be written: {reason}. Choose another --output.",
        "bundle.output_inside": "{path} lies inside the bundle {bundle}, which stays as it is. "
        "Choose another --output.",
        # the hub
        "hub.not_found": "{name} is neither a folder nor the name of a repository such as owner/name.",
        "hub.no_revision": "no folder {name} is here, and of a repository the revision has to be named: "
        "revision='main', or better a tag or a commit, which stays what it is.",
        "hub.not_a_bundle": "{name} at {revision} holds no {file}, so it is not a model bundle. Checkpoints of the "
        "span_marker library are taken over by `spanmarker import-checkpoint`, from a folder.",
        "hub.failed": "the hub did not give or take {name}: {reason}.",
        "hub.changed": "the bundle {path} has digest {found} and had {expected} when it was loaded. Load it again.",
        "hub.not_stored": "this model was never stored, so it has no bundle to copy. Write it with save_bundle.",
        # cards
        "card.other_data": "{path} holds {found}, but the model was trained on {expected}. Name the data it was "
        "trained on.",
        # encoders
        "encoder.no_position_ids": "{encoder} can't be used for packed texts and markers: {reason}. "
        "Use an encoder with absolute positions, such as BERT, RoBERTa, XLM-RoBERTa, ELECTRA or DistilBERT.",
        "encoder.not_independent": "{encoder} can't be used for packed texts and markers: it gives other states than "
        "its own to {states} (they differ by {found}, the limit is {limit} of the largest). Use a kind of encoder that "
        "docs/library.md lists as working.",
        "encoder.no_fast_tokenizer": "{path} has no fast tokenizer (tokenizer.json), which word offsets need.",
        "encoder.not_found": "{path} is not a folder. Encoders are read from local folders: download one first.",
        "encoder.unreadable": "{path} can't be used as an encoder: {problem}.",
        "encoder.too_few_layers": "encoder_layers {found} is not from 1 to {limit}, the layers of {path}.",
        "encoder.too_many_pair_layers": "pair_layers {found} is not from 0 to {limit}, the layers of this encoder.",
        "encoder.entity_too_long": "entity_max_length {found} is more than the {limit} words that overlapping windows "
        "of {max_tokens} tokens can hold. Lower entity_max_length, or raise max_tokens.",
        "encoder.window_too_long": "max_tokens {found} is more than the {limit} positions of this encoder.",
        "encoder.window_too_short": "max_tokens {found} is too short: a window needs at least {limit} tokens.",
        # checkpoints of the span_marker library
        "checkpoint.not_span_marker": "{path} is not a span_marker checkpoint: {problem}.",
        "checkpoint.no_outside_label": "the labels {labels} have no 'O' (outside), so spans that are no entity "
        "have no class. Retrain with an 'O' label.",
        # libraries
        "library.panicked": "{library} failed on this input because of a bug in that library: {reason}. "
        "Remove the text from the input, and report the bug to the project of {library}.",
        # devices
        "device.not_available": "device {device} was asked for and is not available: {reason}. "
        "Use --device cpu or mend the driver.",
        "device.no_int8": "device {device} can't run a model in int8: {reason}. Use --dtype float32, or --device cpu.",
        # calls
        "call.lengths_differ": "{what} has {found} items and the sentences are {expected}. Give one a sentence.",
        "call.unknown_option": "{option} {value!r} is not one of {choices}.",
        "call.out_of_range": "{problems}.",
        "call.not_a_list": "{call} takes a list of {items}, not {kind}. Put it into a list.",
        "call.limit_without_context": "max_prev_context and max_next_context limit context 'document' only. "
        "Name it beside them; without a context, the bundle's own policy and limits hold.",
        "call.flat_tags": "decoder {decoder} can't be had: entities of this model come from tags, which neither "
        "nest nor cross. Leave it out.",
        "call.no_gate": "{path} has no gate to switch on. Fit one with `spanmarker gate fit`, or train with one.",
        "call.bad_span_limit": "{value} spans of a class can't be looked at: 1 or more.",
        "call.bad_limit": "{name} {value!r} is not a number of sentences: 0 or more, or None for all that fit.",
        "spacy.bad_batch_size": "batch_size {value} is not a number of documents: 1 or more.",
        "call.ids_without_documents": "sentence_ids place a sentence in its document: give document_ids too.",
        "call.sentences_differ": "sentences of {found} texts were given with {expected} texts. Give a list a text.",
        "call.bad_sentences": "the sentences of text {index} are not half-open ranges within its {limit} characters, "
        "one after the other: {found} ….",
        "call.settled_when_loaded": "{option} {found!r} is not {expected!r}, which the model was loaded with. "
        "Name it when the model is loaded.",
        "call.half_a_character": "{what} {index} holds half a surrogate pair (U+{unit:04X}), which is no text. "
        "Decode it anew from its bytes.",
        "call.not_words": "sentence {index} is {kind}, not a list of strings. For raw text call tag_text.",
        "call.not_text": "text {index} is {kind}, not a string. For words call tag_words.",
        "call.bad_threshold": "threshold {value!r} is not a number from 0 to 1 (or a dict of label to such numbers "
        "with labels from {labels}).",
        # representations
        "representations.none": "{architecture} tags words and classifies no spans, so there are no representations of "
        "spans to look at. Name a model of another architecture.",
        # fitting gates
        "gate.trained_jointly": "{path} has a gate that was trained with the model and belongs to it. "
        "Use the bundle as it is.",
        "gate.no_choice": "{architecture} with the options of this model scores no spans, or not each by itself, so "
        "there is nothing that a gate could choose. Use the bundle as it is.",
        "gate.too_few_documents": "the corpus gave {found} documents with text, and a gate is fitted to some and "
        "measured on others: it takes {limit} or more. Name more files, or cut long documents into parts.",
        "gate.too_few_entities": "the model finds {found} entities in the text that is kept to measure the gate, and "
        "below {limit} a recall says little. Raise --sentences, or name text with more of what the model was made for.",
        "gate.corpus_too_small": "{problem}. {read} {remedy}",
        # training
        "training.changed": "{path} holds the checkpoints of another run, which can't go on as this one:\n"
        "{differences}\nGive the same data and settings to go on, choose another --output, or remove {path} to begin "
        "anew.",
        "training.bad_checkpoint": "{path} can't be gone on from: {problem}. Remove it to go on from the checkpoint "
        "before it, or remove its folder to begin anew.",
        "training.no_sharding": "{kind} was asked for, and processes share a step's work here, not the weights: each "
        "runs the encoder once a chunk of its own markers, and sharded layers would wait for chunks that others don't "
        "have. Use torchrun, or accelerate launch --multi_gpu.",
        "training.contradiction": "These settings don't go together: {problems}.",
        "training.in_use": "{path} is in use by another process that trains the same model. Wait for its end, or end "
        "it: workers outlive a launcher that was killed.",
        "training.folder_not_writable": "checkpoints go to {path}, beside the bundle, and it can't be written: {reason}"
        ". Choose another --output.",
        "training.not_finite": "{what} is not a number in step {step}: training diverged, or the data make it so. It "
        "learned from {windows}. Lower the learning rate, or look at these sentences. The last checkpoint is from "
        "before.",
        "training.no_precision": "precision {precision} can't be had on {device}: {reason}. Use --precision {other}.",
        # label schemes
        "labels.bad_tag": "tag {tag!r} at word {word} is not a tag of scheme {scheme}: {problem}.",
        "labels.bad_sequence": "tag {tag!r} at word {word} can't follow {previous} in scheme {scheme}.",
        "labels.unfinished": "tag {tag!r} at word {word} is the sentence's last, and scheme {scheme} needs "
        "{closing!r} to end its span.",
        "labels.bad_label": "label {label!r} can't be used: {problem}.",
        "labels.bad_span": "{span} does not fit a sentence of {n_words} words: expected 0 <= start < end <= {n_words}.",
        "labels.overlap": "{scheme} can't hold the overlapping spans {first} and {second}. Use span lists.",
        "labels.adjacent": "{scheme} can't separate the adjacent spans {first} and {second} of label {label}.",
        # annotated data
        "data.bad_record": "{path}, line {line}: {problem}.",
        "data.bad_row": "{path}, row {row} (from 0): {problem}.",
        "data.bad_dataset": "{path}: {problem}.",
        "data.not_found": "{path} does not exist.",
        "data.unknown_format": "{path} is not annotated data: expected .jsonl, .parquet, .conll (or .iob, .bio, .txt), "
        "or a folder saved by `datasets`.",
        "data.scheme_needed": "{path} holds tags, and their scheme was not named. Give --scheme: {schemes}.",
        "data.scheme_mismatch": "{path} holds {holds}, which scheme {scheme} can't read. Use --scheme: {schemes}.",
        "data.empty": "{path} holds no sentences.",
        "data.no_entities": "{path} holds no entities, so there is nothing to learn or score.",
        "data.no_common_label": "none of the gold labels ({found}) is one of the model's ({labels}). "
        "Rename the labels of the data, or take a model that was trained on them.",
        "data.duplicate_sentence": "{name} is there twice. Number the sentences of a document, and name each document "
        "once.",
        "data.no_windows": "{path} holds no window with a candidate span: it is empty, or none of its words has a "
        "token.",
        "data.unknown_label": "{path}: label {label!r} is not one of the model's: {labels}.",
    }
