"""The progress display of all commands: a bar on a terminal, and a line every 30 seconds elsewhere."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pipelines.pages.figures import size
from pipelines.report.printed import print_plain, with_plain_spaces
from pipelines.runs.pace import Pace

#: Seconds between two lines where the output is not a terminal.
LINE_SECONDS = 30.0
#: Updates of the bar per second. Each costs about a millisecond.
_UPDATES = 2
#: Widths of the bar, in columns; there is none where it would be narrower.
_NARROWEST, _WIDEST = 8, 40


@dataclass(slots=True)
class _Phase:
    name: str
    unit: str
    pace: Pace
    shown: str = ""


class Display:
    """Shows the progress of a command while the block runs; implements `spanmarker_core.progress.Progress`.

    Args:
        console: where to show it. A quiet console shows nothing.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._phases: list[_Phase] = []
        self._over = threading.Event()
        self._live: Live | None = None
        self._lines: threading.Thread | None = None

    def __enter__(self) -> "Display":
        if self.console.quiet:
            return self
        if self.console.is_terminal:
            self._live = Live(
                get_renderable=self._drawn, console=self.console, refresh_per_second=_UPDATES, transient=True
            )
            self._live.start()
        else:
            self._lines = threading.Thread(target=self._print_lines, name="progress", daemon=True)
            self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._live is not None:
            self._live.stop()
        if self._lines is not None:
            self._lines.join()

    def say(self, line: str) -> None:
        """Print a line above the bar.

        Args:
            line: the line; it is printed as it is.
        """
        print_plain(self.console, line)

    @contextmanager
    def phase(self, name: str, total: float | None = None, unit: str = "", done: float = 0) -> Iterator[None]:
        """Show a phase while the block runs. A phase within another one is shown in its place.

        Args:
            name: what is done, such as "scoring dev".
            total: units of work in the phase; None if that is unknown.
            unit: plural of the unit, such as "words"; "bytes" are shown as sizes.
            done: units that were done before.
        """
        self._phases.append(_Phase(name, unit, Pace(total, done)))
        try:
            yield
        finally:
            self._phases.pop()

    def advance(self, count: float = 0, shown: str | None = None) -> None:
        """Add work to the current phase.

        Args:
            count: units done since the last call; negative if work has to be done again.
            shown: current values worth showing; None leaves the last ones.
        """
        if self._phases:
            phase = self._phases[-1]
            phase.pace.add(count)
            if shown is not None:
                phase.shown = shown

    def _drawn(self) -> RenderableType:
        """Return the bar, and below it the current values."""
        if not (phases := self._phases[-1:]):
            return Text()
        phase, pace = phases[0], phases[0].pace
        total = None if pace.total is None else max(pace.total, 1e-9)
        after = _times(pace) if pace.share is None else f"{int(100 * pace.share):3} %  {_times(pace)}"
        # The bar keeps its width until a time has hours.
        usual = "00:00 elapsed" if pace.total is None else "100 %  00:00 elapsed, about 00:00 left"
        width = self.console.width - len(phase.name) - max(len(after), len(usual)) - 3
        bar = Table.grid(padding=(0, 1))
        if width >= _NARROWEST:
            drawn = ProgressBar(total, pace.done, width=min(width, _WIDEST), pulse=total is None)
            bar.add_row(phase.name, drawn, Text(after, no_wrap=True))
        else:
            bar.add_row(f"{phase.name}  {after.lstrip()}")
        below = Text(_values(phase), style="dim")
        return Group(bar, below) if below else bar

    def _print_lines(self) -> None:
        while not self._over.wait(LINE_SECONDS):
            if phases := self._phases[-1:]:
                self.say(line_of(phases[0].name, phases[0].pace, _values(phases[0])))


def line_of(name: str, pace: Pace, values: str) -> str:
    """Return the progress of a phase as a line of text.

    Args:
        name: what is done.
        pace: how much of it.
        values: current values, or nothing.
    """
    share = None if pace.share is None else f"{int(100 * pace.share)} %"
    return f"{name}: {', '.join(part for part in (share, _times(pace), values) if part)}"


def _times(pace: Pace) -> str:
    left = pace.left()
    return f"{clock(pace.elapsed())} elapsed" + ("" if left is None else f", about {clock(left)} left")


def _values(phase: _Phase) -> str:
    pace = phase.pace
    if not phase.unit:
        return phase.shown
    form: Callable[[float], str] = size if phase.unit == "bytes" else lambda count: f"{count:,.0f}"
    done = form(pace.done) if pace.total is None else f"{form(pace.done)} of {form(pace.total)}"
    unit = "" if phase.unit == "bytes" else f" {phase.unit}"
    return with_plain_spaces(", ".join(part for part in (f"{done}{unit}", phase.shown) if part))


def clock(seconds: float) -> str:
    """Return a time in hours, minutes and seconds.

    Args:
        seconds: the time.

    >>> clock(9), clock(75.6), clock(3725)
    ('0:09', '1:15', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
