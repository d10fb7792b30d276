"""Words over the time of a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.run_counts import RunCounts
from pipelines.report.throughput import PARTS, Pace
from tests.support.outputs import a_shard, an_entry

SPANS = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e5), st.integers(0, 10**6)), max_size=40)


@given(SPANS)
def test_no_word_is_lost_and_the_parts_stay_few(spans):
    pace = Pace()
    for start, length, words in spans:
        pace.add(start, start + length, words)
    total = sum(words for *_, words in spans)
    assert pace.words == pytest.approx(total)
    rates = pace.rates()
    assert 1 <= len(rates) <= PARTS
    assert all(rate >= 0 for _, rate in rates)
    assert [second for second, _ in rates] == sorted(second for second, _ in rates)


def test_a_steady_run_is_steady_at_any_length():
    for seconds in (10, 59, 61, 1000, 100_000):
        pace = Pace()
        for start in range(0, seconds, 5):
            pace.add(start, start + 5, 500)
        rates = pace.rates()
        assert [rate for _, rate in rates] == [pytest.approx(100)] * len(rates)
        assert min(seconds, PARTS / 2) <= len(rates) <= PARTS


def test_a_run_that_slows_down():
    pace = Pace(parts=4)
    pace.add(0, 2, 200)
    pace.add(2, 4, 20)
    assert pace.rates() == [(0, 100), (1, 100), (2, 10), (3, 10)]
    pace.add(4, 8, 40)
    assert pace.rates() == [(0, 100), (2, 10), (4, 10), (6, 10)]


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
    assert counts.pace.rates() == [(second, pytest.approx(100)) for second in range(20)]
