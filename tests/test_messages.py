"""All messages of errors and warnings, as one text to review: `messages.txt` beside this file.

Write the file again after a change to a message, and read its difference:

    python -m tests.test_messages
"""

import string
from pathlib import Path

import pytest

from pipelines.errors import PipelineError
from spanmarker_core.errors import CoreError, CoreWarning

SNAPSHOT = Path(__file__).with_name("messages.txt")
KINDS = (CoreError, CoreWarning, PipelineError)
#: Values that need another type than text, since the message formats them as numbers.
NUMBERS = {",": 12345, "04X": 0xD83D}


def example(template: str) -> dict[str, object]:
    """A value for each placeholder of a message: its own name, or a number where the format needs one."""
    found: dict[str, object] = {}
    for _, name, form, _ in string.Formatter().parse(template):
        if name is not None:
            found[name] = NUMBERS[form] if form else f"<{name}>"
    return found


def snapshot() -> str:
    """Each message with example values, in the order of the tables."""
    messages = [str(kind(code, **example(text))) for kind in KINDS for code, text in kind.MESSAGES.items()]
    return "\n\n".join(messages) + "\n"


def test_messages_are_as_reviewed():
    assert SNAPSHOT.read_text(encoding="utf-8") == snapshot(), "run: python -m tests.test_messages"


@pytest.mark.parametrize("kind", KINDS)
def test_codes_name_an_area_and_a_problem(kind):
    for code in kind.MESSAGES:
        area, _, problem = code.partition(".")
        assert area.isidentifier()
        assert problem.isidentifier()


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot(), encoding="utf-8")
