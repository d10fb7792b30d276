"""Runs the snippets of a page of the documentation, one after the other, as a reader would.

A fenced block of the language `console` holds commands (lines that begin with "$ ", continued after a backslash) and
what they print; `python` and `sql` blocks are followed by an `output` block if what they print is shown. A comment
above a block says what is special about it:

    <!-- not run: REASON -->           it needs something that tests don't have; its options are checked all the same
    <!-- output varies: REASON -->     it is run, and its output is not compared
    <!-- exits with 4 -->              its last command ends with this code

The commands of `spanmarker` run in this process, with an engine that starts no workers.

To renew the outputs in a page after the program's output has changed, or to write them where the page has "…":

    python -m tests.test_docs docs/tutorials/tag-a-bucket.md
"""

import contextlib
import glob
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow.parquet as pq

from tests.support.jobs import spanmarker
from tests.support.tiny import tiny_encoder, tiny_tokenizer
from tests.support.training import write_encoder

ROOT = Path(__file__).parents[2]
#: Stands for an output that was not written yet.
WANTED = "…"
#: The page's folder in its outputs.
SHOWN_FOLDER = "/data"
#: Lines of progress, of which a busy machine prints more.
_PROGRESS = re.compile(r"\s*\d+ ?%, ")
_BLOCK = re.compile(
    r"(?m)^(?P<indent> *)(?:<!-- (?P<note>(?:not run|output varies|exits with)\b[^\n]*?) -->\n+(?P=indent))?"
    r"```(?P<language>console|python|sql)\n(?P<code>.*?)^(?P=indent)```$"
    r"(?:\n+^(?P=indent)```output\n(?P<output>.*?)^(?P=indent)```$)?",
    re.DOTALL,
)


@dataclass
class Block:
    """A fenced block of a page.

    Attributes:
        language: console, python or sql.
        code: its lines; of a console block with the outputs.
        output: what it is followed by, or None.
        note: the comment above it, or "".
        span: where it is in the page.
    """

    language: str
    code: str
    output: str | None
    note: str
    span: tuple[int, int]

    @property
    def skipped(self) -> bool:
        return self.note.startswith("not run")

    @property
    def compared(self) -> bool:
        return not self.note.startswith(("not run", "output varies"))

    @property
    def exit_code(self) -> int:
        found = re.match(r"exits with (\d+)", self.note)
        return int(found[1]) if found else 0

    def commands(self) -> list[tuple[str, str]]:
        """(command, output) of a console block.

        >>> Block("console", "$ a \\\\\\n  b\\nx\\n$ c\\n", None, "", (0, 0)).commands()
        [('a \\\\\\n  b', 'x\\n'), ('c', '')]
        """
        parts = re.findall(r"(?ms)^\$ ((?:[^\n]*\\\n)*[^\n]*)\n(.*?)(?=^\$ |\Z)", self.code)
        return [(command, output) for command, output in parts]


def pages() -> list[Path]:
    """All pages that people wrote."""
    written = [path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "generated"} & set(path.parts)]
    return [ROOT / "README.md", *sorted(written)]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that hold code."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], textwrap.dedent(found["code"]), found["output"], found["note"] or "", found.span())
        for found in _BLOCK.finditer(text)
    ]


