"""The sentences and words that a run tagged: made again from the text, and compared with the rows."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pipelines.errors import PipelineError
from pipelines.stages.languages import AUTO, DEFAULT
from spanmarker_core.bundle.reader import read_info, read_packer
from spanmarker_core.formats.document import AnnotatedSentence
from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.text.words import split_words

_Bounds = list[tuple[int, int]]
Row = dict[str, Any]


class RunWords:
    """Splits texts as a run did.

    Args:
        identity: identity of the job.
        model: folder of the model bundle, which the splitter `tokenizer.v1` needs; None if it is not available.

    Raises:
        PipelineError: `export.other_model`.
        CoreError: `bundle.*`.
    """

    def __init__(self, identity: dict[str, str], model: str | None) -> None:
        self._identity = identity
        self._breaks: Any = identity.get("sentence_breaks", "auto")
        self._splitter: str | None = None
        if model is not None:
            info = read_info(model)
            if info.digest != identity["model"]:
                raise PipelineError("export.other_model", path=model, there=identity["model"], here=info.digest)
            self._splitter, self._packer = info.config.splitter, read_packer(model, info.config)

    def of_shard(self, schema: pa.Schema) -> Callable[[list[str]], list[_Bounds]]:
        """Return the word splitter of a shard: a function from sentences to the bounds of their words.

        Args:
            schema: schema of its documents, whose metadata name the splitter; those of earlier versions do not.

        Raises:
            PipelineError: `export.model_needed`.
        """
        # A shard that doesn't name its splitter most likely has that of raw text; if not, the comparison fails.
        name = self._splitter or (schema.metadata or {}).get(b"spanmarker.splitter", b"words.v1").decode()
        if name == "words.v1":
            return lambda texts: [_bounds(*split_words(text)) for text in texts]
        if self._splitter is None:
            raise PipelineError("export.model_needed", splitter=name)
        return lambda texts: [
            _bounds(each.word_char_start, each.word_char_end) for each in self._packer.encode_texts(texts)
        ]

    def split(
        self, row: Row, text: str, entities: list[Row], words_of: Callable[[list[str]], list[_Bounds]]
    ) -> list[AnnotatedSentence]:
        """Return the sentences of a document with their words.

        Args:
            row: its row of `documents`.
            text: its text.
            entities: its rows of `annotations`.
            words_of: the word splitter of its shard.

        Raises:
            PipelineError: `export.other_words` if they are not those of the rows.
        """
        # A document without a language is blank, or of an earlier version, in which all had that of the job.
        language = row.get("language") or self._identity["language"]
        sentences = split_sentences(text, DEFAULT if language == AUTO else language, self._breaks)
        words = words_of([text[start:end] for start, end in sentences])
        counts = (len(sentences), sum(map(len, words)))
        if counts != (row["n_sentences"], row["n_words"]):
            there = f"{row['n_sentences']} sentences and {row['n_words']} words"
            raise self._other(row, f"the run found {there}, and there are {counts[0]} and {counts[1]}")
        for entity in entities:
            number, first, last = entity["sentence_id"], entity["word_start"], entity["word_end"] - 1
            found = words[number] if 0 <= number < len(words) else []
            offset = sentences[number][0] if found else 0
            if not (
                0 <= first <= last < len(found)
                and offset + found[first][0] == entity["char_start"]
                and offset + found[last][1] == entity["char_end"]
            ):
                raise self._other(row, f"entity {entity['entity_id']} does not begin and end with words")
        return [
            AnnotatedSentence(start, end, [(start + first, start + last) for first, last in found if first < last])
            for (start, end), found in zip(sentences, words, strict=True)
        ]

    def _other(self, row: Row, reason: str) -> PipelineError:
        there = self._identity.get("sentences", "an unknown sentence splitter")
        return PipelineError("export.other_words", document=row["document_id"][:100], reason=reason, sentences=there)


def _bounds(starts: Any, ends: Any) -> _Bounds:
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
