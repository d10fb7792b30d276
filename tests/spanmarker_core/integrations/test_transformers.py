"""The transformers pipeline."""

import pytest
import transformers
from torch.utils.data import Dataset

from spanmarker_core import load
from spanmarker_core.errors import CoreError
from spanmarker_core.integrations.transformers import SpanMarkerPipeline, pipeline

TEXTS = ["Barack Obama flew to Paris. He was in New York.", "", "Zürich!", "the city of London and Paris " * 5] * 20


@pytest.fixture(scope="module")
def ner(tiny_bundle):
    return pipeline(tiny_bundle)


def test_an_answer_has_the_form_of_token_classification(ner, tiny):
    found = ner(TEXTS[0])
    assert [list(entity) for entity in found] == [["entity_group", "score", "word", "start", "end"]] * len(found)
    expected = [(e.label, e.score, e.text, e.char_start, e.char_end) for e in tiny.tag_text(TEXTS[:1])[0]]
    assert [tuple(entity.values()) for entity in found] == expected
    assert len(found) > 1
    assert all(TEXTS[0][entity["start"] : entity["end"]] == entity["word"] for entity in found)


def test_lists_generators_and_data_sets_are_batched_and_answer_alike(ner, monkeypatch):
    class Texts(Dataset):
        def __len__(self):
            return len(TEXTS)

        def __getitem__(self, index):
            return TEXTS[index]

    def spans(answers):
        return [[(e["entity_group"], e["start"], e["end"]) for e in answer] for answer in answers]

    calls, tag_text = [], ner.model.tag_text
    monkeypatch.setattr(ner.model, "tag_text", lambda texts, **o: calls.append(len(texts)) or tag_text(texts, **o))
    alone = spans(ner(text) for text in TEXTS[:4]) * 20
    calls.clear()
    assert spans(ner(TEXTS)) == alone
    assert calls == [64, 16]
    calls.clear()
    streamed = ner((text for text in TEXTS), batch_size=50)
    assert calls == []  # nothing is read before it is asked for
    assert spans(streamed) == alone
    assert calls == [50, 30]
    assert spans(ner(Texts())) == alone
    assert ner([]) == []


def test_transformers_own_function_takes_a_loaded_model(tiny):
    made = transformers.pipeline("span-marker", model=tiny, decoder="all.v1")
    assert isinstance(made, SpanMarkerPipeline)
    assert len(made(TEXTS[0])) > len(made(TEXTS[0], decoder="flat.v1")) == len(tiny.tag_text(TEXTS[:1])[0])
    assert "span-marker" in transformers.pipelines.get_supported_tasks()


def test_options_of_loading(tiny_bundle, tiny):
    assert repr(pipeline(tiny_bundle, dtype="int8")) == "SpanMarkerPipeline(device='cpu', dtype='int8')"
    for option, value in (("device", "cuda"), ("dtype", "bfloat16"), ("dtype", "float16")):
        with pytest.raises(CoreError, match=r"call\.settled_when_loaded"):
            transformers.pipeline("span-marker", model=tiny, **{option: value})
    transformers.pipeline("span-marker", model=tiny, device="cpu", dtype="float32")


@pytest.mark.parametrize("options", [{"aggregation_strategy": "simple"}, {"stride": 3}])
def test_options_that_there_are_not_are_refused(ner, tiny_bundle, options):
    for call in (lambda: pipeline(tiny_bundle, **options), lambda: ner("a", **options)):
        with pytest.raises(CoreError) as caught:
            call()
        assert caught.value.code == "call.unknown_option"


def test_it_is_stored_as_its_bundle(ner, tiny, tmp_path):
    assert ner.save_pretrained(tmp_path / "copy") == tiny.bundle.digest
    assert load(tmp_path / "copy").bundle.digest == tiny.bundle.digest
