"""What a training is advised, and where it is not."""

import pytest

from spanmarker_core.evaluation.scores.reach import LengthReport
from spanmarker_core.training.data_warnings import GATE_PAYS, SHORTER_LEAVES, SHORTER_REACHES, TUNING_PAYS, advice
from spanmarker_core.training.settings import TrainingSettings

SETTINGS = TrainingSettings(entity_max_length=8, tune_threshold=True)


def report(entities, sentences=100):
    return LengthReport(8, {25: sentences}, {1: entities}, {}, None)


def test_the_gate_is_advised_where_it_was_measured_to_pay():
    spans = report(1).spans(8)
    most = int(spans // GATE_PAYS)
    assert "--gate" in advice(report(most), SETTINGS)
    assert "with 250 and 500 sentences; with thousands" in advice(report(most), SETTINGS)
    assert f"There are {spans / most:,.0f} candidate spans" in advice(report(most), SETTINGS)
    assert "--gate" not in advice(report(most + 1), SETTINGS)


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
    assert "--gate" not in advice(report(10), SETTINGS.replace(**settings))


def many(lengths, limit=8):
    """So many entities that the gate is no matter."""
    return LengthReport(limit, {25: 100}, lengths, {}, None)


def test_fewer_and_cheaper_markers_are_advised_where_the_gate_is_not():
    at_least = round(1000 * SHORTER_REACHES)
    data = many({2: 500, 3: at_least - 500, 8: 1000 - at_least})
    length, pairing = advice(data, SETTINGS).splitlines()
    # Of 25 words 25 + 24 + 23 spans have up to 3, and 172 up to 8.
    assert "--entity-max-length 3. It reaches 95% of the entities with 0.42 of the" in length
    assert "--pair-layers 1." in pairing
    assert advice(data, SETTINGS.replace(entity_max_length=3)) == pairing
    assert advice(data, SETTINGS.replace(pair_layers=1)) == length
    one_less = many({2: 500, 3: at_least - 501, 8: 1001 - at_least})
    assert advice(one_less, SETTINGS) == pairing
    # 220 of 234 spans are hardly fewer.
    assert SHORTER_LEAVES < 220 / 234
    assert advice(many({11: 1000}, 12), SETTINGS.replace(entity_max_length=12)) == pairing


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({"architecture": "span_ner.v1"}, 0),  # no markers
        ({"architecture": "dspert.v1"}, 0),
        ({"architecture": "pl_marker.v1"}, 1),  # all of its layers pair
        ({"options": {"attention": "no_partner"}}, 1),
        ({"options": {"tags": "crf", "output": "tags"}}, 0),
        ({"gate": True}, 0),
    ],
)
def test_markers_are_the_business_of_models_that_have_them(settings, lines):
    assert len(advice(many({1: 10_000}), SETTINGS.replace(**settings)).splitlines()) == lines


def test_longer_entities_than_the_limit_count_for_nothing():
    assert advice(LengthReport(8, {25: 100}, {9: 10}, {}, None), SETTINGS) == ""


def test_a_tuned_threshold_is_advised_where_there_are_few_sentences():
    untuned = SETTINGS.replace(tune_threshold=False)
    few, more = report(10, TUNING_PAYS), report(10, TUNING_PAYS + 1)
    assert advice(few, untuned).splitlines() == [
        *advice(few, SETTINGS).splitlines(),
        advice(few, untuned).splitlines()[-1],
    ]
    assert advice(few, untuned).splitlines()[-1].startswith("Recommended: --tune-threshold. ")
    assert advice(more, untuned) == advice(more, SETTINGS)
    assert "--tune-threshold" not in advice(few, untuned.replace(architecture="seq_ner.v1"))
    assert "--tune-threshold" in advice(few, untuned.replace(gate=True))
