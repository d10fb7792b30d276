"""`spanmarker convert`, and other tools' formats in `prepare --annotated` and `read_annotated`."""

import gzip
import json

import pytest

from pipelines import cli
from pipelines.storage import open_input
from spanmarker_core.data import Sentence, Span, read_annotated
from spanmarker_core.errors import CoreError, CoreWarning
from spanmarker_core.formats.options import ReadOptions, Source
from spanmarker_core.formats.registry import FORMATS

RECORDS = [
    {
        "id": "a/1",
        "text": "Ada met Bern. He slept 😀.",
        "entities": [{"start": 0, "end": 3, "label": "PER"}, {"start": 8, "end": 12, "label": "LOC"}],
    },
    {"id": "b", "text": "Nothing.", "entities": []},
]
WRITTEN = [name for name, each in FORMATS.items() if each.writer]
SENTENCES = [
    (["Ada", "met", "Bern", "."], [Span(0, 1, "PER"), Span(2, 3, "LOC")]),
    (["He", "slept", "😀", "."], []),
    (["Nothing", "."], []),
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


def run(monkeypatch, *arguments):
    """Run a command; returns its exit code."""
    monkeypatch.setattr("sys.argv", ["spanmarker", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code or 0


def output_of(tmp_path, name):
    return tmp_path / ("out" if FORMATS[name].folder else f"out{FORMATS[name].endings[0]}")


@pytest.mark.parametrize("name", WRITTEN)
def test_there_and_back_by_name_and_content(monkeypatch, tmp_path, source, name):
    output, back = output_of(tmp_path, name), tmp_path / "back.jsonl"
    assert run(monkeypatch, "convert", source, "--to", name, "--output", output) == 0
    tagged = ["--scheme", "BIO"] if name in ("conll", "datasets") else []
    assert run(monkeypatch, "convert", output, "--to", "jsonl", "--output", back, *tagged) == 0
    found = [json.loads(line) for line in back.read_text().splitlines()]
    if not FORMATS[name].needs_words or name == "conllu":
        assert sorted(found, key=lambda each: each["id"]) == RECORDS
    assert sum(len(each["entities"]) for each in found) == 2


@pytest.mark.parametrize("name", WRITTEN)
def test_each_format_is_read_for_training(monkeypatch, tmp_path, source, name):
    output = output_of(tmp_path, name)
    assert run(monkeypatch, "convert", source, "--to", name, "--output", output) == 0
    scheme = "IOB2" if name in ("conll", "datasets") else None
    assert [(each.words, each.entities) for each in read_annotated(output, scheme)] == SENTENCES


def test_several_inputs_and_made_ids(monkeypatch, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "x.jsonl").write_text('{"text": "Ada", "label": [[0, 3, "PER"]]}\n' * 2)
    (tmp_path / "in" / "_SUCCESS").write_text("")
    (tmp_path / "in" / "notes.md").write_text("")
    assert run(monkeypatch, "convert", tmp_path / "in", "--to", "jsonl", "--output", tmp_path / "out.jsonl") == 0
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [each["id"] for each in found] == ["one/x-0", "one/x-1", "two/x-0", "two/x-1"]
    inputs = [tmp_path / "in" / folder / "x.jsonl" for folder in ("one", "two")]
    assert run(monkeypatch, "convert", *inputs, "--to", "jsonl", "--output", tmp_path / "files.jsonl") == 0
    found = [json.loads(line) for line in (tmp_path / "files.jsonl").read_text().splitlines()]
    assert [each["id"] for each in found] == ["x-0", "x-1", "x~2-0", "x~2-1"]


def test_brat_folders_do_not_hold_their_texts_twice(monkeypatch, tmp_path, source):
    assert run(monkeypatch, "convert", source, "--to", "brat", "--output", tmp_path / "brat") == 0
    for number, given in enumerate((tmp_path / "brat", tmp_path / "brat" / "*", tmp_path / "brat" / "b.txt")):
        output = tmp_path / f"{number}.jsonl"
        assert run(monkeypatch, "convert", given, "--to", "jsonl", "--output", output) == 0
        assert len(output.read_text().splitlines()) == (1 if number == 2 else 2)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--to", "xml"], "call.unknown_option"),
        (["--to", "parquet"], "format.not_writable"),
        (["--to", "jsonl", "--from", "xml"], "call.unknown_option"),
        (["--to", "conll", "--to-scheme", "spans"], "call.unknown_option"),
        (["--to", "conll", "--flatten", "all"], "call.unknown_option"),
        (["--to", "jsonl", "--from", "conll"], "data.scheme_needed"),
        (["--to", "jsonl", "--from", "gliner"], "data.bad_record"),
        (["--to", "jsonl", "--from", "spacy"], "data.bad_dataset"),
    ],
)
def test_mistakes_leave_no_output(monkeypatch, tmp_path, capsys, source, arguments, code):
    assert run(monkeypatch, "convert", source, "--output", tmp_path / "out", *arguments) == 1
    assert f"[{code}]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("to", "label", "text", "code"),
    [
        ("brat", "a b", "Ada", "format.cannot_write"),
        ("cas", "PER", "Ada\x0b", "format.cannot_write"),
        ("web-annotations", "O", "Ada", "data.bad_record"),
        ("datasets", "X", "Ada", "format.adjacent"),
    ],
)
def test_a_failure_in_the_middle_leaves_nothing(monkeypatch, tmp_path, capsys, to, label, text, code):
    good = {"id": "a", "text": "Ada met", "entities": [{"start": 0, "end": 3, "label": "X"}]}
    bad = {"id": "b", "text": f"{text} Bern", "entities": [{"start": 0, "end": 3, "label": label}]}
    if to == "datasets":
        bad["entities"].append({"start": 4, "end": 8, "label": label})
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (good, bad)))
    arguments = ["convert", tmp_path / "in.jsonl", "--to", to, "--to-scheme", "plain"]
    (tmp_path / "made").mkdir()
    for output in ("new", "made"):
        assert run(monkeypatch, *arguments, "--output", tmp_path / output) == 1
        assert f"[{code}]" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "made").iterdir()) == []


