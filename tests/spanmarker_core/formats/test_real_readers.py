"""Other tools read what we write, with identical texts, ranges and labels."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

from spanmarker_core.formats.detect import format_of
from spanmarker_core.formats.options import ReadOptions, Source
from spanmarker_core.formats.registry import read_documents
from spanmarker_core.formats.words import with_words, word_sentences
from spanmarker_core.text.tag_schemes import spans_to_tags
from tests.spanmarker_core.formats.documents import EMPTY, TEXTS, WORDS

LABEL_STUDIO = Path(__file__).with_name("label_studio")


def ranges(document):
    return {(each.char_start, each.char_end, each.label) for each in document.entities}


def test_spacy(memory):
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    memory.write(TEXTS, "spacy")
    docs = list(DocBin().from_bytes(memory.files["data.spacy"]).get_docs(Vocab()))
    for doc, document in zip(docs, TEXTS, strict=True):
        assert doc.text == document.text
        assert {(span.start_char, span.end_char, span.label_) for span in doc.spans["sc"]} == ranges(document)
        flat = all(one.char_end <= other.char_start for one, other in pairwise(document.entities))
        found = {(span.start_char, span.end_char, span.label_) for span in doc.ents}
        assert found == (ranges(document) if flat else set())


def test_cassis(memory):
    import cassis

    memory.write(TEXTS, "cas")
    types = cassis.load_typesystem(memory.open("TypeSystem.xml"))
    texts = {}
    for name in memory.files:
        if name.endswith(".xmi"):
            cas = cassis.load_cas_from_xmi(memory.open(name), typesystem=types)
            entities = cas.select("de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity")
            texts[cas.sofa_string] = {(each.begin, each.end, each.value) for each in entities}
    assert texts == {document.text: ranges(document) for document in TEXTS}


def test_cas_counts_utf_16_units(memory):
    memory.write([TEXTS[1]], "cas")
    (content,) = (content.decode() for name, content in memory.files.items() if name.endswith(".xmi"))
    entity = TEXTS[1].entities[1]
    units = len(TEXTS[1].text[: entity.char_start].encode("utf-16-le")) // 2
    assert units > entity.char_start
    assert f'begin="{units}"' in content


def test_brat(memory):
    documents = [each for each in TEXTS if each.document_id not in ("hostile",)]
    memory.write(documents, "brat")
    found = {}
    for name in memory.files:
        if name.endswith(".ann"):
            text = memory.files[name.replace(".ann", ".txt")].decode()
            found[text] = set()
            for line in memory.files[name].decode().split("\n")[:-1]:
                _, annotation, shown = line.split("\t")[0], *line.split("\t", 2)[1:]
                label, offsets = annotation.split(" ", 1)
                parts = [tuple(map(int, part.split(" "))) for part in offsets.split(";")]
                assert " ".join(text[start:end] for start, end in parts) == shown
                found[text].add((parts[0][0], parts[-1][1], label))
    assert found == {document.text: ranges(document) for document in documents}
    assert "LOC\n" in memory.files["annotation.conf"].decode()


def test_datasets(memory, tmp_path):
    from datasets import ClassLabel, load_from_disk

    documents = [*WORDS, with_words(TEXTS[1])]
    memory.write(documents, "datasets", scheme="BIOES")
    for name, content in memory.files.items():
        (tmp_path / name).write_bytes(content)
    rows = load_from_disk(str(tmp_path))
    tags = rows.features["ner_tags"].feature
    assert isinstance(tags, ClassLabel)
    sentences = [sentence for document in documents for sentence in word_sentences(document)[0]]
    assert rows["tokens"][:] == [sentence.words for sentence in sentences]
    for row, sentence in zip(rows, sentences, strict=True):
        expected = spans_to_tags(sentence.entities, len(sentence.words), "BIOES")
        assert tags.int2str(row["ner_tags"]) == expected
        assert row["document_id"] == sentence.document_id


def test_web_annotations_select_by_position_and_by_quote(memory):
    memory.write(TEXTS, "web-annotations")
    pages = {name: json.loads(content) for name, content in memory.files.items() if name.endswith(".jsonld")}
    assert len(pages) == len(TEXTS)
    for page in pages.values():
        for item in page["items"]:
            text = memory.files[unquote(item["target"]["source"])].decode()
            position, quote = item["target"]["selector"]
            assert text[position["start"] : position["end"]] == quote["exact"]
            start = position["start"] - len(quote["prefix"])
            assert text[start:].startswith(quote["prefix"] + quote["exact"] + quote["suffix"])


def test_label_studio(memory, tmp_path):
    """Label Studio's converter made `result.*` from `tasks.json`; see `label_studio/convert.py`."""
    memory.write(FOR_LABEL_STUDIO, "label-studio")
    assert memory.files["data.json"] == (LABEL_STUDIO / "tasks.json").read_bytes()
    for name in ("result.conll", "result.json"):
        shutil.copy(LABEL_STUDIO / name, tmp_path)
    check_label_studio(tmp_path)


@pytest.mark.services
def test_label_studio_itself(memory, tmp_path):
    """The same with the converter, of this environment or of that of the Python that LABEL_STUDIO_PYTHON names."""
    python = os.environ.get("LABEL_STUDIO_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import label_studio_sdk.converter"], capture_output=True).returncode:
        pytest.skip("label-studio-sdk is not installed: set LABEL_STUDIO_PYTHON")
    memory.write(FOR_LABEL_STUDIO, "label-studio")
    (tmp_path / "tasks.json").write_bytes(memory.files["data.json"])
    command = [python, LABEL_STUDIO / "convert.py", tmp_path / "tasks.json", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    check_label_studio(tmp_path)


def check_label_studio(folder):
    """Check what Label Studio made: JSON-MIN that holds all entities, and CoNLL that holds flat ones of its words."""
    source = Source(str(folder / "result.json"), lambda path: BytesIO(Path(path).read_bytes()))
    found = {each.document_id: each for each in read_documents(source, "label-studio", ReadOptions())}
    assert found == {each.document_id: replace(each, sentences=None) for each in FOR_LABEL_STUDIO}
    tasks = json.loads((folder / "result.json").read_bytes())
    for task in tasks:  # each may be the first of a file
        (folder / "one.json").write_text(json.dumps([task]))
        assert format_of(replace(source, path=str(folder / "one.json"))) == "label-studio"
    sentences = (folder / "result.conll").read_text(encoding="utf-8").split("\n\n")
    for document, block in list(zip(FOR_LABEL_STUDIO, sentences, strict=False))[1:4]:
        rows = [line.split(" ") for line in block.split("\n") if line and not line.startswith("-DOCSTART-")]
        tagged = {(row[0], row[-1]) for row in rows if row[-1] != "O"}
        assert tagged == {
            (document.text[each.char_start : each.char_end], f"B-{each.label}") for each in document.entities
        }


FOR_LABEL_STUDIO = [*TEXTS, *EMPTY]

if __name__ == "__main__":  # writes what `label_studio/convert.py` reads
    from tests.spanmarker_core.formats.conftest import Memory

    memory = Memory()
    memory.write(FOR_LABEL_STUDIO, "label-studio")
    (LABEL_STUDIO / "tasks.json").write_bytes(memory.files["data.json"])
