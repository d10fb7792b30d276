import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.stages import pack as packing
from pipelines.stages.pack import encode, pack, pack_runs
from pipelines.stages.samples import Samples, rows_of, samples_of, windows_of
from pipelines.stages.split import split
from pipelines.stages.tag import tag
from schemas import SAMPLES
from spanmarker_core.windows.packer import Context, Windows
from tests.spanmarker_core.windows.test_packer import CONTEXT, PACKERS

PIECE = st.sampled_from(
    ["Paris of the.", "Ok!", "the", "\u2063x", "\x00", "q" * 30, "München 日本 a of.", "the a " * 30]
)
TEXT = st.lists(PIECE, max_size=12).map("\n\n".join)


def sentences_of(texts):
    ids = [f"d{number}" for number in range(len(texts))]
    return split(pa.RecordBatch.from_pydict({"document_id": pa.array(ids, pa.large_string()), "text": texts}), "en")


@given(st.lists(TEXT, max_size=4), CONTEXT, st.sampled_from([24, 48]), st.sampled_from([1, 4000, 9000, 30_000]))
def test_rows_do_not_depend_on_where_runs_are_cut(texts, context, size, max_bytes):
    packer = PACKERS[size]
    sentences = sentences_of(texts)
    runs = list(pack_runs(encode(sentences, packer), packer, context, max_bytes))
    assert [run.last for run in runs] == [False] * (len(runs) - 1) + [True]
    assert not any(run.failures for run in runs)
    joined = pa.concat_batches([rows_of(run.samples) for run in runs])
    assert joined.equals(rows_of(pack(sentences, packer, context)))
    assert joined.schema.equals(SAMPLES.schema, check_metadata=True)
    assert rows_of(samples_of(joined)).equals(joined)
    assert rows_of(Samples.concatenate([run.samples for run in runs])).equals(joined)
    keys = [key for run in runs for key in digests_of(run.samples)]
    assert len(keys) == len(set(keys))  # no sentence is in two runs

    # The same as whole documents packed one by one.
    parts, texts_of_windows = [], []
    for number, document_id in enumerate(dict.fromkeys(sentences["document_id"].to_pylist())):
        rows = sentences.filter(pc.equal(sentences["document_id"], document_id))
        encoded = packer.encode_texts(rows["text"].to_pylist())
        starts = rows["char_start"].to_pylist()
        parts.append(packer.pack(encoded, context, document=number, char_starts=starts))
        window_ids = joined.filter(pc.equal(joined["document_id"], document_id))["window_id"]
        assert window_ids.to_pylist() == list(range(len(parts[-1])))
        text, first, last = texts[int(document_id[1:])], parts[-1].word_offsets[:-1], parts[-1].word_offsets[1:] - 1
        begins, ends = parts[-1].word_char_start[first], parts[-1].word_char_end[last]
        # The pieces have line breaks between them; a space stands for each that is between sentences.
        text = "".join(" " if gap else character for gap, character in zip(gaps(text, rows), text, strict=True))
        texts_of_windows += [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
    if parts:
        expected, found = Windows.concatenate(parts), windows_of(joined)
        for name in Windows.__slots__:
            assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert joined["text"].to_pylist() == texts_of_windows


def gaps(text, sentences):
    """Whether each character is outside all sentences."""
    outside = np.ones(len(text), bool)
    for start, end in zip(sentences["char_start"].to_pylist(), sentences["char_end"].to_pylist(), strict=True):
        outside[start:end] = False
    return outside.tolist()


def digests_of(samples):
    """The (document, sentence)s that have windows."""
    windows, ids = samples.windows, samples.document_ids.to_pylist()
    window = np.repeat(np.arange(len(windows)), np.diff(windows.word_offsets))
    return {(ids[w], sentence) for w, sentence in zip(window, windows.word_sentence.tolist(), strict=True)}


@pytest.mark.parametrize("context", [Context(), Context("document"), Context("document", 1, 0), Context("block")])
def test_runs_are_bounded_and_not_many(context):
    packer = PACKERS[48]
    encoded = encode(sentences_of(["Ok!\n\n" * 3000, "Paris of the a. " * 300, ""]), packer)
    runs = list(pack_runs(encoded, packer, context, 1 << 18))
    assert 3 < len(runs) < 20
    sizes = [rows_of(run.samples).nbytes for run in runs]
    assert max(sizes) < 1 << 18
    assert sum(sizes) > len(runs) << 16


@pytest.mark.parametrize("limit", [1, 20, sys.maxsize])
def test_encoded_sentences_are_those_of_the_packer(limit, monkeypatch):
    monkeypatch.setattr(packing, "_MAX_ENCODE_BYTES", limit)
    packer = PACKERS[24]
    sentences = sentences_of(["Paris of the. \x00\n\nMünchen a " + "q" * 40, "Ok!"])
    encoded = encode(sentences, packer)
    for row, expected in enumerate(packer.encode_texts(sentences["text"].to_pylist())):
        for name in expected.__slots__:
            found = getattr(encoded.sentences[row], name)
            assert found.dtype == getattr(expected, name).dtype
            assert np.array_equal(found, getattr(expected, name))


def test_a_document_that_fails_in_one_run_keeps_its_windows_in_others(monkeypatch):
    packer = PACKERS[48]
    real = packer.windows

    def faulty(sentences, plan, **options):
        if 2 in plan.sentence_start:
            raise ValueError("no such window")
        return real(sentences, plan, **options)

    monkeypatch.setattr(packer, "windows", faulty)
    sentences = sentences_of(["Ok! Ok! Ok! Ok!", "Paris."])
    runs = list(pack_runs(encode(sentences, packer), packer, Context(), 1))
    assert [list(run.failures) for run in runs] == [[], [], ["d0"], [], []]
    assert [len(run.samples) for run in runs] == [1, 1, 0, 1, 1]
    monkeypatch.setattr(packer, "windows", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pack(sentences, packer, Context())


def test_a_document_that_fails_costs_no_other_in_its_run(monkeypatch):
    packer = PACKERS[48]
    real = packer.windows

    def faulty(sentences, plan, **options):
        if {1, 4} & set(plan.document.tolist()):
            raise ValueError("no such window")
        return real(sentences, plan, **options)

    monkeypatch.setattr(packer, "windows", faulty)
    sentences = sentences_of(["Ok! Ok!", "Paris.", "Ok! Ok!", "the", "Bad.", "Ok!"])
    (run,) = pack_runs(encode(sentences, packer), packer, Context())
    assert list(run.failures) == ["d1", "d4"]
    assert run.samples.document_ids.to_pylist() == ["d0", "d0", "d2", "d2", "d3", "d5"]
    assert run.samples.window_ids.tolist() == [0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
@pytest.mark.parametrize("policy", ["sentence", "document", "block"])
def test_rows_are_the_document_s_text_whatever_is_between_its_sentences(tiny, policy, max_bytes):
    text = (
        "\u3000 👩‍👩‍👧 Obama flew to 日本.\r\n\u200b\n\t Müller was in 𝒫aris!\u00a0\u2003 He said é.   \n\n\n𝄞 New York"
    )
    text = " \U0001f388".join([text] * 3)
    sentences = sentences_of([text, "Paris", text])
    assert len(sentences) > 20
    runs = pack_runs(encode(sentences, tiny.packer), tiny.packer, Context(policy), max_bytes)
    rows = pa.concat_batches([tag(run.samples, tiny, "all.v1", 0.0) for run in runs])
    texts = {"d0": text, "d1": "Paris", "d2": text}
    for row in rows.to_pylist():
        assert (
            row["text"] == texts[row["document_id"]][row["char_start"] : row["char_end"]] == row["text"].strip() != ""
        )
    assert {row["sentence_id"] for row in rows.to_pylist()} == set(sentences["sentence_id"].to_pylist())
