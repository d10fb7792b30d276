"""The spaCy component."""

import json
import os
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc

import spanmarker_core.integrations.spacy  # noqa: F401  # where the project is not installed, this registers it
from spanmarker_core import load
from spanmarker_core.errors import CoreError, CoreWarning
from spanmarker_core.windows.packer import Context
from tests.support.tiny import tiny_bundle as write

TEXT = "Barack Obama flew to Paris. He was in New York! the city of London"
TEXTS = [TEXT, "", "Zürich", "she was in Paris. It was on a Tuesday. " * 8, " \n "] * 7


def pipeline(model, *before, name="en", **config):
    nlp = spacy.blank(name)
    for component in before:
        nlp.add_pipe(component)
    nlp.add_pipe("spanmarker", config={"model": str(model), **config})
    return nlp


def entities(spans):
    return [(span.label_, span.start_char, span.end_char) for span in spans]


def given(found):
    """The same of the model's own entities."""
    return [(e.label, e.char_start, e.char_end) for e in found]


def test_entities_are_the_models(tiny_bundle, tiny):
    doc = pipeline(tiny_bundle)(TEXT)
    expected = given(tiny.tag_text([TEXT])[0])
    assert entities(doc.ents) == entities(doc.spans["spanmarker"]) == expected
    assert len(expected) > 2
    scores = [e.score for e in tiny.tag_text([TEXT])[0]]
    assert doc.spans["spanmarker"].attrs["scores"].tolist() == pytest.approx(scores, abs=1e-5)
    assert [(e["label"], e["start_char"], e["end_char"]) for e in doc.user_data["spanmarker"]] == expected


@pytest.mark.parametrize("before", [(), ("sentencizer",)])
def test_pipe_gives_what_single_calls_give_in_batches(tiny_bundle, before, monkeypatch):
    nlp = pipeline(tiny_bundle, *before)
    alone = [entities(nlp(text).ents) for text in TEXTS]
    tagger = nlp.get_pipe("spanmarker").tagger
    calls, tag_text = [], tagger.tag_text
    monkeypatch.setattr(tagger, "tag_text", lambda texts, **o: calls.append(len(texts)) or tag_text(texts, **o))
    assert [entities(doc.ents) for doc in nlp.pipe(TEXTS, batch_size=20)] == alone
    assert calls == [20, 15]
    assert sum(map(len, alone)) > 50
    assert [context for _, context in nlp.pipe([(text, i) for i, text in enumerate(TEXTS)], as_tuples=True)] == list(
        range(len(TEXTS))
    )


def test_its_batch_size_is_the_most_that_is_tagged_in_one_call(tiny_bundle, monkeypatch):
    nlp = spacy.blank("en")
    tagger = nlp.add_pipe("spanmarker", config={"model": str(tiny_bundle), "batch_size": 15}).tagger
    calls, tag_text = [], tagger.tag_text
    monkeypatch.setattr(tagger, "tag_text", lambda texts, **o: calls.append(len(texts)) or tag_text(texts, **o))
    assert len(list(nlp.pipe(TEXTS))) == sum(calls) == 35
    assert calls == [15, 15, 5]
    assert len(list(nlp.pipe(TEXTS[:5], batch_size=4))) == 5
    assert calls[3:] == [4, 1]
    with pytest.raises(CoreError, match=r"spacy.bad_batch_size"):
        spacy.blank("en").add_pipe("spanmarker", config={"model": str(tiny_bundle), "batch_size": 0})


