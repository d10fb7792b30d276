"""What is evaluated is what the model tags, with one pass of it."""

import pytest

from spanmarker_core import load
from spanmarker_core.data import Sentence, Span
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.predict import predict
from spanmarker_core.evaluation.scores.curves import FLOOR
from tests.support.tiny import GATE, tiny_bundle

TEXTS = """Barack Obama flew to Paris
he was in New York and she was in London
the
it is on for at Zürich
Müller flew to London of York
Obama was he
"""
DATA = [
    Sentence(f"d{number // 3}", number % 3, words.split(), [])
    for number, words in enumerate([*TEXTS.splitlines(), "the a of and in to was is " * 8])
]


def tagged(model, **options):
    found = model.tag_words([s.words for s in DATA], document_ids=[s.document_id for s in DATA], **options)
    return [{Span(e.word_start, e.word_end, e.label): e.score for e in entities} for entities in found]


@pytest.fixture(scope="module", params=["span_marker", "gated", "all_labels", "seq_ner"])
def model(request, tmp_path_factory):
    options = {
        "span_marker": {},
        "gated": {"gate": GATE},
        "all_labels": {"decoder": "all.v1", "threshold": {"person": 0.2, "work": 0.1}},
        "seq_ner": {"architecture": "seq_ner.v1", "options": {"tags": "softmax"}},
    }[request.param]
    return load(tiny_bundle(tmp_path_factory.mktemp("bundle") / request.param, **options))


@pytest.mark.parametrize("options", [{}, {"threshold": 0.3}, {"decoder": "nested.v1"}])
def test_predictions_are_what_tag_words_gives(model, options):
    if model.config.gives_tags and "decoder" in options:
        with pytest.raises(CoreError, match=r"call\.flat_tags"):
            predict(model, DATA, **options)
        return
    found = list(predict(model, DATA, **options))
    assert [each.sentence for each in found] == DATA
    assert [each.predictions for each in found] == tagged(model, **options)
    assert [each.lowered for each in found] == tagged(model, **{**options, "threshold": FLOOR})
    assert any(each.lowered for each in found)


def test_each_window_is_scored_once(model, monkeypatch):
    passes = []
    forward = model.network.forward

    def counted(batch, *arguments):
        passes.append(batch)
        return forward(batch, *arguments)

    monkeypatch.setattr(model.network, "forward", counted)
    tagged(model)
    once = len(passes)
    list(predict(model, DATA))
    assert len(passes) == 2 * once


def test_what_is_wrong_is_said_before_anything_is_read(tiny):
    def never():
        raise AssertionError
        yield

    with pytest.raises(CoreError, match=r"call.unknown_option"):
        predict(tiny, never(), decoder="best")
    with pytest.raises(CoreError, match=r"call.unknown_label"):
        predict(tiny, never(), threshold={"nobody": 0.5})


def test_it_knows_which_models_tag(model):
    assert model.config.gives_tags == (model.config.architecture == "seq_ner.v1")
