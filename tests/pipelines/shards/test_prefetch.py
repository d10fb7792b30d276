import threading

import pytest

from pipelines.shards.prefetch import prefetch


def test_items_come_in_order():
    assert list(prefetch(iter(range(100)), 3)) == list(range(100))


def test_exception_comes_after_the_items_before_it():
    def items():
        yield 1
        yield 2
        raise OSError("lost")

    ahead = prefetch(items(), 1)
    assert (next(ahead), next(ahead)) == (1, 2)
    with pytest.raises(OSError, match="lost"):
        next(ahead)


def test_it_runs_no_further_ahead_than_asked():
    made = []

    def items():
        for number in range(20):
            made.append(number)
            yield number

    ahead = prefetch(items(), 2)
    for number in ahead:
        assert len(made) <= number + 4  # the one in use, two waiting, one in the making


def test_closing_early_ends_the_thread():
    before = set(threading.enumerate())
    endless = prefetch(iter(int, 1), 2)
    assert next(endless) == 0
    endless.close()
    assert set(threading.enumerate()) <= before  # Threads of other tests may end meanwhile.
