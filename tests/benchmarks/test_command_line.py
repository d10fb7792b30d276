"""What is wrong with the command line is said in a line, before any work."""

import sys

import pytest

from benchmarks.__main__ import main
from tests.support.tiny import tiny_bundle


def said(monkeypatch, capsys, *arguments):
    """Exit status and last line of a command line that is refused."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    if isinstance(caught.value.code, str):  # which Python prints, with status 1
        return 1, caught.value.code
    return caught.value.code, capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("option", ["--sentences", "--rounds", "--threads", "--window", "--train-sentences"])
@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_counts_are_whole_and_positive(monkeypatch, capsys, option, value):
    status, line = said(monkeypatch, capsys, option, value)
    assert (status, line.endswith(f"argument {option}: {value!r} is not a whole number of 1 or more")) == (2, True)


@pytest.mark.parametrize("value", ["path", "=path", "name="])
def test_a_bundle_has_a_name_and_a_path(monkeypatch, capsys, value):
    status, line = said(monkeypatch, capsys, "--bundle", value)
    assert (status, line.endswith(f"{value!r} is not NAME=PATH or NAME=PATH:GATE")) == (2, True)


def test_what_is_not_there_is_refused_before_any_work(monkeypatch, capsys, tmp_path):
    bundle, output = tiny_bundle(tmp_path / "bundle"), tmp_path / "out"
    for arguments, says in (
        (("--model", tmp_path), "[bundle.not_found]"),
        (("--model", bundle, "--bundle", f"other={tmp_path}"), "[bundle.not_found]"),
        (("--model", bundle, "--bundle", f"other={bundle}:on"), "[call.no_gate]"),
        (("--model", bundle, "--python", tmp_path / "python"), "is not a program"),
        (("--model", bundle, "--digitalgov", tmp_path / "none"), "does not exist"),
        (("table",), "does not exist: name the --output of an earlier run"),
    ):
        status, line = said(monkeypatch, capsys, "--output", output, *arguments)
        assert (status, says in line, "\n" in line) == (1, True, False)
    assert not output.exists()
