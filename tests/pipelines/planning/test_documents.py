import bz2
import gzip
import itertools
import lzma
import os
import pickle
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import PipelineError
from pipelines.output.plan_file import read_plan, save_plan
from pipelines.planning import files
from pipelines.planning.documents import plan_shards
from pipelines.planning.parquet import MAX_SHARD_ROWS
from pipelines.task import Columns
from tests.support.jobs import documents, write_jsonl, write_parquet

ID_AND_TEXT = Columns("id", "text")


def shards(*patterns, max_shard_bytes=4 << 20, job="j", output="/nowhere/out", columns=ID_AND_TEXT, form=None):
    patterns = [str(pattern) for pattern in patterns]
    options = {"columns": columns, "max_shard_bytes": max_shard_bytes, "job_digest": job}
    return list(plan_shards(patterns, form, output=output, **options))


def ranges(found):
    return [(shard.start, shard.end) for shard in found]


def assert_covers(found, end):
    assert found[0].start == 0
    assert found[-1].end == end
    for before, after in itertools.pairwise(found):
        assert before.end == after.start


@given(lengths=st.lists(st.integers(0, 60), max_size=20), limit=st.integers(1, 100), last_newline=st.booleans())
def test_jsonl_ranges_cover_the_file_and_end_at_newlines(tmp_path_factory, lengths, limit, last_newline):
    path = tmp_path_factory.mktemp("plan") / "a.jsonl"
    content = b"\n".join(b"x" * length for length in lengths) + b"\n" * last_newline
    path.write_bytes(content)
    found = shards(path, max_shard_bytes=limit)
    assert_covers(found, len(content))
    for shard in found[:-1]:
        assert content[shard.end - 1 : shard.end] == b"\n"
        assert b"\n" not in content[shard.start + limit - 1 : shard.end - 1]  # ends at the first one it may end at
    assert len({shard.name for shard in found}) == len(found)


