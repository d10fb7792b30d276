"""The examples of docs/how-to/library.md run as they stand, one after the other."""

import re
import shutil
import warnings
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "library.md"


def test_examples_run(tiny_bundle, tmp_path, monkeypatch, capsys):
    import spanmarker_core.integrations.spacy  # noqa: F401  # where the project is not installed, this registers it

    shutil.copytree(tiny_bundle, tmp_path / "bundle")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for number, block in enumerate(blocks):
            if not block.startswith("# needs the hub"):
                exec(compile(block, f"{PAGE.name}, example {number}", "exec"), names)
    assert len(blocks) > 7
    printed = capsys.readouterr().out
    assert "context.differs [context.differs] " in printed
    assert "context 'document'" in printed
    assert (tmp_path / "copy" / "model.safetensors").is_file()