def test_an_invalid_element_of_an_array_is_named(monkeypatch, tmp_path, capsys):
    record = '{"text": "Ada", "label": [[0, 3, "PER"]]}'
    path = tmp_path / "in.json"
    path.write_text(f"[{record},\n{record}, {{bad}}, {record}]")
    assert run(monkeypatch, "convert", path, "--to", "jsonl", "--output", tmp_path / "out.jsonl") == 1
    assert "row 2 (from 0)" in capsys.readouterr().err
    path.write_text(f"{record[:1]}\n{record[1:]}\n{{\n{record[1:]}")  # values over several lines
    assert run(monkeypatch, "convert", path, "--to", "jsonl", "--output", tmp_path / "out.jsonl") == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


def test_outputs_replace_nothing(monkeypatch, tmp_path, capsys, source):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    for to, output, code in (
        ("jsonl", source, "output.is_input"),
        ("conll", tmp_path / "full" / "mine", "output.would_replace"),
        ("brat", tmp_path / "full", "output.would_replace"),
    ):
        assert run(monkeypatch, "convert", source, "--to", to, "--output", output) == 1
        assert f"[{code}]" in capsys.readouterr().err
    assert (tmp_path / "full" / "mine").read_text() == "x"


def test_compressed_and_damaged(monkeypatch, tmp_path, capsys, source):
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    assert run(monkeypatch, "convert", packed, "--to", "jsonl", "--output", tmp_path / "same.jsonl") == 0
    assert (tmp_path / "same.jsonl").read_text() == "".join(
        json.dumps(record, ensure_ascii=False) + "\n" for record in RECORDS
    )
    packed.write_bytes(packed.read_bytes()[:60])
    assert run(monkeypatch, "convert", packed, "--to", "jsonl", "--output", tmp_path / "none.jsonl") == 1
    assert "[data.bad_dataset]" in capsys.readouterr().err
    assert not (tmp_path / "none.jsonl").exists()


def test_misaligned_entities_are_told_to_those_who_train(tmp_path):
    path = tmp_path / "data.jsonl"
    spans = [{"start": 0, "end": 2, "label": "X"}, {"start": 4, "end": 7, "label": "Y"}]
    path.write_text(json.dumps({"text": "Ada met", "spans": spans}))
    with pytest.warns(CoreWarning) as told:
        assert list(read_annotated(path)) == [Sentence("doc-0", 0, ["Ada", "met"], [Span(1, 2, "Y")])]
    (warning,) = (each.message for each in told)
    assert (warning.code, warning.values["count"], warning.values["total"]) == ("data.left_out", 1, 2)
    with pytest.raises(CoreError) as caught:
        list(read_annotated(path, splitter="tokenizer.v1"))
    assert caught.value.code == "data.not_split"


@pytest.mark.parametrize("keys", [("tokens", "entities"), ("tokens", "ner_tags")])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_records_of_words_need_no_ids(tmp_path, keys, ending):
    import pyarrow as pa
    import pyarrow.parquet as pq

    entities = [{"start": 0, "end": 1, "label": "PER"}]
    values = {"tokens": ["Ada", "met"], "entities": entities, "ner_tags": ["B-PER", "O"]}
    record = {key: values[key] for key in keys}
    path = tmp_path / f"data.{ending}"
    if ending == "jsonl":
        path.write_text(json.dumps(record))
    else:
        pq.write_table(pa.Table.from_pylist([record]), path)
    scheme = "IOB2" if "ner_tags" in keys else None
    assert list(read_annotated(path, scheme)) == [Sentence("doc-0", 0, ["Ada", "met"], [Span(0, 1, "PER")])]
    with pytest.raises(CoreError) as caught:
        list(read_annotated(path, None if scheme else "IOB2"))
    assert caught.value.code == ("data.scheme_needed" if scheme else "data.scheme_mismatch")