def make_folder(folder: Path) -> None:
    """Write what the pages assume: a corpus, its rows, annotated data, a bundle and an encoder.

    docs/                     4 documents: speeches.jsonl, wikipedia.parquet
    out/, demo-out/           their rows, tagged with the bundled model
    train, dev, test .jsonl   annotated sentences
    bundle/, encoder/         the bundled model, and a tiny encoder for trainings
    infra/                    that of the project

    Args:
        folder: a new folder.
    """
    demo, data = ROOT / "infra" / "demo", ROOT / "infra" / "models" / "bundled" / "data"
    (folder / "docs").mkdir(parents=True)
    speeches = (demo / "speeches.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "docs" / "speeches.jsonl").write_text("".join(speeches[:2]), encoding="utf-8")
    pq.write_table(pq.read_table(demo / "wikipedia.parquet").slice(1, 2), folder / "docs" / "wikipedia.parquet")
    for name, n_sentences in (("train", 24), ("dev", 8), ("test", 20)):
        lines = (data / f"{name}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / f"{name}.jsonl").write_text("".join(lines[:n_sentences]), encoding="utf-8")
    write_encoder(
        folder / "encoder", model=tiny_encoder("bert", tiny_tokenizer("bert").get_vocab_size(), positions=300)
    )
    bundled = ROOT / "spanmarker_core" / "default_model"
    shutil.copytree(bundled, folder / "bundle", ignore=shutil.ignore_patterns("__*", "model.safetensors"))
    (folder / "bundle" / "model.safetensors").symlink_to(bundled / "model.safetensors")
    (folder / "infra").symlink_to(ROOT / "infra")
    with as_reader(folder):
        made = spanmarker("tag", "--input", "docs/", "--output", "out/")
    assert made.returncode == 0, made.stderr
    shutil.copytree(folder / "out", folder / "demo-out")


@contextlib.contextmanager
def as_reader(folder: Path) -> Iterator[None]:
    """Work in a folder, with the installed command on the path and an engine without workers."""
    from pipelines.engines import ENGINES

    bin_folder = str(Path(sys.executable).parent)
    environment = {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, environment),
        mock.patch.dict(ENGINES, local="tests.support.inline_engine"),
        mock.patch("torch.set_num_threads"),  # Other tests run beside this one.
    ):
        yield


def run(block: Block, names: dict[str, object], where: str) -> list[str]:
    """Run a block in the current folder, and return the output of each command or of the whole code.

    Args:
        block: the block.
        names: names that the page's Python code has defined.
        where: description of the block, for errors.
    """
    if block.language != "console":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if block.language == "sql":
                import duckdb

                print(duckdb.sql(block.code))
            else:
                exec(compile(block.code, where, "exec"), names)
        return [_shown(printed.getvalue())]
    outputs, commands = [], block.commands()
    for number, (command, _) in enumerate(commands):
        done = _run_command(command)
        expected = block.exit_code if number == len(commands) - 1 else 0
        text = _shown(done.stdout + done.stderr)
        assert done.returncode == expected, f"{where}: {command}\nended with {done.returncode}:\n{text}"
        outputs.append(text)
    return outputs


def _run_command(command: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if words[0] == "spanmarker" and not re.search(r"[|<>;&]", re.sub(r"'[^']*'|\"[^\"]*\"", "", command)):
        quoted = re.findall(r"'([^']*)'", command)
        found = ([] if word in quoted else sorted(glob.glob(word)) for word in words[1:])
        given = [each for word, paths in zip(words[1:], found, strict=True) for each in paths or [word]]
        return spanmarker(*given, columns=100)
    environment = os.environ | {"COLUMNS": "100", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, check=False)


def _shown(text: str) -> str:
    """Return an output as pages show it: with their folder, and without lines of progress or spaces at the ends."""
    here, lines = str(Path.cwd()), text.strip("\n").splitlines()
    longer = len(here) - len(SHOWN_FOLDER)
    for number, following in enumerate(lines[1:]):
        if here in following and here not in lines[number]:  # The heading of the paths is as wide as they were.
            lines[number] = re.sub(rf" {{{longer}}}(?=  )", "", lines[number], count=1)
    return "".join(f"{line.replace(here, SHOWN_FOLDER).rstrip()}\n" for line in lines if not _PROGRESS.match(line))


def masked(text: str) -> list[str]:
    """Return the lines of an output without what changes from run to run: numbers, digests, columns' widths.

    >>> masked("a  1,234 words\\n12.3 s\\n")
    ['a # words', '# s']
    """
    text = re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b|\d[\d.,:]*", "#", text)
    return [line for row in text.splitlines() if (line := re.sub(r"[\s─━┃│╭╮╰╯┌┐└┘├┤┬┴┼-]+", " ", row).strip())]


def renewed(page: Path, folder: Path) -> str:
    """Run a page and return its text with what its blocks print now.

    Args:
        page: the page.
        folder: a copy of what `make_folder` writes.
    """
    text, names = page.read_text(encoding="utf-8"), {}
    found = blocks(page)
    with as_reader(folder):
        outputs = [None if block.skipped else run(block, names, page.name) for block in found]
    for block, printed in reversed(list(zip(found, outputs, strict=True))):
        wanted = WANTED in (block.output or "") or f"\n{WANTED}\n" in block.code
        if printed is None or not (block.compared or wanted):
            continue
        old = text[slice(*block.span)]
        if block.language == "console":
            if not any(output for _, output in block.commands()):
                continue  # The page shows none.
            pairs = zip(block.commands(), printed, strict=True)
            new = "".join(f"$ {command}\n{output}" for (command, _), output in pairs)
            new = old.replace(f"```console\n{block.code}", f"```console\n{new}")
        elif block.output is not None:
            new = old.replace(f"```output\n{block.output}", f"```output\n{printed[0]}")
        else:
            continue
        text = text[: block.span[0]] + new + text[block.span[1] :]
    return text
