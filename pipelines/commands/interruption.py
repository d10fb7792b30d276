"""Ctrl-C and SIGTERM: the first ends a command in order, the second at once; and what the command then says."""

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from pipelines.errors import EXIT_INTERRUPTED, EXIT_TERMINATED, Terminated
from pipelines.jobs.hidden import HIDDEN


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for the first signal in the block, and end the process for the second.

    SIGTERM, which a scheduler sends to reclaim the machine, has the same effect as Ctrl-C, as `Terminated`. Ending the
    process at once is safe: its workers end with it, and the next run removes what they left.
    """
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # by nohup, or a shell that started us with &
    numbers = [signal.SIGTERM, *([] if ignored else [signal.SIGINT])]
    before = [(number, signal.signal(number, _interrupt)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            # While an interrupted process ends, another Ctrl-C has nothing to add.
            signal.signal(number, _leave if signal.getsignal(number) is _end else handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    for each in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(each) is _interrupt:
            signal.signal(each, _end)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> NoReturn:
    shown = "\x1b[?25h\n" if os.isatty(2) else ""  # The bar hides the cursor.
    said = f"{shown}spanmarker: ended at once. {_SAME}:\n  {_command(sys.argv[1:])}\n"
    os.write(2, said.encode(errors="surrogateescape"))  # File names need not be valid UTF-8.
    _leave(number, frame)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(EXIT_TERMINATED if number == signal.SIGTERM else EXIT_INTERRUPTED)


_SAME = "To continue, run the same command"


def interruption(error: KeyboardInterrupt, words: list[str]) -> str:
    """Return what an interruption costs, and the command that continues.

    Args:
        error: the interruption; its notes say what is kept.
        words: words of the command line.
    """
    by = "stopped by SIGTERM" if isinstance(error, Terminated) else "interrupted by Ctrl-C"
    notes = getattr(error, "__notes__", [])
    then = _SAME if notes else "Nothing was saved yet. To start over, run the same command"
    return f"{' '.join([f'{by}.', *notes])} {then}:\n  {_command(words)}"


def _command(words: list[str]) -> str:
    return shlex.join(["spanmarker", *_without_secrets(words)])


#: Option -> what is shown of its value.
_OPTIONS = {f"--{name.replace('_', '-')}": shown for name, shown in HIDDEN.items()}


def _without_secrets(words: list[str]) -> list[str]:
    """Return the words of a command line, without the values of options that may be secrets.

    >>> _without_secrets(["tag", "--storage-option", "secret=x", "--storage-option=key=y", "--", "--password=z"])
    ['tag', '--storage-option', 'secret=…', '--storage-option=key=…', '--', '--password=…']
    >>> _without_secrets(["--", "--password", "z", "--streaming"])
    ['--', '--password', '…', '--streaming']
    >>> _without_secrets(["--metrics-push=http://a:b@c", "--metrics-push", "http://a:b@c"])
    ['--metrics-push=http://…@c', '--metrics-push', 'http://…@c']
    """
    shown: list[str] = []
    hide = HIDDEN["beam_options"]
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if "--" in words[:place]:
            word = hide(word)
        elif equals and option in _OPTIONS:
            word = f"{option}={_OPTIONS[option](value)}"
        elif place and words[place - 1] in _OPTIONS:
            word = _OPTIONS[words[place - 1]](word)
        shown.append(word)
    return shown
