"""What a run knows of its failures."""

import pytest

from pipelines.engines import GIVE_UP, KEPT, TRIES, Tries
from pipelines.errors import PipelineError

pytestmark = pytest.mark.default


class Listener:
    def __init__(self):
        self.retries = self.failures = 0

    def retried(self, shard, reason):
        self.retries += 1

    def failed(self, shard, reason):
        self.failures += 1


def test_a_shard_is_tried_so_often_and_one_that_is_done_in_between_keeps_the_run_going():
    tries = Tries(listener := Listener())
    for number in range(10 * GIVE_UP):
        tries.total += 1
        again = [tries.again(f"s{number}", "why") for _ in range(TRIES)]
        assert again == [True] * (TRIES - 1) + [False]
        if number % (GIVE_UP - 1) == 0:
            tries.done("other")
        tries.check()
    assert listener.retries == 10 * GIVE_UP * (TRIES - 1)
    assert listener.failures == 10 * GIVE_UP
    with pytest.raises(PipelineError) as caught:
        tries.end()
    assert (caught.value.values["count"], caught.value.values["total"]) == (200, 200)
    assert caught.value.values["others"] == "all others are done"


def test_failures_in_a_row_end_the_run_with_what_is_known_so_far():
    tries = Tries(Listener())
    tries.never("changed", "another input")
    for number in range(GIVE_UP):
        tries.check()
        for _ in range(TRIES):
            tries.again(f"s{number}", "[output.not_writable] no room")
    with pytest.raises(PipelineError, match=r"\n  changed: another input\n  s0: \[output.not_writable\]") as caught:
        tries.check()
    assert f"{GIVE_UP} failures in a row" in caught.value.values["others"]


def test_a_million_failures_keep_few_reasons():
    tries = Tries(Listener())
    for number in range(50 * KEPT):
        tries.never(f"s{number}", "why")
    with pytest.raises(PipelineError) as caught:
        tries.end()
    assert (caught.value.count, caught.value.values["total"]) == (50 * KEPT, 0)
    assert list(caught.value.failed) == [f"s{number}" for number in range(KEPT)]
