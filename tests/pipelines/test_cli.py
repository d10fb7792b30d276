import resource
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from pipelines.cli import app, main
from tests.pipelines.helpers import documents, tag, write_jsonl


def test_help_is_quick():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import sys; sys.argv = ['spanmarker', '--help']\nfrom pipelines.cli import main\ntry: main()\n"
    code += "finally: assert not {'torch', 'transformers', 'pyarrow'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tag" in done.stdout
    assert "status" in done.stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time, which other work on the machine hardly changes: about half a second.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


def test_a_fault_is_one_message_and_exit_code_1(monkeypatch, capsys, tmp_path, tiny_bundle):
    arguments = ["tag", "--input", f"{tmp_path}/*.parquet", "--output", f"{tmp_path}/out", "--model", str(tiny_bundle)]
    monkeypatch.setattr(sys, "argv", ["spanmarker", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert capsys.readouterr().err.startswith("spanmarker: [input.no_match] ")


def test_unknown_option_is_exit_code_2():
    assert CliRunner().invoke(app, ["tag", "--nonsense"]).exit_code == 2


def test_status_counts_done_left_and_rejected(tmp_path, tiny_bundle):
    write_jsonl(tmp_path / "in.jsonl", [*documents(30), {"id": "n", "text": None}])
    tag([tmp_path / "in.jsonl"], tmp_path / "out", tiny_bundle, max_shard_bytes=1000)
    entries = sorted((tmp_path / "out" / "manifest").iterdir())
    entries[0].unlink()
    result = CliRunner().invoke(app, ["status", str(tmp_path / "out")])
    assert f"{len(entries) - 1} done, 1 left" in result.stdout
    assert "rejected, null_text: 1" in result.stdout
    assert entries[1].stem in result.stdout


def test_status_of_no_output(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["spanmarker", "status", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert "output.not_a_job" in capsys.readouterr().err
