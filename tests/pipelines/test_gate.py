"""Tagging and scoring with a gate: exact without it, told where it is used."""

import json

import pytest

from spanmarker_core.errors import CoreError
from tests.pipelines.helpers import all_rows, documents, rows, tag, write_jsonl
from tests.pipelines.test_commands import SENTENCE, spanmarker
from tests.tiny import GATE, tiny_bundle


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    """The tiny bundle with a gate beside it, which is only used when asked for."""
    return tiny_bundle(tmp_path_factory.mktemp("gated") / "bundle", gate=GATE)


@pytest.fixture
def corpus(tmp_path):
    return write_jsonl(tmp_path / "in.jsonl", documents(20))


@pytest.fixture
def data(tmp_path):
    return write_jsonl(tmp_path / "data.jsonl", [SENTENCE])


def test_without_its_gate_a_bundle_gives_the_same_rows(corpus, tmp_path, tiny_bundle, gated):
    tag([corpus], tmp_path / "plain", tiny_bundle)
    for gate in ("auto", "off"):
        tag([corpus], tmp_path / gate, gated, gate=gate)
        assert all_rows(tmp_path / gate) == all_rows(tmp_path / "plain")


def test_with_its_gate_it_scores_fewer_spans_and_says_so(corpus, tmp_path, gated):
    tag([corpus], tmp_path / "off", gated)
    tag([corpus], tmp_path / "on", gated, gate="on")
    work = {gate: json.loads((tmp_path / gate / "report.json").read_text())["output"]["work"] for gate in ("off", "on")}
    assert work["off"]["scored_share"] == 1.0
    assert work["off"]["scored_candidates"] == work["on"]["candidates"] > work["on"]["scored_candidates"] > 0
    assert work["on"]["tokens"] == work["off"]["tokens"] <= work["on"]["token_places"]
    assert 0 < work["on"]["useful_token_share"] <= 1
    assert len(rows(tmp_path / "on", "annotations")) < len(rows(tmp_path / "off", "annotations"))
    page = (tmp_path / "on" / "report.md").read_text()
    assert f"{work['on']['scored_share']:.2%}; a gate turns the others away" in page
    assert "| gate | on from 0.5 |" in page


def test_a_gate_that_is_not_there_is_refused_before_anything_is_written(corpus, tmp_path, tiny_bundle):
    with pytest.raises(CoreError, match=r"call.no_gate"):
        tag([corpus], tmp_path / "out", tiny_bundle, gate="on")
    assert not (tmp_path / "out").exists()


def test_evaluate_takes_gate_and_dtype(gated, data, tmp_path):
    options = ("--gate", "on", "--dtype", "bfloat16", "--report", tmp_path)
    done = spanmarker("evaluate", "--model", gated, "--data", data, *options)
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))["facts"]
    assert (facts["gate"], facts["dtype"]) == ("on from 0.5", "bfloat16")
    scored, _, total, _ = facts["scored_spans"].split()
    assert int(scored) < int(total)


def test_evaluate_refuses_a_gate_that_is_not_there(tiny_bundle, data):
    done = spanmarker("evaluate", "--model", tiny_bundle, "--data", data, "--gate", "on")
    assert (done.returncode, done.stderr.split("]")[0]) == (1, "spanmarker: [call.no_gate")
