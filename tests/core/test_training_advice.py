"""What a training is advised, and where it is not."""

from dataclasses import replace

import pytest

from spanmarker_core.evaluation.reach import LengthReport
from spanmarker_core.training.advice import GATE_PAYS, advice
from spanmarker_core.training.settings import TrainingSettings

SETTINGS = TrainingSettings(entity_max_length=8)


def report(entities, sentences=100):
    return LengthReport(8, {25: sentences}, {1: entities}, {}, None)


def test_the_gate_is_advised_where_it_was_measured_to_pay():
    spans = report(1).spans(8)
    most = int(spans // GATE_PAYS)
    assert "--gate" in advice(report(most), SETTINGS)
    assert "with 500 sentences, and from 4 points lower" in advice(report(most), SETTINGS)
    assert f"There are {spans / most:,.0f} candidate spans" in advice(report(most), SETTINGS)
    assert advice(report(most + 1), SETTINGS) == ""


@pytest.mark.parametrize(
    "settings",
    [
        {"gate": True},
        {"architecture": "seq_ner.v1"},  # tags choose no spans
        {"options": {"tags": "crf", "output": "tags"}},
        {"options": {"attention": "all_markers"}},  # markers see each other
    ],
)
def test_the_gate_is_not_advised_where_there_is_one_or_can_be_none(settings):
    assert advice(report(10), replace(SETTINGS, **settings)) == ""


def test_longer_entities_than_the_limit_count_for_nothing():
    assert advice(LengthReport(8, {25: 100}, {9: 10}, {}, None), SETTINGS) == ""
