"""Every format of documents, in every compression and with the oddities of real files."""

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
from functools import partial

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zstandard
from warcio.warcwriter import WARCWriter

from pipelines.stages import csv_rows, lines
from pipelines.stages.formats import FORMATS
from pipelines.stages.read import read, read_records
from pipelines.task import Columns
from spanmarker_core.data.json_values import json_elements
from tests.pipelines.planning.test_documents import shards
from tests.support.jobs import documents

PACKED = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".bz2": partial(bz2.compress, compresslevel=1),  # small blocks
    ".xz": partial(lzma.compress, preset=0),
}
TEXTS = ['a "quoted" word,\tand more', "two\nlines", "two\r\nlines", "", "😀 \u2028 한글 \\ é", "[{]}", " x "]
RECORDS = documents(5) + [{"id": f"t{number}", "text": text} for number, text in enumerate(TEXTS)]


def jsonl(records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def table(records, delimiter):
    file = io.StringIO()
    writer = csv.DictWriter(file, ["more", "id", "text"], restval="x", delimiter=delimiter)
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def ipc(records, new):
    found = pa.Table.from_pylist(records, schema=pa.schema({"id": pa.string(), "text": pa.string()}))
    sink = pa.BufferOutputStream()
    with new(sink, found.schema) as writer:
        writer.write_table(found, max_chunksize=5)
    return sink.getvalue().to_pybytes()


def archive(records):
    file = io.BytesIO()
    writer = WARCWriter(file, gzip=False)
    writer.write_record(writer.create_warcinfo_record("a.wet", {"software": "none"}))
    for record in records:
        made = writer.create_warc_record(
            "http://a/b",
            "conversion",
            payload=io.BytesIO(record["text"].encode()),
            warc_headers_dict={"WARC-Record-ID": record["id"]},
        )
        writer.write_record(made)
    return file.getvalue()


#: Content of a file with some records, by its name's ending; those of strings may be in any encoding.
MADE = {
    ".jsonl": jsonl,
    ".ndjson": jsonl,
    ".json": jsonl,
    "-array.json": lambda records: json.dumps(records),
    "-array.jsonl": lambda records: json.dumps(records, indent=2, ensure_ascii=False),
    "-pretty.json": lambda records: "\n".join(json.dumps(record, indent=1) for record in records),
    "-open.json": lambda records: "\n".join(json.dumps(record).replace(", ", ",\n ", 1) for record in records),
    "-line.jsonl": lambda records: "".join(map(json.dumps, records)),
    "-spaced.json": lambda records: " ".join(map(json.dumps, records)) + "\n",
    "-old.json": lambda records: jsonl(records).replace("\n", "\r"),
    ".csv": lambda records: table(records, ","),
    "-semicolons.csv": lambda records: table(records, ";"),
    "-tabs.csv": lambda records: table(records, "\t"),
    "-bars.csv": lambda records: table(records, "|"),
    ".tsv": lambda records: table(records, "\t"),
    ".wet": archive,
    ".warc": archive,
    ".arrow": lambda records: ipc(records, pa.ipc.new_file),
    "-stream.arrow": lambda records: ipc(records, pa.ipc.new_stream),
}
TEXTUAL = [ending for ending, make in MADE.items() if isinstance(make([]), str)]
STREAMED = [ending for ending in MADE if not ending.endswith("arrow")]


def write(folder, ending, compression="", encoding="utf-8", records=RECORDS, mark=b""):
    made = MADE[ending](records)
    content = made.encode(encoding) if isinstance(made, str) else made
    path = folder / f"a{ending}{compression}"
    path.write_bytes(PACKED[compression](mark + content))
    return path


def everything(*patterns, **options):
    """Return [(id, text)] and [(source_row, code, n_documents)] of all shards, in order."""
    texts, rejects = [], []
    for shard in shards(*patterns, **options):
        for batch in read(shard, Columns("id", "text")):
            texts += zip(*(batch.documents[name].to_pylist() for name in ("document_id", "text")), strict=True)
            rejects += [(reject.source_row, reject.code, reject.n_documents) for reject in batch.rejects]
    return texts, rejects


def expected(records=RECORDS):
    return [(record["id"], record["text"]) for record in records]


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("ending", MADE)
def test_all_formats_give_the_same_documents(tmp_path, ending, compression):
    if compression and ending not in STREAMED:
        return
    assert everything(write(tmp_path, ending, compression), max_shard_bytes=300) == (expected(), [])


@pytest.mark.parametrize("ending", MADE)
def test_no_record_and_one_record(tmp_path, ending):
    for records in ([], RECORDS[:1]):
        path = write(tmp_path, ending, records=records)
        assert everything(path) == (expected(records), [])
    if ending in TEXTUAL:
        path.write_bytes(b"")
        assert everything(path) == ([], [])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("ending", TEXTUAL)
def test_marks_of_encodings(tmp_path, ending, encoding):
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    for compression in ("", ".gz"):
        path = write(tmp_path, ending, compression, encoding, mark=mark)
        assert everything(path, max_shard_bytes=300) == (expected(), [])


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("ending", [".txt", ".md"])
def test_texts(tmp_path, ending, compression):
    for number, encoding in enumerate(["utf-8", "utf-8-sig", "utf-16"]):
        (tmp_path / f"{number}{ending}{compression}").write_bytes(PACKED[compression]("é\r\n".encode(encoding)))
    names = [f"{number}{ending}{compression}" for number in range(3)]
    assert everything(tmp_path) == ([(name, "é\r\n") for name in names], [])
    (tmp_path / names[0]).write_bytes(codecs.BOM_UTF16_LE + b"x")  # half a character
    assert everything(tmp_path / names[0])[1] == [(0, "damaged_file", 1)]
    if compression:
        (tmp_path / names[1]).write_bytes(PACKED[compression](b"x" * 999)[:-9])
        assert everything(tmp_path / names[1])[1] == [(0, "damaged_file", 1)]


@pytest.mark.parametrize("ending", TEXTUAL)
def test_windows_line_ends(tmp_path, ending):
    records = [{"id": "a", "text": "x"}, {"id": "b", "text": "y z"}]
    path = tmp_path / f"a{ending}"
    path.write_bytes(MADE[ending](records).replace("\r\n", "\n").replace("\n", "\r\n").encode())
    assert everything(path) == (expected(records), [])


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2", ".xz"])
@pytest.mark.parametrize("ending", STREAMED)
def test_a_cut_keeps_the_documents_before_it(tmp_path, ending, compression):
    records = [{"id": f"n{number}", "text": f"{number} " + str(number**400)} for number in range(400)]
    path = write(tmp_path, ending, compression, records=records)
    path.write_bytes(path.read_bytes()[:-20])
    texts, rejects = everything(path)
    assert 200 < len(texts) <= 400
    assert texts == expected(records)[: len(texts)]
    ((_, code, n_documents),) = rejects
    assert (code, n_documents) == ("damaged_file", 0)


@pytest.mark.parametrize(("ending", "rejects"), [(".jsonl", 1), ("-array.json", 1), (".csv", 1), (".wet", 1)])
def test_a_file_that_ends_early(tmp_path, ending, rejects):
    path = write(tmp_path, ending, records=RECORDS[:3])
    path.write_bytes(path.read_bytes()[: -12 if ending == ".wet" else -4])
    texts, found = everything(path)
    assert texts == expected(RECORDS[:2])
    assert len(found) == rejects


def test_a_damaged_arrow_file(tmp_path):
    path = write(tmp_path, "-stream.arrow")
    path.write_bytes(path.read_bytes()[:-150])
    texts, rejects = everything(path)
    assert texts == expected()[: len(texts)]
    assert rejects[0][1:] == ("damaged_file", 0)
    good = write(tmp_path, ".jsonl", records=[])
    path.write_bytes(b"ARROW1 no")
    assert [shard.format for shard in shards(path, good)] == ["unreadable", "jsonl"]


@pytest.mark.parametrize("padding", [b"\0" * 64, b"\0" * 100_000])
def test_zeros_behind_compressed_data_are_no_damage(tmp_path, padding):
    for ending in (".jsonl", ".csv", "-array.json"):
        for compression in (".gz", ".xz", ".bz2", ".zst"):
            path = write(tmp_path, ending, compression)
            whole = path.read_bytes()
            path.write_bytes(whole + padding)
            assert everything(path) == (expected(), [])
            path.write_bytes(whole + padding + b"garbage")
            assert everything(path)[1][0][1] == "damaged_file"


def test_feather(tmp_path):
    pyarrow.feather.write_feather(pa.Table.from_pylist(RECORDS), tmp_path / "a.feather", compression="zstd")
    assert everything(tmp_path / "a.feather") == (expected(), [])


def test_places_of_records(tmp_path):
    lines = jsonl(RECORDS).encode().splitlines(keepends=True)
    offsets = [sum(map(len, lines[:number])) for number in range(len(lines))]
    for ending in MADE:
        (shard,) = shards(write(tmp_path, ending))
        (batch,) = read(shard, Columns("id", "text"))
        places = offsets if shard.format == "jsonl" else list(range(len(RECORDS)))
        assert batch.documents["source_row"].to_pylist() == places, ending


def test_a_bad_element_of_an_array_costs_only_itself(tmp_path):
    elements = [
        '{"id": "a", "text": "x"}',
        "{no}",
        "[1, [2]]",
        "",
        '{"id": "s", "text": "\\ud83d"}',
        '{"id": "b"}',
        "7",
    ]
    (tmp_path / "a.json").write_text("[" + ",".join(elements) + ', {"id": "z", "text": "y"}, ]\n')
    texts, rejects = everything(tmp_path / "a.json")
    assert texts == [("a", "x"), ("z", "y")]
    codes = ["broken_json", "broken_json", "broken_json", "invalid_unicode", "missing_field", "broken_json"]
    assert rejects == [(place, code, 1) for place, code in enumerate(codes, 1)]
    (tmp_path / "a.json").write_bytes(b'[{"id": 1, "text": "caf\xe9"}, {"id": 2, "text": "x"}]] {"id": 3}')
    assert everything(tmp_path / "a.json") == ([("2", "x")], [(0, "invalid_utf8", 1), (2, "damaged_file", 0)])


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_elements_do_not_depend_on_the_blocks(size):
    whole = json.dumps([RECORDS, {"a": ['\\"', "]"]}, "x\\", 3], indent=1).encode() + b"\n[4][]"
    blocks = [whole[start : start + size] for start in range(0, len(whole), size)]
    found = [json.loads(element) for element, _ in json_elements(blocks, 1 << 20)]
    assert found == [RECORDS, {"a": ['\\"', "]"]}, "x\\", 3, 4]
    assert [(head[:4], size) for head, size in json_elements([b'["' + b"x" * 50, b'", 1]'], 20)] == [
        (b'"xxx', 52),
        (b"1", 1),
    ]


def test_rows_of_csv_that_are_not_rows_are_rejects(tmp_path, monkeypatch):
    rows = [b"id,text", b"a,one", b"b", b"c,x,y", b'd,"two"x', b"", b'e,"f\r\ng"', b"h,caf\xe9", b'"i",', b'j,"open']
    (tmp_path / "a.csv").write_bytes(b"\n".join(rows))
    assert everything(tmp_path / "a.csv") == (
        [("a", "one"), ("e", "f\r\ng"), ("i", "")],
        [
            (1, "ragged_row", 1),
            (2, "ragged_row", 1),
            (3, "broken_csv", 1),
            (5, "invalid_utf8", 1),
            (7, "damaged_file", 1),
        ],
    )
    for module in (csv_rows, lines):
        monkeypatch.setattr(module, "MAX_RECORD_BYTES", 1000)
    (tmp_path / "a.csv").write_bytes(b"id,text\na," + b"x" * 2000 + b"\nb," + b"y" * 900 + b"\n")
    assert everything(tmp_path / "a.csv") == ([("b", "y" * 900)], [(0, "too_large", 1)])


def test_a_row_is_not_taken_for_a_header_that_can_not_be_read(tmp_path):
    (tmp_path / "a.csv").write_text('id,"te"xt\nid,text\na,x\n')
    assert everything(tmp_path / "a.csv") == ([], [(0, "broken_csv", 0)])


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ('"id;1",text', "a,x;y"),  # a comma outside quotes decides
        ('\n\n"id";"text"', '"a";"x;y"'),
        ('text|"a,b;c"', "x;y|2"),
        ("text", "x;y"),
    ],
)
def test_the_header_names_the_delimiter(tmp_path, header, row):
    (tmp_path / "a.csv").write_text(f"{header}\n{row}\n")
    columns = Columns("no", "text", make_ids=True)
    (shard,) = shards(tmp_path / "a.csv", columns=columns)
    (batch,) = read(shard, columns)
    assert (batch.documents["text"].to_pylist(), batch.rejects) == (["x;y"], [])


