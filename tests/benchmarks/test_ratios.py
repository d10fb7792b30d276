"""Statistics, what goes into a sample, and when timing is refused."""

import json

import pytest

from benchmarks.contestants import Bundle
from benchmarks.cost import Window
from benchmarks.growth import pieces
from benchmarks.ratios import Spread, speedup, spread
from benchmarks.rounds import Disagreement, check_same
from benchmarks.workloads import build, evenly, fitting_of, own_windows, packer_with, shared_windows
from spanmarker_core.windows.packer import Context


def test_ratios_are_taken_within_a_round():
    # The machine was slow in the second round, for both: the ratio doesn't notice.
    assert speedup([1.0, 10.0, 1.0], against=[4.0, 40.0, 5.0]) == Spread(4.0, 4.0, 5.0)
    assert spread([2.0, 8.0]) == Spread(5.0, 2.0, 8.0)
    with pytest.raises(ValueError, match="longer"):
        speedup([1.0], against=[1.0, 2.0])


def test_same_entities_pass_in_any_order():
    left = [[[0, 1, "PER", 0.9], [3, 4, "LOC", 0.8]], []]
    right = [[[3, 4, "LOC", 0.8], [0, 1, "PER", 0.9004]], []]
    assert check_same(left, right) == {"entities": 2, "largest_difference": pytest.approx(4e-4)}


@pytest.mark.parametrize(
    "right", [[[[0, 1, "LOC", 0.9]]], [[[0, 2, "PER", 0.9]]], [[[0, 1, "PER", 0.902]]], [[]]], ids=repr
)
def test_other_entities_are_refused(right):
    with pytest.raises(Disagreement):
        check_same([[[0, 1, "PER", 0.9]]], right)


def test_nothing_found_is_refused():
    with pytest.raises(Disagreement, match="nothing to compare"):
        check_same([[]], [[]])


def test_bundle_option():
    assert Bundle.parse("late=out/late:on").path.name == "late"
    assert Bundle.parse("late=out/late") == Bundle.parse("late=out/late:auto")


def test_evenly_takes_all_if_there_are_few():
    assert evenly([1, 2], 5) == [1, 2]


def sentence(document, *words):
    return {"document_id": document, "sentence_id": 0, "tokens": list(words), "entities": []}


def test_sentences_some_contestant_cannot_take_are_left_out(tiny_bundle):
    good = sentence("a", "obama", "flew")
    bad = [sentence("a"), sentence("b", "new york"), sentence("c", *["the"] * 47), sentence("d", "\u2063", "x")]
    fitting, left_out = fitting_of(packer_with(tiny_bundle, 48), [good, *bad])
    assert fitting[0] is good
    assert left_out >= 3


def test_sentences_of_a_short_document_share_a_window(tiny_bundle):
    packer = packer_with(tiny_bundle, 48)
    document = [sentence("a", "obama", "flew", "to", "paris"), sentence("a", "he", "was", "in", "london")]
    ((tokens, held),) = shared_windows(packer, document, Context("document"))
    assert (len(tokens), held.tokens) == (10, 10)
    assert (held.spans, held.starts, held.ends) == (2 * (4 + 3 + 2 + 1), 8, 8)
    each = Window(tokens=10, spans=10, starts=4, ends=4)
    assert own_windows(packer, document, Context("document")) == [each, each]
    assert [window.tokens for _, window in shared_windows(packer, document, Context("sentence"))] == [6, 6]


def test_workload_holds_every_token_once(tiny_bundle, tmp_path):
    packer = packer_with(tiny_bundle, 13)
    document = [sentence("a", "he", "flew", "to", "paris"), sentence("a", *["the"] * 8), sentence("a", "in")]
    workload = build("name", packer, "document", [document])
    assert [len(window) for window in workload.once] == [6, 11]
    assert workload.texts == ["he flew to paris", "the the the the the the the the in"]
    stored = json.loads(workload.write(tmp_path / "workload.json").read_text())
    assert [s["document_id"] for s in stored["sentences"]] == [0, 0, 0]
    assert stored["max_tokens"] == 13


def test_pieces_have_one_length():
    words = [sentence("a", "1", "2", "3"), sentence("b", "4", "5")]
    assert [piece["tokens"] for piece in pieces(words, 2)] == [["1", "2"], ["3", "4"]]
