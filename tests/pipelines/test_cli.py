import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pipelines
import spanmarker_core
from pipelines import cli
from pipelines.cli import app, main
from pipelines.commands.examples import EXAMPLES
from spanmarker_core.shown import Panel
from tests.support.jobs import documents, slow_documents, spanmarker, tag, write_jsonl
from tests.support.processes import assert_all_end, children, finish, start, wait_for_shards


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


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_disk_that_fails_is_one_message_and_exit_code_3(monkeypatch, capsys, number):
    def fail(**_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 3
    printed = capsys.readouterr().err
    assert printed.startswith("spanmarker: [storage.failed] ")
    assert "Errno" not in printed
    assert os.strerror(number)[1:] in printed


def test_what_may_be_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(cli, "app", lambda **_: os.stat("/no/such/file"))
    with pytest.raises(FileNotFoundError):
        main()


@pytest.mark.services
@pytest.mark.timeout(120)
def test_sigterm_ends_a_run_as_ctrl_c_does(tmp_path, tiny_bundle):
    corpus, out = write_jsonl(tmp_path / "in.jsonl", slow_documents(1000)), tmp_path / "out"
    words = ["tag", "--input", corpus, "--output", out, "--model", tiny_bundle, "--max-shard-bytes", 2000]
    run = start(*words, "--metrics", tmp_path / "metrics", "--log-json", tmp_path / "log", killers=True)
    wait_for_shards(out, 1, run)
    workers = children(run.pid)
    run.send_signal(signal.SIGTERM)
    finish(run, code=143)
    assert_all_end(workers)
    assert re.search(r"^spanmarker_run_exit_code\{.*\} 143(\.0)?$", (tmp_path / "metrics").read_text(), re.MULTILINE)
    assert json.loads((tmp_path / "log").read_text().splitlines()[-1])["exit_code"] == 143
    committed = {path.stem for path in out.glob("manifest/*.json")}
    assert {path.stem for path in out.rglob("*.parquet")} == committed


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


@pytest.mark.slow
def test_threads_of_a_command_do_not_spin_while_they_wait(tmp_path):
    code = f"""
import os, sys
from pipelines import cli
sys.argv = ["spanmarker", "status", {str(tmp_path)!r}]
try:
    cli.main()
except SystemExit:
    print(os.environ["GOMP_SPINCOUNT"], "torch" in sys.modules)
"""
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.split() == ["1000", "False"]


def test_the_version_is_declared_once():
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"spanmarker {pipelines.__version__}\n")
    assert spanmarker_core.__version__ == pipelines.__version__ == pipelines.CODE_VERSION
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "spanmarker_core.__version__"}


@pytest.mark.parametrize("words", [[], ["tag"], ["evaluate"], ["status"], ["gate"], ["gate", "fit"]])
def test_help_has_a_short_name(words):
    short, long = (CliRunner().invoke(app, [*words, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.output) == (0, long.output)
    assert re.search(r"--help +-h|-h, --help", short.output)


@pytest.mark.parametrize("words", [[], ["gate"]])
def test_a_group_alone_prints_its_help_and_succeeds(words):
    alone, asked = CliRunner().invoke(app, words), CliRunner().invoke(app, [*words, "--help"])
    assert (alone.exit_code, alone.output.split()) == (0, asked.output.split())


def test_commands_are_listed_in_groups():
    _, _, text = CliRunner().invoke(app, ["--help"]).output.partition("─ Options")
    parts = ["─ Tag", " tag ", " export ", "─ Model", " train ", " convert ", "─ Share", " card ", "─ Gate", " gate "]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tga", "unknown command tga; did you mean tag? See: spanmarker --help"),
        ("tag --inptu x", "unknown option --inptu; did you mean --input? See: spanmarker tag --help"),
        ("tag --workers two", "--workers: 'two' is not a whole number. See: spanmarker tag --help"),
        ("export done --to", "--to needs a value. See: spanmarker export --help"),
        ("gate fti", "unknown command fti; did you mean fit? See: spanmarker gate --help"),
        ("compare a b c", "unexpected words: c. See: spanmarker compare --help"),
    ],
)
def test_an_invalid_command_line_is_one_message(words, said):
    done = spanmarker(*words.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"spanmarker: {said}\n")


@pytest.mark.parametrize(("words", "found"), [("tag --sent", "--sentence-breaks"), ("prep", "prepare")])
def test_a_shell_completes_commands_and_the_options_of_jobs(words, found):
    environment = {"_SPANMARKER_COMPLETE": "complete_bash", "COMP_WORDS": f"spanmarker {words}"}
    environment["COMP_CWORD"] = str(len(words.split()))
    done = CliRunner().invoke(app, [], prog_name="spanmarker", env=environment)
    assert done.output.split() == [found]


@pytest.mark.parametrize("name", [*sorted(EXAMPLES.keys() - {"fit"}), "gate fit"])
def test_help_fits_in_80_columns_and_its_examples_can_be_copied(name):
    text = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80"}).output
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    panels = [line.split("─ ")[1].split(" ─")[0] for line in lines if line.startswith("╭─ ")]
    order = ["Arguments", *Panel, "Help"]
    assert panels == sorted(panels, key=order.index)
    commands = re.sub(r" \\\n +", " ", text[text.index("Examples") :])
    for command in EXAMPLES[name.split()[-1]].values():
        assert f"   {command}\n" in commands
