"""Words over the time of a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.run_counts import RunCounts
from pipelines.report.throughput import PARTS, Throughput
from tests.support.outputs import a_shard, an_entry

SPANS = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e5), st.integers(0, 10**6)), max_size=40)


@given(SPANS)
def test_no_word_is_lost_and_the_parts_stay_few(spans):
    throughput = Throughput()
    for start, length, words in spans:
        throughput.add(start, start + length, words)
    total = sum(words for *_, words in spans)
    assert throughput.words == pytest.approx(total)
    rates = throughput.rates()
    assert 1 <= len(rates) <= PARTS
    assert all(rate >= 0 for _, rate in rates)
    assert [second for second, _ in rates] == sorted(second for second, _ in rates)


def test_a_steady_run_is_steady_at_any_length():
    for seconds in (10, 59, 61, 1000, 100_000):
        throughput = Throughput()
        for start in range(0, seconds, 5):
            throughput.add(start, start + 5, 500)
        rates = throughput.rates()
        assert [rate for _, rate in rates] == [pytest.approx(100)] * len(rates)
        assert min(seconds, PARTS / 2) <= len(rates) <= PARTS


def test_a_run_that_slows_down():
    throughput = Throughput(parts=4)
    throughput.add(0, 2, 200)
    throughput.add(2, 4, 20)
    assert throughput.rates() == [(0, 100), (1, 100), (2, 10), (3, 10)]
    throughput.add(4, 8, 40)
    assert throughput.rates() == [(0, 100), (2, 10), (4, 10), (6, 10)]


def test_words_of_a_shard_are_spread_over_the_time_that_it_took(monkeypatch):
    now = 100.0
    monkeypatch.setattr("pipelines.report.run_counts.time.monotonic", lambda: now)
    counts = RunCounts()
    counts.started({})
    for now in (110.0, 120.0):
        entry = an_entry(a_shard(f"/in/{now}.jsonl"))
        entry.counts["words"] = 1000
        entry.seconds.update({"wait": 1.0, "tag": 9.0, "read": 50.0})
        counts.finished(entry, 1, "w")
    assert counts.throughput.rates() == [(second, pytest.approx(100)) for second in range(20)]
