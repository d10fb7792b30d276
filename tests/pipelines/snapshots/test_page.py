"""The code of docs/how-to/tables.md runs as it stands over the output of a real run."""

import re
from pathlib import Path

import pytest

from tests.support.jobs import documents, tag, write_jsonl

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "tables.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("form", "snippet"), list(zip(["delta", "iceberg"], SNIPPETS, strict=True)))
def test_the_code(form, snippet, tmp_path, tiny_bundle, monkeypatch, capsys):
    tag([write_jsonl(tmp_path / "a.jsonl", documents(5))], tmp_path / "out", tiny_bundle, commit=form)
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, str(PAGE), "exec"), {})
    printed = capsys.readouterr().out
    assert re.search(r"^(0 )?1$", printed, re.MULTILINE)
    assert "label" in printed
