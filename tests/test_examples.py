"""Every script and notebook of examples/ runs, and prints what its reader should see."""

import os
import re
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
NOTEBOOKS = ("tag_and_explore", "train_evaluate_compare")


def run(name: str, capsys, monkeypatch) -> list[str]:
    """Run a script in this process, in the root of the repository, and return the lines that it prints."""
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def start(name: str, *arguments: object) -> str:
    """Run a script in its own process, as its docstring says, and return what it prints."""
    words = [sys.executable, f"examples/{name}.py", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    return subprocess.run(
        words, cwd=ROOT, env=environment, check=True, capture_output=True, encoding="utf-8", timeout=500
    ).stdout


def test_tag_text(capsys, monkeypatch):
    lines = run("tag_text", capsys, monkeypatch)
    titles = [number for number, line in enumerate(lines) if line.endswith(":")]
    by_default, from_90, by_label = (lines[start + 1 : end] for start, end in pairwise([*titles, len(lines)]))
    assert "26 to 30 0.49 organization-company Jaws" in by_default
    assert "78 to 83 1.00 location-GPE Paris" in from_90
    assert [len(by_default), len(from_90)] == [7, 5]
    assert by_label == ["0 to 16 0.97 person-director Steven Spielberg", "55 to 67 0.85 person-politician Barack Obama"]


def test_redact_entities(capsys, monkeypatch):
    lines = run("redact_entities", capsys, monkeypatch)
    assert {"[PERSON 1] Luther", "[PERSON 4] Lucas Cranach", "[PERSON 5] William Tyndale"} <= set(lines)
    text = "\n".join(lines[: lines.index("[PERSON 1] Luther")])
    assert text.count("[PERSON 1]") == 11
    assert "woodcuts by [PERSON 4] that contained" in text
    assert "Cranach" not in text


def test_spacy_component(capsys, monkeypatch):
    lines = run("spacy_component", capsys, monkeypatch)
    assert "0.59 art-film Jaws" in lines
    assert "Paris, New York: Barack Obama flew from Paris to New York." in lines
    assert not any("It rained" in line for line in lines)


@pytest.mark.slow
def test_beam_pipeline(capsys, monkeypatch):
    lines = run("beam_pipeline", capsys, monkeypatch)
    assert {"Rejected documents: 0", "8 Mongol (location-GPE)", "3 Panthers (organization-sportsteam)"} <= set(lines)
    assert len(lines) == 9


@pytest.mark.slow
def test_evaluate_and_compare(capsys, monkeypatch):
    printed = "\n".join(run("evaluate_and_compare", capsys, monkeypatch))
    (precision, recall), (higher, lower) = re.findall(r"precision ([\d.]+)%, recall ([\d.]+)%", printed)
    assert float(precision) < float(higher)
    assert float(recall) > float(lower)
    wrong, correct = re.search(r"removes (\d+) wrong and (\d+) correct", printed).groups()
    assert int(wrong) > int(correct) > 0


@pytest.fixture(scope="module")
def tagged(tmp_path_factory) -> tuple[Path, str]:
    """The output folder of tag_a_folder.py, and what the script printed."""
    output = tmp_path_factory.mktemp("examples") / "out"
    return output, start("tag_a_folder", output)


@pytest.mark.slow
def test_tag_a_folder(tagged):
    output, printed = tagged
    assert "tagged 2 shards" in printed
    assert "7 documents = 7 tagged + 0 empty + 0 rejected; 3,755 words, 137 entities" in printed
    assert "48 location-GPE" in printed
    assert "Australia (4), Melbourne (3), Victoria (3)" in printed
    assert (output / "report.html").is_file()


@pytest.mark.slow
def test_query_with_duckdb(tagged):
    report = (tagged[0] / "report.json").read_bytes()
    rows = [re.split(r" *│ *", line.strip("│ ")) for line in start("query_with_duckdb", tagged[0]).splitlines()]
    assert ["Australia", "location-GPE", "4", "1", "0.99"] in rows
    assert ["xquad-en-06", "486", "34", "70.0"] in rows
    assert ["Australia", "Victoria", "2"] in rows
    assert (tagged[0] / "report.json").read_bytes() == report, "the documents were tagged again"


@pytest.mark.slow
def test_train_a_model():
    printed = start("train_a_model")
    assert 15 < float(re.search(r"test: F1 ([\d.]+)%", printed)[1]) < 70
    assert re.search(r"^0\.\d\d SpecificDisease .*cancer$", printed, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs_again(name, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stored = nbformat.read(EXAMPLES / f"{name}.ipynb", 4)
    again = nbformat.read(EXAMPLES / f"{name}.ipynb", 4)
    resources = {"metadata": {"path": str(EXAMPLES)}}
    NotebookClient(again, timeout=500, kernel_name="python3", resources=resources).execute()
    if name == "tag_and_explore":
        assert shown(again) == shown(stored)
    else:  # Other processors round differently, so a training ends elsewhere.
        assert len(shown(again)) == len(shown(stored))
    for notebook in (again, stored):
        check(name, "\n".join(shown(notebook)))


def check(name: str, printed: str) -> None:
    """Assert values that hold wherever a notebook runs."""
    if name == "tag_and_explore":
        assert "0.85  person-politician      Barack Obama" in printed
        assert re.search(r"│ xquad-en-06 ┆ tagged ┆ 18 +┆ 486 +┆ 34", printed)
    else:
        assert "Reachable: 73 (91.25%). Out of reach: 7 (8.75%)" in printed
        assert float(re.search(r"F1 ([+-][\d.]+) points", printed)[1]) > 5
        won, lost = re.findall(r"(\d+) gold entities are found by", printed)
        assert int(won) > int(lost)


def shown(notebook) -> list[str]:
    """Return the outputs of each cell as one text; what a cell prints may arrive in several parts."""
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(part["text"] if "text" in part else part["data"]["text/plain"] for part in cell) for cell in cells]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_is_stored_as_executed(name):
    path = EXAMPLES / f"{name}.ipynb"
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert {output.output_type for cell in code for output in cell.outputs} <= {"stream", "execute_result"}
    assert {output.get("name", "stdout") for cell in code for output in cell.outputs} == {"stdout"}
    assert path.stat().st_size < 300_000
    printed = "\n".join(shown(notebook))
    assert not re.search(r"(?<![\w.])/(tmp|home|root|usr|work|Users)/", printed)
    assert not any(cell.metadata for cell in notebook.cells), "cells have timestamps or other metadata"


def test_every_example_is_run_and_listed():
    found = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    scripts = {f"{name.removeprefix('test_')}.py" for name in globals() if name.startswith("test_")}
    assert found - scripts == {f"{name}.ipynb" for name in NOTEBOOKS}
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(.+?)\]\((.+?)\) \|", page, re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(target for _, target in listed) == sorted(found)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_script_is_short_and_described(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 70
    assert re.search(r"\bPrints\b", path.read_text(encoding="utf-8").split('"""')[1])