def test_sentences_of_an_earlier_component_are_used(tiny_bundle, tiny):
    """Spans never cross them, so tagged with a boundary after every second word no entity is longer."""
    nlp = spacy.blank("en")

    @spacy.Language.component("every_second")
    def every_second(doc):
        for token in doc:
            token.is_sent_start = token.i % 2 == 0
        return doc

    nlp.add_pipe("every_second")
    nlp.add_pipe("spanmarker", config={"model": str(tiny_bundle)})
    doc = nlp(TEXT)
    bounds = [(sent.start_char, sent.end_char) for sent in doc.sents]
    expected = given(tiny.tag_text([TEXT], sentences=[bounds])[0])
    assert entities(doc.ents) == expected
    assert expected
    assert all(len(span) <= 2 and span.start // 2 == (span.end - 1) // 2 for span in doc.ents)
    assert any(e.word_end - e.word_start > 2 for e in tiny.tag_text([TEXT])[0])


def test_a_document_of_both_kinds_in_one_batch(tiny_bundle):
    nlp = pipeline(tiny_bundle)
    bounded = spacy.blank("en")
    bounded.add_pipe("sentencizer")
    docs = [nlp.make_doc(TEXT), bounded(TEXTS[3]), nlp.make_doc(TEXTS[3])]
    component = nlp.get_pipe("spanmarker")
    found = [entities(doc.ents) for doc in component.pipe(docs)]
    assert found == [entities(nlp(doc.text).ents) for doc in docs]


def test_overlapping_entities_are_in_spans_and_the_best_in_ents(tiny_bundle, tiny):
    nlp = pipeline(tiny_bundle, decoder="all.v1", spans_key="all")
    doc = nlp(TEXT)
    assert entities(doc.spans["all"]) == given(tiny.tag_text([TEXT], decoder="all.v1")[0])
    assert entities(doc.ents) == given(tiny.tag_text([TEXT])[0])
    assert nlp.get_pipe("spanmarker").counts["not_in_ents"] == len(doc.spans["all"]) - len(doc.ents) > 0


def coarse(nlp, text=TEXT):
    """A document whose tokens are the words between spaces, two at a time."""
    words = text.split(" ")
    return Doc(nlp.vocab, words=[" ".join(words[i : i + 2]) for i in range(0, len(words), 2)])


@pytest.mark.parametrize("alignment", ["expand", "strict"])
def test_entities_off_the_tokens_are_counted_and_none_is_lost(tiny_bundle, tiny, alignment):
    nlp = pipeline(tiny_bundle, alignment=alignment)
    component = nlp.get_pipe("spanmarker")
    doc = coarse(nlp)
    with pytest.warns(CoreWarning, match=r"spacy\.not_on_tokens"):
        component(doc)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        component(coarse(nlp))
    found = tiny.tag_text([doc.text])[0]
    assert [(e["start_char"], e["end_char"]) for e in doc.user_data["spanmarker"]] == [
        (e.char_start, e.char_end) for e in found
    ]
    edges = {edge for token in doc for edge in (token.idx, token.idx + len(token))}
    off = [e for e in found if not {e.char_start, e.char_end} <= edges]
    assert component.counts["not_on_tokens"] == 2 * len(off) > 0
    assert component.counts["entities"] == 2 * len(found)
    spans = doc.spans["spanmarker"]
    if alignment == "strict":
        assert entities(spans) == given(e for e in found if e not in off)
    else:
        assert len(spans) == len(found)
        assert all(s.start_char <= e.char_start < e.char_end <= s.end_char for s, e in zip(spans, found, strict=True))


def test_earlier_entities_stay_unless_told_otherwise(tiny_bundle):
    for overwrite in (False, True):
        nlp = spacy.blank("en")
        ruler = nlp.add_pipe("entity_ruler")
        ruler.add_patterns([{"label": "RULED", "pattern": "Obama flew"}])
        nlp.add_pipe("spanmarker", config={"model": str(tiny_bundle), "overwrite_ents": overwrite})
        doc = nlp(TEXT)
        assert ("RULED" in {span.label_ for span in doc.ents}) is not overwrite
        assert len(doc.spans["spanmarker"]) > 1
        assert len(doc.ents) > 1


def test_the_models_context_is_kept(tmp_path, tiny_bundle):
    contextual = write(tmp_path / "contextual", context=Context("document"))
    expected = given(load(contextual).tag_text([TEXT])[0])
    assert entities(pipeline(contextual)(TEXT).ents) == expected
    with pytest.warns(CoreWarning, match=r"context\.differs"):
        assert entities(pipeline(tiny_bundle, context="document")(TEXT).ents) == expected


def test_stored_and_read_again(tiny_bundle, tmp_path):
    nlp = pipeline(tiny_bundle, decoder="nested.v1", alignment="strict", threshold={"person": 0.2, "work": 0.3})
    nlp.to_disk(tmp_path / "nlp")
    again = spacy.load(tmp_path / "nlp")
    assert again.config["components"]["spanmarker"] == nlp.config["components"]["spanmarker"]
    doc, other = nlp(TEXT), again(TEXT)
    assert entities(doc.spans["spanmarker"]) == entities(other.spans["spanmarker"])
    read = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert entities(read.ents) == entities(doc.ents)
    assert read.user_data["spanmarker"] == doc.user_data["spanmarker"]
    assert read.spans["spanmarker"].attrs["scores"].tolist() == doc.spans["spanmarker"].attrs["scores"].tolist()


def test_what_is_refused(tiny_bundle, tmp_path):
    with pytest.raises(CoreError, match=r"call\.unknown_option"):
        pipeline(tiny_bundle, alignment="contract")
    with pytest.raises(CoreError, match=r"hub\.not_found"):
        pipeline(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="model"):
        spacy.blank("en").add_pipe("spanmarker")
    with pytest.raises(ValueError, match="models"):
        pipeline(tiny_bundle, models="x")


def test_another_language_splits_by_its_own_rules(tiny_bundle):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("de", "xx"):  # xx: several languages
            assert pipeline(tiny_bundle, name=name)("Obama war in Paris.").has_annotation("ENT_IOB")
    with pytest.raises(CoreError) as caught:
        pipeline(tiny_bundle, language="klingon")
    assert caught.value.code == "call.bad_language"


@pytest.mark.services
def test_it_is_found_by_its_name_where_the_project_is_installed_and_runs_in_processes(tiny_bundle, tmp_path):
    """An installer writes the entry points of pyproject.toml beside the package; spaCy looks there.

    Then two processes are forked from one that has computed with torch's threads, which a careless fork waits for.
    """
    root = Path(__file__).parents[3]
    points = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["spacy_factories"]
    installed = tmp_path / "spanmarker_pipelines-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: spanmarker-pipelines\nVersion: 0\n")
    lines = [f"{name} = {target}" for name, target in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[spacy_factories]", *lines, ""]))
    code = f"""
import json, spacy, sys
nlp = spacy.blank("en")
nlp.add_pipe("spanmarker", config={{"model": {str(tiny_bundle)!r}}})
texts = {[TEXT] * 12!r}
for options in ({{}}, {{"n_process": 2, "batch_size": 3}} if sys.platform == "linux" else {{}}):
    docs = nlp.pipe(texts, **options)
    print(json.dumps([[[s.label_, s.start_char, s.end_char] for s in doc.ents] for doc in docs]))
"""
    paths = os.pathsep.join([str(tmp_path), str(root)])
    environment = {**os.environ, "PYTHONPATH": paths}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**environment, "OMP_NUM_THREADS": "2"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=200,
    )
    expected = [[list(entity) for entity in entities(pipeline(tiny_bundle)(TEXT).ents)]] * 12
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [expected, expected]
