"""Runs are exported to every format, and come back as they were tagged."""

import json
from itertools import chain

import pytest

from pipelines.export.destination import RECORD
from spanmarker_core.formats.registry import FORMATS
from spanmarker_core.formats.words import word_sentences
from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.text.words import split_words
from tests.pipelines.export.exported import content_of, documents_at, expected, export
from tests.support.jobs import rows

TEXT_FORMATS = [each.name for each in FORMATS.values() if each.writer and not each.needs_words]
WORD_FORMATS = [each.name for each in FORMATS.values() if each.writer and each.needs_words]


def test_the_run_has_all_that_is_tested(nested, flat):
    for run in (nested, flat):
        statuses = {row["status"] for row in rows(run.output, "documents")}
        assert statuses == {"tagged", "empty", "rejected"}
        assert len(list((run.output / "documents").iterdir())) >= 5
    spans = [(row["document_id"], row["char_start"]) for row in rows(nested.output, "annotations")]
    assert len(set(spans)) < len(spans) - 20


@pytest.mark.parametrize("one_file", [False, True])
@pytest.mark.parametrize("to", TEXT_FORMATS)
def test_formats_of_texts(nested, tmp_path, to, one_file):
    target = tmp_path / "exported"
    printed = export(nested.output, to, target, *["--one-file"] * one_file)
    found, wanted = content_of(documents_at(target, to)), expected(nested.output, nested.texts)
    assert found == wanted
    count = sum(len(entities) for _, entities in wanted.values())
    assert f"{len(wanted):,} documents with {count:,} entities" in printed
    assert "3 rejected documents" in printed
    if not one_file or FORMATS[to].folder:
        record = json.loads((target / RECORD).read_text())
        assert (record["finished"], record["documents"], record["entities"]) == (True, len(wanted), count)
        assert record["rejected_documents"] == 3
        assert sum(record["labels"].values()) == count


def span(entity):
    return entity.start, entity.end, entity.label


def words_of(text):
    """The words of a text by sentence, with the bounds of each word."""
    for start, end in split_sentences(text, "en"):
        bounds = zip(*split_words(text[start:end]), strict=True)
        yield [(start + int(first), start + int(last)) for first, last in bounds]


@pytest.mark.parametrize("one_file", [False, True])
@pytest.mark.parametrize("to", WORD_FORMATS)
def test_formats_of_words(flat, tmp_path, to, one_file):
    target = tmp_path / "exported"
    printed = export(flat.output, to, target, *["--one-file"] * one_file, "--scheme", "BIOES")
    documents = documents_at(target, to, "BIOES" if to in ("conll", "conllu", "datasets") else None)
    found = [sentence for document in documents for sentence in word_sentences(document)[0]]
    wanted = []
    for text, entities in expected(flat.output, flat.texts).values():
        for words in words_of(text):
            starts, ends = ({word[side]: place for place, word in enumerate(words)} for side in (0, 1))
            inside = {(starts[s], ends[e] + 1, label) for s, e, label in entities if s in starts and e in ends}
            wanted.append(([text[start:end] for start, end in words], sorted(inside)))
    assert sum(len(entities) for _, entities in wanted) == len(rows(flat.output, "annotations")) > 20
    assert sorted((each.words, sorted(map(span, each.entities))) for each in found) == sorted(wanted)
    assert "documents without words" in printed


def test_texts_come_back_from_conllu(flat, tmp_path):
    export(flat.output, "conllu", tmp_path / "x", "--one-file")
    wanted = expected(flat.output, flat.texts)
    assert content_of(documents_at(tmp_path / "x", "conllu")) == {
        name: value for name, value in wanted.items() if value[0].strip()
    }


def test_parts_hold_what_one_file_holds(nested, tmp_path):
    export(nested.output, "jsonl", tmp_path / "parts")
    export(nested.output, "jsonl", tmp_path / "one", "--one-file")
    plan = [json.loads(line)["name"] for line in (nested.output / "plan.jsonl").read_text().splitlines()[1:]]
    parts = {each.stem: each.read_bytes() for each in (tmp_path / "parts").glob("*.jsonl")}
    assert parts.keys() <= set(plan)
    assert b"".join(parts.get(name, b"") for name in plan) == (tmp_path / "one").read_bytes()


def test_spacy(nested, tmp_path):
    import spacy
    from spacy.tokens import DocBin

    export(nested.output, "spacy", tmp_path / "x", "--one-file")
    docs = list(DocBin(store_user_data=True).from_disk(tmp_path / "x").get_docs(spacy.blank("xx").vocab))
    found = {
        doc.user_data["document_id"]: (
            doc.text,
            {(span.start_char, span.end_char, span.label_) for span in doc.spans["sc"]},
        )
        for doc in docs
    }
    assert found == expected(nested.output, nested.texts)
    doc = next(doc for doc in docs if doc.user_data["document_id"] == "line/0")
    assert [(sent.start_char, sent.end_char) for sent in doc.sents] == [(0, 26), (27, 47)]


def test_cassis(nested, tmp_path):
    import cassis

    export(nested.output, "cas", tmp_path / "x")
    found = {}
    for types in (tmp_path / "x").rglob("TypeSystem.xml"):
        system = cassis.load_typesystem(types.read_bytes().decode())
        for path in types.parent.glob("*.xmi"):
            cas = cassis.load_cas_from_xmi(path.read_bytes().decode(), typesystem=system)
            entities = cas.select("de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity")
            found[path.stem] = (cas.sofa_string, {(each.begin, each.end, each.value) for each in entities})
            tokens = cas.select("de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token")
            assert [(each.begin, each.end) for each in tokens] == list(chain(*words_of(cas.sofa_string)))
    wanted = expected(nested.output, nested.texts)
    assert found == {name.replace("/", "%2F"): value for name, value in wanted.items()}


def test_datasets(flat, tmp_path):
    from datasets import load_from_disk

    export(flat.output, "datasets", tmp_path / "x", "--one-file")
    table = load_from_disk(str(tmp_path / "x"))
    names = table.features["ner_tags"].feature.names
    begun = sum(names[tag].startswith("B-") for tags in table["ner_tags"] for tag in tags)
    assert begun == len(rows(flat.output, "annotations"))


def test_overlapping_entities_are_refused_or_left_out(nested, tmp_path):
    assert export(nested.output, "conll", tmp_path / "x") == "format.cannot_hold"
    assert not (tmp_path / "x").exists()
    for how in ("longest", "first"):
        printed = export(nested.output, "conll", tmp_path / how, "--flatten", how)
        record = json.loads((tmp_path / how / RECORD).read_text())
        total = len(rows(nested.output, "annotations"))
        assert record["entities"] + record["left_out"]["overlaps"] == total
        assert sum(record["labels"].values()) == record["entities"] > 20
        assert f"Left out: {record['left_out']['overlaps']:,} entities that overlap others" in printed
    assert export(nested.output, "conll", tmp_path / "y", "--flatten", "shortest") == "call.unknown_option"
