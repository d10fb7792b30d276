"""The display of progress, and the estimate of the remaining time."""

import io
import threading

import pytest
from rich.console import Console

from pipelines.runs import pace as pace_module
from pipelines.runs import progress as module
from pipelines.runs.pace import Pace
from pipelines.runs.progress import Display


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves on."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(pace_module, "time", clock)
    return clock


def test_the_first_work_gives_an_estimate(clock):
    pace = Pace(100)
    assert pace.left() is None
    clock.now += 2
    pace.add(10)
    assert pace.left() == pytest.approx(18)
    assert (pace.share, pace.elapsed()) == (0.1, 2)


def test_an_estimate_lasts_where_work_is_added_once_a_minute(clock):
    pace, start = Pace(10), clock.now
    for minute in range(1, 10):
        clock.now = start + 60 * minute
        pace.add(1)
        for seconds in range(0, 60, 10):
            clock.now = start + 60 * minute + seconds
            assert pace.left() == pytest.approx(60 * (10 - minute) - seconds)


def test_late_work_does_not_end_at_zero(clock):
    pace = Pace(10)
    clock.now += 9
    pace.add(9)
    clock.now += 100
    assert pace.left() == pytest.approx(109 / 9)


def test_work_done_before_says_nothing_of_the_speed(clock):
    pace = Pace(100, 50)
    assert (pace.done, pace.left()) == (50, None)
    clock.now += 10
    pace.add(10)
    assert pace.left() == pytest.approx(40)


def test_work_may_be_more_than_planned_and_may_be_taken_back(clock):
    pace = Pace(100)
    clock.now += 1
    pace.add(150)
    assert (pace.done, pace.left()) == (100, None)
    pace.add(-50)
    assert (pace.done, pace.left()) == (100, 0)
    pace.add(-100)
    assert (pace.done, pace.left()) == (0, None)
    assert Pace(0).share == 1
    assert Pace().share is None


def test_a_pipe_gets_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(module, "LINE_SECONDS", 0.05)
    printed, seen = io.StringIO(), threading.Event()
    console = Console(file=printed, width=200)
    with Display(console) as display, display.phase("scoring", 100, "words"):
        display.advance(25, "loss 0.03")
        seen.wait(0.3)
        with display.phase("within"):
            seen.wait(0.3)
    lines = printed.getvalue().splitlines()
    assert any(line.startswith("scoring: 25 %, ") and "25 of 100 words, loss 0.03" in line for line in lines)
    assert any(line.startswith("within: ") for line in lines)
    assert "\x1b" not in printed.getvalue()


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end():
    printed = io.StringIO()
    console = Console(file=printed, width=100, force_terminal=True)
    with Display(console) as display, display.phase("tagging", 2_000_000, "bytes"):
        display.advance(500_000, "3 of 13 shards")
        display.say("[bold]a line[/]")
        assert display._live is not None
        display._live.refresh()
    text = printed.getvalue()
    assert "25 %" in text
    assert "500.0 kB of 2.0 MB, 3 of 13 shards" in text
    assert "[bold]a line[/]" in text
    assert text.endswith("\x1b[2K")


@pytest.mark.parametrize("force_terminal", [True, False])
def test_a_quiet_console_stays_quiet(monkeypatch, force_terminal):
    monkeypatch.setattr(module, "LINE_SECONDS", 0.02)
    printed = io.StringIO()
    console = Console(file=printed, quiet=True, force_terminal=force_terminal)
    with Display(console) as display, display.phase("scoring", 100, "words"):
        display.advance(1)
        display.say("a line")
        threading.Event().wait(0.1)
    assert printed.getvalue() == ""