@pytest.mark.parametrize(
    "content",
    [
        b'{"id": "a", "te\n{"id": "b", "text": "x"}\n',
        b'{"id": "a"\n{"id": "b", "text": "x"}\n',
        b'{"id": "a"} x\n{"id": "b", "text": "x"}\n',
        b'{"id": "a"} {"id"\n{"id": "b", "text": "x"}\n',
        b'// comment\n{"id": "b", "text": "x"}\n',
        b'\xff\n{"id": "b", "text": "x"}\n',
    ],
)
def test_a_bad_first_line_does_not_change_the_format(tmp_path, content):
    (tmp_path / "a.jsonl").write_bytes(content)
    (shard,) = shards(tmp_path / "a.jsonl")
    assert shard.format == "jsonl"
    texts, rejects = everything(tmp_path / "a.jsonl")
    assert texts == [("b", "x")]
    assert len(rejects) == 1


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2", ".xz"])
def test_what_follows_compressed_data_costs_only_itself(tmp_path, compression):
    path = write(tmp_path, ".jsonl", compression)
    whole = path.read_bytes()
    for rest, codes in ((whole[:-3], ["damaged_file"]), (b"garbage", ["damaged_file"]), (whole, ["duplicate_id"] * 4)):
        path.write_bytes(whole + rest)
        texts, rejects = everything(path)
        assert texts == expected()
        assert {code for _, code, _ in rejects} >= set(codes)