def test_appended_lines_leave_full_ranges_as_they_are(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", documents(40))
    before = shards(path, max_shard_bytes=500)
    write_jsonl(path, documents(60))
    after = shards(path, max_shard_bytes=500)
    assert len(after) > len(before) > 3
    assert after[: len(before) - 1] == before[:-1]


def test_changed_line_changes_its_shard_only(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", documents(40))
    before = shards(path, max_shard_bytes=500)
    records = documents(40)
    records[0]["text"] = records[0]["text"].replace("Obama", "Abama")
    write_jsonl(path, records)
    after = shards(path, max_shard_bytes=500)
    assert ranges(before) == ranges(after)
    assert [a.name == b.name for a, b in zip(before, after, strict=True)] == [False] + [True] * (len(before) - 1)


def test_small_row_groups_are_joined_and_large_ones_cut(tmp_path):
    records = [{"id": n, "text": "x" * 1000 + str(n)} for n in range(100)]
    small = shards(
        write_parquet(tmp_path / "s.parquet", records, row_group_size=5, use_dictionary=False),
        max_shard_bytes=20_000,
    )
    assert_covers(small, 100)
    assert all(5 < shard.end - shard.start <= 20 for shard in small)
    large = shards(write_parquet(tmp_path / "l.parquet", records, use_dictionary=False), max_shard_bytes=20_000)
    assert_covers(large, 100)
    assert len(large) == 6
    assert max(shard.end - shard.start for shard in large) <= 20


def test_rows_of_a_shard_are_bounded(tmp_path):
    count = 2 * MAX_SHARD_ROWS + 1
    pq.write_table(pa.table({"id": range(count), "text": [""] * count}), tmp_path / "a.parquet")
    found = shards(tmp_path / "a.parquet")
    assert_covers(found, count)
    assert [shard.end - shard.start for shard in found] == [13_333, 13_334, 13_334]


def test_other_columns_do_not_change_a_shard(tmp_path):
    path = tmp_path / "a.parquet"
    names = []
    for extra in ("a", "b"):
        write_parquet(path, [{**record, "more": extra} for record in documents(10)])
        names.append([shard.name for shard in shards(path)])
    assert names[0] == names[1]


def test_empty_files_have_a_shard_each(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    pq.write_table(
        pa.table({"id": pa.array([], pa.int64()), "text": pa.array([], pa.string())}), tmp_path / "b.parquet"
    )
    assert [(s.format, s.start, s.end) for s in shards(tmp_path / "*")] == [
        ("jsonl", 0, 0),
        ("parquet", 0, 0),
    ]


def test_text_groups_hold_each_file_once_and_resist_a_new_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_NAMES_BYTES", 200)
    for number in range(300):
        (tmp_path / f"{number:03}.txt").write_text(f"text {number}")
    before = shards(tmp_path / "*.txt")
    assert [name for shard in before for name in shard.files] == [f"{n:03}.txt" for n in range(300)]
    (tmp_path / "000a.txt").write_text("new")
    after = shards(tmp_path / "*.txt")
    changed = {s.name for s in after} - {s.name for s in before}
    assert 0 < len(changed) < len(after) / 2


def test_text_ids_count_from_the_folder_before_the_wildcard(tmp_path):
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "x.txt").write_text("x")
    (tmp_path / "d" / "y.md").write_text("y")
    found = shards(tmp_path / "d" / "**" / "*.*")
    assert [name for shard in found for name in shard.files] == ["e/x.txt", "y.md"]


def test_a_shard_is_small_to_send(tmp_path):
    folder = tmp_path / ("n" * 100)
    folder.mkdir()
    for number in range(200):
        (folder / (f"{number:03}" + "m" * 200 + ".txt")).write_text("x")
    assert max(len(pickle.dumps(shard)) for shard in shards(tmp_path / "*" / "*.txt")) < 10_000


def test_files_matched_twice_count_once(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", documents(3))
    write_jsonl(tmp_path / "b.jsonl", documents(3))
    assert len(shards(tmp_path / "*.jsonl", tmp_path / "a*", tmp_path / "b.jsonl")) == 2


def test_a_file_of_many_names_counts_once(tmp_path, monkeypatch):
    path = write_jsonl(tmp_path / "in" / "a.jsonl", documents(3))
    (tmp_path / "folder").symlink_to("in")
    (tmp_path / "in" / "A.jsonl").symlink_to("a.jsonl")  # sorts before the file's own name
    (tmp_path / "in" / "loop").symlink_to(".")
    monkeypatch.chdir(tmp_path)
    spellings = [
        "in//a.jsonl",
        "in/./*.jsonl",
        "in/../in/a.jsonl",
        "folder/a.jsonl",
        "folder/*.jsonl",
        "folder/../in/a.jsonl",
        "*/a.jsonl",
        f"file://{tmp_path}/in/a.jsonl",
        "**/*.jsonl",
    ]
    assert [shard.source for shard in shards(*spellings)] == [str(path)]
    for spelling in spellings:
        assert [shard.source for shard in shards(spelling)] == [str(path)]


def test_links_to_files_outside_the_pattern_count_once_under_their_first_name(tmp_path):
    path = write_jsonl(tmp_path / "blobs" / "0a1b", documents(3))  # as model hubs lay out what they have fetched
    (tmp_path / "in").mkdir()
    for name in ("b.jsonl", "c.jsonl"):
        (tmp_path / "in" / name).symlink_to(path)
    assert [shard.source for shard in shards(tmp_path / "in" / "*")] == [f"{tmp_path}/in/b.jsonl"]


def test_an_output_is_found_out_under_any_name(tmp_path):
    write_parquet(tmp_path / "out" / "a.parquet", documents(2))
    (tmp_path / "link").symlink_to("out")
    for pattern in ("link/*.parquet", "*/*.parquet", "out/../link/a.parquet"):
        with pytest.raises(PipelineError, match=r"input.inside_output"):
            shards(f"{tmp_path}/{pattern}", output=f"{tmp_path}/out")


def test_what_is_no_file_is_rejected_beside_good_ones_and_refused_alone(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", documents(2))
    os.mkfifo(tmp_path / "pipe.jsonl")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "gone.jsonl").symlink_to("nowhere")
    (tmp_path / "sub").mkdir()
    write_jsonl(tmp_path / "part.jsonl" / "part-0.jsonl", documents(2))
    found = {shard.source: (shard.format, shard.reason, shard.content == "") for shard in shards(tmp_path / "*")}
    kinds = {f"{tmp_path}/{name}": ("jsonl", "", False) for name in ("a.jsonl", "part.jsonl/part-0.jsonl")}
    pipe = ("unreadable", "a pipe, a socket or a device", True)
    kinds |= {f"{tmp_path}/{name}": pipe for name in ("pipe.jsonl", "pipe.txt")}
    assert found == kinds | {f"{tmp_path}/gone.jsonl": ("unreadable", "a broken link", True)}
    with pytest.raises(PipelineError) as caught:
        shards(tmp_path / "gone.jsonl", tmp_path / "pipe*")
    assert caught.value.code == "input.not_a_file"
    assert [line.strip() for line in caught.value.values["files"].splitlines()] == [
        f"{tmp_path}/gone.jsonl (a broken link)",
        f"{tmp_path}/pipe.jsonl (a pipe, a socket or a device)",
        f"{tmp_path}/pipe.txt (a pipe, a socket or a device)",
    ]
    with pytest.raises(PipelineError, match=r"input.empty_folder"):  # an empty folder beside a good file, too
        shards(tmp_path / "a.jsonl", tmp_path / "sub")


def test_names_with_colons_and_brackets_are_names(tmp_path):
    (tmp_path / "std::vector.txt").write_text("x")
    (tmp_path / "s3::x.txt").write_text("x")
    write_jsonl(tmp_path / "x [final].jsonl", documents(2))
    found = shards(tmp_path / "*.txt", tmp_path / "x [final].jsonl")
    assert [(shard.source, shard.files) for shard in found] == [
        (str(tmp_path), ("s3::x.txt", "std::vector.txt")),
        (f"{tmp_path}/x [final].jsonl", ()),
    ]
    with pytest.raises(PipelineError, match=r"input.no_match.* \[\[\]"):  # how to write a bracket
        shards(tmp_path / "y [final].jsonl")


def test_corrupt_parquet_among_good_ones_becomes_a_shard(tmp_path):
    write_parquet(tmp_path / "a.parquet", documents(3))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 this is none PAR1")
    (tmp_path / "c.parquet").write_bytes(b"")
    assert [shard.format for shard in shards(tmp_path / "*.parquet")] == [
        "parquet",
        "unreadable",
        "unreadable",
    ]


def test_missing_columns_are_named_for_all_files(tmp_path):
    write_parquet(tmp_path / "a.parquet", documents(3))
    write_parquet(tmp_path / "b.parquet", [{"id": 1, "body": "x"}])
    write_parquet(tmp_path / "c.parquet", [{"id": True, "text": 7}])
    write_jsonl(tmp_path / "d.jsonl", [{"id": 1, "body": "x"}])
    (tmp_path / "e.jsonl.gz").write_bytes(gzip.compress(b'{"id": 1, "body": "x"}\n' * 9, mtime=0))
    (tmp_path / "f.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(b'{"no": 1, "text": "x"}\n'))
    with pytest.raises(PipelineError) as caught:
        shards(tmp_path / "[b-f]*")
    assert caught.value.code == "input.bad_columns"
    expected = {
        "b.parquet": "no 'text'; its columns are id, body",
        "c.parquet": "'id' is bool, 'text' is int64; its columns are id, text",
        "d.jsonl": "no 'text'; its first records have id, body",
        "e.jsonl.gz": "no 'text'; its first records have id, body",
        "f.jsonl.zst": "no 'id'; its first records have no, text",
    }
    assert caught.value.values["files"] == "\n".join(f"  {tmp_path}/{name}: {why}" for name, why in expected.items())
    good, *bad = shards(tmp_path / "*")  # Where one file has them, the others cost nothing but themselves.
    assert (good.format, good.end) == ("parquet", 3)
    assert {shard.source: shard.reason for shard in bad} == {
        f"{tmp_path}/{name}": why for name, why in expected.items()
    }
    assert {shard.format for shard in bad} == {"unreadable"}


def test_what_a_footer_says_twice_must_agree(tmp_path):
    """One bit of a footer is changed: the file is read whole, or is one shard that can't be read."""
    path = write_parquet(tmp_path / "a.parquet", documents(40), row_group_size=10)
    whole = path.read_bytes()
    good = write_parquet(tmp_path / "good.parquet", documents(1))  # so that columns that don't fit are one file's fault
    kinds = Counter()
    for position in range(len(whole) - int.from_bytes(whole[-8:-4], "little") - 8, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << position % 8]) + whole[position + 1 :])
        found = [shard for shard in shards(path, good) if shard.source == str(path)]
        kinds[found[0].format] += 1
        assert found[0].format == "unreadable" or found[-1].end == 40
    assert kinds["unreadable"] > 20
    assert kinds["parquet"] > 20


def test_one_record_without_a_column_is_no_fault_of_the_file(tmp_path):
    write_jsonl(tmp_path / "d.jsonl", [{"id": 1}, b"{", {"id": 2, "text": "x"}])
    assert len(shards(tmp_path / "*")) == 1


@pytest.mark.parametrize(
    ("keys", "hint"),
    [(["ID", "Text"], "(did you mean 'Text'?)"), (["id", "texts"], "(did you mean 'texts'?)"), (["id", "body"], None)],
)
def test_a_missing_column_is_named_with_the_likely_one(tmp_path, keys, hint):
    write_jsonl(tmp_path / "a.jsonl", [dict.fromkeys(keys, "x")])
    (tmp_path / "b.csv").write_text(",".join(keys) + "\n")
    for name in ("a.jsonl", "b.csv"):
        with pytest.raises(PipelineError, match=r"input.bad_columns") as caught:
            shards(tmp_path / name)
        assert (hint or "no 'text';") in caught.value.values["files"]
        assert ("mean" in caught.value.values["files"]) is (hint is not None)


def test_a_column_of_another_type_is_not_the_likely_one(tmp_path):
    write_parquet(tmp_path / "a.parquet", [{"id": 1, "texts": 5, "meta": [["text", "x"]]}])
    with pytest.raises(PipelineError, match=r"input.bad_columns") as caught:
        shards(tmp_path / "a.parquet")
    assert caught.value.values["files"].endswith("a.parquet: no 'text'; its columns are id, texts, meta")


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", gzip.compress(b'{"id": 1, "text": "x"}\n', mtime=0), "--format jsonl.gz"),
        ("a.csv", zstandard.ZstdCompressor().compress(b"id,text\n1,x\n"), "--format csv.zst"),
        ("a.wet", bz2.compress(b"WARC/1.0"), "--format warc.bz2"),
        ("a.tsv", lzma.compress(b"id\ttext\n"), "--format tsv.xz"),
        ("a.jsonl", POINTER, "git lfs pull"),
        ("a.parquet", POINTER, "git lfs pull"),
        ("a.arrow", POINTER, "git lfs pull"),
    ],
)
def test_content_that_is_not_what_the_name_says(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    (shard,) = shards(tmp_path / name)
    assert shard.format == "unreadable"
    assert reason in shard.reason


def test_a_column_that_a_header_has_twice_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("id,text,text\na,b,c\n")
    with pytest.raises(PipelineError, match=r"(?s)input.bad_columns.*'text' twice"):
        shards(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_string_types(tmp_path, kind):
    table = pa.table({"id": pa.array([1, 2], pa.uint8()), "text": pa.array(["a", "b"]).cast(kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    assert ranges(shards(tmp_path / "a.parquet")) == [(0, 2)]


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("none/*.parquet", "input.no_match"),
        ("", "input.inside_output"),
        ("none.parquet", "input.no_match"),
        ("a::b.parquet", "input.no_match"),
        ("nosuchstore://a/*.parquet", "url.unusable"),
        ("zip://*.parquet::/a.zip", "url.unusable"),
        ("**.parquet", "input.no_match"),
        ("*.doc", "input.unknown_format"),
        ("out/*.parquet", "input.inside_output"),
    ],
)
def test_faulty_patterns(tmp_path, pattern, code):
    (tmp_path / "a.doc").write_text("")
    write_parquet(tmp_path / "out" / "a.parquet", documents(2))
    with pytest.raises(PipelineError) as caught:
        shards(pattern if "://" in pattern else f"{tmp_path}/{pattern}", output=f"{tmp_path}/out")
    assert caught.value.code == code


def test_plan_round_trip_and_no_plan_of_a_faulty_job(tmp_path):
    write_jsonl(tmp_path / "a ü.jsonl", documents(20))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b"{}", mtime=0))
    (tmp_path / "c.txt").write_text("text")
    found = shards(tmp_path / "*", max_shard_bytes=300)
    path = str(tmp_path / "plan.jsonl")
    assert len(save_plan(path, found, {"model": "m"}).names) == len(found)
    assert list(read_plan(path)) == found

    def faulty():
        yield replace(found[0], name="other")
        raise PipelineError("input.no_match", patterns="x", suggestion="")

    with pytest.raises(PipelineError):
        save_plan(path, faulty(), {"model": "m"})
    assert list(read_plan(path)) == found


def test_names_depend_on_the_job(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", documents(2))
    assert shards(tmp_path / "a.jsonl", job="1")[0].name != shards(tmp_path / "a.jsonl", job="2")[0].name
