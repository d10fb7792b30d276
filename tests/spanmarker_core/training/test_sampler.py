"""The plan of steps and the batches made by it, without a model."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from datasets.distributed import split_dataset_by_node
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.bundle.config import packer_of
from spanmarker_core.data import Sentence, Span
from spanmarker_core.training.collate import Examples
from spanmarker_core.training.dataset import Gold, SentenceWindows
from spanmarker_core.training.sampler import Steps, deal, stream
from spanmarker_core.windows.packer import Context
from tests.support.tiny import tiny_model
from tests.support.training import sentences


def steps(seed=1, n=103, pools=7, parts=1, shuffled=30, **options):
    random = np.random.default_rng(0)
    n_tokens = random.integers(4, 60, n)
    offsets = np.linspace(0, n, pools + 1).astype(np.int64)
    return Steps(
        n_tokens,
        n_tokens**2,
        offsets,
        seed=seed,
        parts=parts,
        shuffled=shuffled,
        **{"epochs": 2, "batch_size": 8, **options},
    )


def by_step(plan, start=0):
    """The sorted windows of each step."""
    found = {}
    for part in plan.micro_batches(start):
        if part.counts:
            found.setdefault(part.step, []).extend(part.windows.tolist())
    return {step: sorted(windows) for step, windows in found.items()}


@given(
    st.integers(1, 60), st.integers(1, 5), st.integers(1, 6), st.sampled_from([None, 40, 200]), st.integers(0, 2**32)
)
def test_an_epoch_has_every_window_once_and_the_same_steps_for_any_number_of_parts(n, pools, parts, tokens, seed):
    options = {"n": n, "pools": min(n, pools), "seed": seed, "batch_tokens": tokens}
    one, several = steps(**options), steps(**options, parts=parts)
    assert by_step(one) == by_step(several)
    assert sorted(by_step(one)) == list(range(len(one)))
    first = one.epoch_ends[0]
    for epoch in (range(first), range(first, len(one))):
        assert sorted(window for step in epoch for window in by_step(one)[step]) == list(range(n))
    together = list(several.micro_batches())
    assert [part.part for part in together] == list(range(parts)) * len(one)
    assert all(len(part.windows) for part in together)


def test_a_start_in_the_middle_is_the_rest():
    plan = steps(parts=2)
    assert len(plan) == 26
    assert plan.epoch_ends.tolist() == [13, 26]
    everything = by_step(plan)
    for start in (0, 5, 13, 20, 26):
        assert by_step(plan, start) == {step: everything[step] for step in range(start, 26)}
    assert [plan.epochs_done(step) for step in (0, 13, 26)] == [0, 1, 2]
    assert plan.epochs_done(15) == pytest.approx(1 + 2 / 13)


def test_windows_are_shuffled_among_some_pools_and_anew_each_epoch():
    plan = steps(n=98, shuffled=30, batch_size=1)
    order = [windows[0] for windows in by_step(plan).values()]
    assert order[:98] != order[98:]
    # Pools of 14 windows, three to a group: what a process holds at a time.
    pools = np.array(order) // 14
    groups = [pools[start:end] for start, end in ((0, 42), (42, 84), (84, 98))]
    assert [len(set(group)) for group in groups] == [3, 3, 1]
    assert (np.diff(groups[0]) != 0).sum() > 10
    assert by_step(steps(seed=1)) != by_step(steps(seed=2))


def test_steps_of_tokens_stay_within_them():
    plan = steps(batch_tokens=200, n=200)
    sizes = np.array([sum(plan._n_tokens[windows]) for windows in by_step(plan).values()])
    assert sizes.max() <= 200
    assert np.median(sizes) > 160
    assert by_step(steps(batch_tokens=1, n=5)).keys() == set(range(10))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 6))
def test_parts_cost_about_the_same(costs, parts):
    costs = np.array(costs)
    dealt = deal(costs, parts)
    assert sorted(np.concatenate(dealt).tolist()) == list(range(len(costs)))
    loads = [costs[rows].sum() for rows in dealt]
    assert max(loads) - min(loads) <= costs.max()
    assert all(len(rows) for rows in dealt) == (len(costs) >= parts)


def test_processes_have_the_parts_in_turn():
    plan = steps(parts=4)
    parts = [
        [(row["micro_batch"].step, row["micro_batch"].part) for row in split_dataset_by_node(data, rank, 2)]
        for rank in range(2)
        for data in [stream(plan, 24, "x")]
    ]
    assert parts == [[(24, 0), (24, 2), (25, 0), (25, 2)], [(24, 1), (24, 3), (25, 1), (25, 3)]]


class Pooled:
    """Some windows, read in small pools."""

    def __init__(self, whole, size):
        self.whole = whole
        self.n_tokens, self.n_candidates, self.labels = whole.n_tokens, whole.n_candidates, whole.labels
        n = len(whole.n_tokens)
        self.pool_offsets = np.append(np.arange(0, n, size), n)
        self.reads = []

    def read(self, pool):
        self.reads.append(pool)
        windows, gold = self.whole.read(0)
        start, end = self.pool_offsets[pool : pool + 2]
        rows = (gold.window >= start) & (gold.window < end)
        part = Gold(gold.window[rows] - start, gold.word_start[rows], gold.word_end[rows], gold.label[rows])
        return windows.take(np.arange(start, end)), part


def test_pools_make_no_difference_to_batches_and_are_read_once_while_held():
    config, _, tokenizer = tiny_model("bert", entity_max_length=3)
    whole = SentenceWindows(sentences(), packer_of(config, tokenizer), Context("document"))
    pooled = Pooled(whole, 7)
    one, several = Examples(whole, 3, 0.3, 5), Examples(pooled, 3, 0.3, 5)
    for epoch in range(2):
        for numbers in (np.array([3, 20, 8, 21]), np.array([0, 1]), np.array([24, 2])):
            first, second = one.batch(numbers, epoch), several.batch(numbers, epoch)
            assert first["labels"].any()
            for name in ("labels", "gate", "gate_mask"):
                assert torch.equal(first[name], second[name])
            assert torch.equal(first["batch"].token_ids, second["batch"].token_ids)
            assert first["batch"].spans.first_token.tolist() == second["batch"].spans.first_token.tolist()
    assert sorted(pooled.reads) == [0, 1, 2, 3]
    few = Examples(pooled, 3, held_windows=10)
    pooled.reads.clear()
    for number in (0, 8, 1, 15, 2):
        few.batch(np.array([number]))
    assert pooled.reads == [0, 1, 0, 2, 0]  # of seven windows each, two are too many
    few.batch(np.array([3, 4]))
    assert pooled.reads == [0, 1, 0, 2, 0]


def test_the_drawn_spans_depend_on_the_window_and_the_epoch_alone():
    config, _, tokenizer = tiny_model("bert", entity_max_length=3)
    data = [replace(sentence, entities=[]) for sentence in sentences()]
    data[0] = Sentence("a", 0, data[0].words, [Span(0, 1, "person")])
    source = SentenceWindows(data, packer_of(config, tokenizer), Context())
    examples = Examples(source, 3, 0.3, 5)

    def drawn(numbers, epoch):
        batch = examples.batch(np.array(numbers), epoch)["batch"]
        last = batch.spans.offsets
        return [
            list(zip(batch.spans.first_token[start:end], batch.spans.last_token[start:end], strict=True))
            for start, end in pairwise(last)
        ]

    lengths = source.n_tokens
    same = np.flatnonzero(lengths == lengths[9])[:3].tolist()
    alone = [drawn([number], 1)[0] for number in same]
    assert drawn(same, 1) == alone
    assert alone[0] != alone[1]
    assert drawn(same, 2) != alone


@pytest.mark.parametrize("policy", ["sentence", "document", "block"])
def test_gold_stands_once_in_the_window_that_owns_its_first_word(policy):
    """Long sentences are cut, neighbours are shown, and an entity of more tokens than a window is left out."""
    config, _, tokenizer = tiny_model("bert", max_tokens=24, entity_max_length=3)
    words = ["the"] * 30 + ["paris"] + ["of"] * 30 + ["xxxxxxxxx"] * 3
    entities = [Span(30, 31, "location"), Span(29, 31, "person"), Span(29, 31, "location"), Span(61, 64, "location")]
    data = [
        Sentence("a", 0, ["in", "paris"], [Span(1, 2, "location")]),
        Sentence("a", 1, words, entities),
        Sentence("a", 2, ["obama", "\u2063"], [Span(0, 1, "person"), Span(0, 2, "person")]),
    ]
    source = SentenceWindows(data, packer_of(config, tokenizer), Context(policy))
    windows, gold = source.read(0)
    first = windows.word_offsets[gold.window] + gold.word_start
    last = windows.word_offsets[gold.window] + gold.word_end - 1
    assert windows.word_tag[first].all()
    found = zip(
        windows.word_sentence[first].tolist(),
        windows.word_index[first].tolist(),
        (windows.word_index[last] + 1).tolist(),
        [source.labels[label] for label in gold.label],
        strict=True,
    )
    assert sorted(found) == [
        (0, 1, 2, "location"),
        (1, 29, 31, "location"),
        (1, 29, 31, "person"),
        (1, 30, 31, "location"),
        (2, 0, 1, "person"),
    ]
    assert source.unreachable == 2
    assert source.spans_of_several_labels == 1
    place = int(gold.window[first.argmax()])
    assert source.names(np.array([place]))[0].startswith("document a, sentence")