def test_a_large_field_of_many_lines(tmp_path):
    text = 'line, "quoted"\n' * 200_000  # 3 MB
    path = write(tmp_path, ".csv", ".gz", records=[{"id": "a", "text": text}, *RECORDS])
    assert everything(path) == ([("a", text), *expected()], [])


def test_other_records_of_an_archive_are_not_documents(tmp_path):
    path = write(tmp_path, ".wet", ".gz")
    (shard,) = shards(path)
    uris = [record.document_id for record in read_records(shard, Columns("WARC-Target-URI", "text"))]
    assert uris == ["http://a/b"] * len(RECORDS)


def test_a_format_overrides_the_name(tmp_path):
    for ending, form in [(".jsonl", "jsonl"), ("-array.json", "json"), (".csv", "csv"), (".wet", "warc")]:
        path = write(tmp_path, ending).rename(tmp_path / "a.dat")
        assert everything(path, form=form) == (expected(), [])
        path = write(tmp_path, ending, ".gz").rename(tmp_path / "b.DAT.GZ")
        assert everything(path, form=form) == (expected(), [])
        assert everything(path.rename(tmp_path / "b"), form=f"{form}.gz") == (expected(), [])
    pq.write_table(pa.Table.from_pylist(RECORDS), tmp_path / "x")
    assert everything(tmp_path / "x", form="parquet") == (expected(), [])


def test_every_format_is_tested():
    named = {ending for form in FORMATS.values() for ending in form.endings}
    assert named == {".parquet", ".feather", ".txt", ".md"} | {ending for ending in MADE if ending[0] == "."}
