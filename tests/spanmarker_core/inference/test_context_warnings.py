"""A model is told to look at a document as it did not in training: that is said, once."""

import pickle
import warnings

import pytest

from spanmarker_core import load
from spanmarker_core.errors import CoreWarning
from spanmarker_core.windows.packer import Context
from tests.support.tiny import tiny_bundle as write

WORDS = [["Barack", "Obama", "flew"], ["he", "was", "in", "Paris"]]
DOCUMENT = {"context": "document", "max_prev_context": 1, "max_next_context": 2}


@pytest.fixture(scope="module")
def contextual(tmp_path_factory):
    """A bundle that was trained with a sentence before and two after."""
    return write(tmp_path_factory.mktemp("contextual") / "bundle", context=Context("document", 1, 2))


def warned(call) -> list[CoreWarning]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(warning.filename == __file__ for warning in caught)  # they point at the caller
    return [warning.message for warning in caught]


def test_another_context_than_in_training_is_said_once(tiny_bundle):
    model = load(tiny_bundle)
    [warning] = warned(lambda: model.tag_words(WORDS, document_ids=[1, 1], **DOCUMENT))
    assert warning.code == "context.differs"
    assert str(warning.values["found"]) == "context 'document' (up to 1 before, up to 2 after)"
    assert str(warning.values["trained"]) == "context 'sentence'"
    assert warned(lambda: model.tag_text(["he was in Paris"], **DOCUMENT)) == []


@pytest.mark.parametrize(
    "other", [{"context": "sentence"}, {"context": "document"}, {**DOCUMENT, "max_next_context": 0}]
)
def test_other_limits_are_another_context(contextual, other):
    model = load(contextual)
    [warning] = warned(lambda: model.tag_text(["he was in Paris"], **other))
    assert warning.code == "context.differs"


def test_as_trained_there_is_nothing_to_say(contextual, tiny_bundle):
    model = load(contextual)
    assert warned(lambda: model.tag_words(WORDS, document_ids=[1, 1])) == []
    assert warned(lambda: model.tag_words(WORDS, document_ids=[1, 1], **DOCUMENT)) == []
    assert warned(lambda: model.tag_text(["he was in Paris. It was."])) == []
    assert warned(lambda: load(tiny_bundle).tag_words(WORDS)) == []


def test_sentences_without_their_documents_have_no_context(contextual):
    model = load(contextual)
    assert warned(lambda: model.tag_words(WORDS[:1])) == []  # alone, it may be a document
    [warning] = warned(lambda: model.tag_words(WORDS))
    assert warning.code == "context.no_documents"
    assert warned(lambda: model.tag_words(WORDS)) == []


def test_a_warning_can_be_made_an_error(contextual):
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoreWarning)
        with pytest.raises(CoreWarning, match=r"context\.differs"):
            load(contextual).tag_words(WORDS, context="sentence")


def test_a_warning_crosses_processes():
    warning = CoreWarning("context.no_documents", trained="context 'document'")
    for again in (pickle.loads(pickle.dumps(warning)), type(warning)(*warning.args)):
        assert (str(again), again.code, again.values) == (str(warning), warning.code, warning.values)
    assert str(warning).startswith("[context.no_documents] ")
    assert "context 'document'" in str(warning)
