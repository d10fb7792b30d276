"""Draw the picture of a terminal that the README shows, from what the commands really print.

    python docs/pictures.py

The commands run with the bundled model on the sample corpus, which takes about a minute, in a folder that the picture
calls /data. docs/screenshots.py draws the pictures of pages.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

DOCS = Path(__file__).parent
ROOT = DOCS.parent
COLUMNS = 112
COMMANDS = (
    'spanmarker tag --text "Manchester United beat Barcelona at Wembley Stadium in London."',
    "spanmarker tag --input 'infra/demo/*.parquet' --input 'infra/demo/*.jsonl' --output demo-out/",
)
#: The fonts of rich's picture come from a server, which neither the page of a repository nor we ask for anything.
SVG_FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
#: Progress, which a terminal shows in a bar that disappears at the end, and the speed of the machine that draws.
LEFT_OUT = re.compile(r"^.*(?: elapsed\b|\bwords/s$).*\n", re.MULTILINE)


def printed(command: str, folder: Path) -> Text:
    """Run a command and return what stays on the screen, with its colours.

    Args:
        command: a command line of `spanmarker`.
        folder: where to run it.

    Raises:
        CalledProcessError: the command failed.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "COLUMNS": str(COLUMNS)}
    if "--text" in command:  # It shows no bar, which would be drawn over and over in what we read.
        environment["FORCE_COLOR"] = "1"
    words = [sys.executable, "-m", "pipelines.cli", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return Text.from_ansi(LEFT_OUT.sub("", done.stdout).replace(str(folder), "/data").rstrip())


def main() -> None:
    """Write images/terminal.svg."""
    with tempfile.TemporaryDirectory() as temporary, open(os.devnull, "w", encoding="utf-8") as nowhere:
        folder = Path(temporary).resolve()
        (folder / "infra").symlink_to(ROOT / "infra")
        console = Console(record=True, file=nowhere, width=COLUMNS)
        for number, command in enumerate(COMMANDS):
            if number:
                console.print()
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=False)
            console.print(printed(command, folder), highlight=False)
        svg = console.export_svg(title="spanmarker", theme=MONOKAI, code_format=SVG_FORMAT, unique_id="terminal")
        # So that the picture changes only with its contents: rich ends lines with spaces.
        lines = [line.rstrip() for line in svg.splitlines()]
        (DOCS / "images" / "terminal.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