def test_class_labels_of_parquet(tmp_path):
    from datasets import ClassLabel, Dataset, Features, List, Value

    features = Features(tokens=List(Value("string")), ner_tags=List(ClassLabel(names=["O", "B-PER", "I-PER"])))
    data = Dataset.from_dict({"tokens": [["Ada", "Byron", "met"]], "ner_tags": [[1, 2, 0]]}, features=features)
    data.to_parquet(tmp_path / "data.parquet")
    (sentence,) = read_annotated(tmp_path / "data.parquet", "IOB2")
    assert sentence.entities == [Span(0, 2, "PER")]
    data.to_json(tmp_path / "data.jsonl")  # which loses the names
    with pytest.raises(CoreError) as caught:
        list(read_annotated(tmp_path / "data.jsonl", "IOB2"))
    assert caught.value.code == "data.bad_record"
    assert "Parquet" in str(caught.value)


def test_germeval_as_it_is_published(monkeypatch, tmp_path):
    text = "#\thttp://de.wikipedia.org/wiki/X\t[2009-10-17]\n1\tHamburg\tB-LOC\tO\n2\tist\tO\tO\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "NER-de-dev.tsv").write_text(text)
    columns = ("--scheme", "BIO", "--tag-column", "2")
    for number, given in enumerate(("NER-de-dev.tsv", "*.tsv", "")):
        output = tmp_path / f"{number}.jsonl"
        assert (
            run(monkeypatch, "convert", tmp_path / "in" / given, "--to", "sentences", "--output", output, *columns) == 0
        )
        assert json.loads(output.read_text().splitlines()[0])["entities"] == [{"start": 0, "end": 1, "label": "LOC"}]
    (sentence,) = read_annotated(tmp_path / "in" / "NER-de-dev.tsv", "BIO", tag_column="2")
    assert sentence.words == ["Hamburg", "ist"]
    (tmp_path / "odd.name").write_text(text)
    output = tmp_path / "odd.jsonl"
    odd = tmp_path / "*.name"
    assert run(monkeypatch, "convert", odd, "--from", "conll", "--to", "jsonl", "--output", output, *columns) == 0
    assert json.loads(output.read_text())["text"] == "Hamburg ist"


def test_evaluate_reads_other_formats_and_columns(monkeypatch, tmp_path, capsys, tiny_bundle):
    (tmp_path / "d.ann").write_text("T1\tperson 0 3\tAda\nT2\tperson 5 7\tet\n")
    (tmp_path / "d.txt").write_text("Ada met Bern.")
    with pytest.warns(CoreWarning) as told:
        assert run(monkeypatch, "evaluate", "--model", tiny_bundle, "--data", tmp_path / "d.ann") == 0
    assert "1 entities" in capsys.readouterr().out
    shown = cli._format_warning(told[0].message, told[0].category, told[0].filename, told[0].lineno)
    assert shown.startswith("spanmarker: [data.left_out]")
    assert shown.count("\n") == 1
    (tmp_path / "d.conll").write_text("x\tAda\tB-person\ty\n")
    columns = ["--scheme", "BIO", "--token-column", "1", "--tag-column", "-2"]
    assert run(monkeypatch, "evaluate", "--model", tiny_bundle, "--data", tmp_path / "d.conll", *columns) == 0
    assert "1 entities" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["jsonl", "brat", "cas", "web-annotations", "spacy"])
def test_stores_are_read_and_written(monkeypatch, source, name):
    output = f"memory://convert/{name}/out" + ("" if FORMATS[name].folder else FORMATS[name].endings[0])
    back = f"memory://convert/{name}/back.jsonl"
    assert run(monkeypatch, "convert", source, "--to", name, "--output", output) == 0
    assert run(monkeypatch, "convert", output, "--to", "jsonl", "--output", back) == 0
    with open_input(back) as file:
        assert sorted(map(json.loads, file), key=lambda each: each["id"]) == RECORDS


def test_an_unreadable_input_is_not_called_an_unwritable_output(monkeypatch, tmp_path, capsys, source):
    (tmp_path / "x.ann").write_text("")
    for given, code in ((tmp_path / "none.jsonl", "input.no_match"), (tmp_path / "x.ann", "data.not_found")):
        assert run(monkeypatch, "convert", given, "--to", "jsonl", "--output", tmp_path / "out.jsonl") == 1
        assert f"[{code}]" in capsys.readouterr().err

    def fail(path):
        raise OSError(5, "no", path)

    monkeypatch.setattr("pipelines.stages.read_annotated.open_input", fail)
    assert run(monkeypatch, "convert", source, "--to", "jsonl", "--output", tmp_path / "out.jsonl") == 3
    assert "[input.not_readable]" in capsys.readouterr().err


def test_a_bad_sentence_does_not_divide_its_document(tmp_path):
    lines = ["-DOCSTART- O", "", "Ada B-X", "", "bad", "", "met O", ""]
    (tmp_path / "d.conll").write_text("\n".join(lines))
    source = Source("d.conll", lambda path: (tmp_path / path).open("rb"))
    bad, document = FORMATS["conll"].reader(source, ReadOptions(scheme="IOB2"))
    assert (bad.place, document.text) == (5, "Ada\nmet")
