"""Calibration and the threshold curve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.evaluation.scores.calibration import Calibration
from spanmarker_core.evaluation.scores.curves import ThresholdCurve
from spanmarker_core.spans.decoding import DECODERS, Candidates, decode


def test_expected_calibration_error_by_hand():
    calibration = Calibration()
    calibration.add([0.05, 0.31, 0.39], [False, True, False])
    calibration.add([1.0, 0.9], [True, True])
    values = calibration.to_json()
    filled = [(each["from"], each["predictions"], each["correct"]) for each in values["bins"] if each["predictions"]]
    assert filled == [(0.0, 1, 0), (0.3, 2, 1), (0.9, 2, 2)]
    # |0.05 - 0| / 5 + 2 |0.35 - 0.5| / 5 + 2 |0.95 - 1| / 5
    assert values["expected_calibration_error"] == pytest.approx((0.05 + 0.3 + 0.1) / 5)


def test_nothing_has_no_calibration_error():
    calibration = Calibration()
    calibration.add([], [])
    assert calibration.to_json()["expected_calibration_error"] is None


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=30))
def test_bins_hold_every_prediction(drawn):
    calibration = Calibration()
    calibration.add([score for score, _ in drawn], [correct for _, correct in drawn])
    values = calibration.to_json()
    assert sum(each["predictions"] for each in values["bins"]) == len(drawn)
    assert sum(each["correct"] for each in values["bins"]) == sum(correct for _, correct in drawn)
    for each in values["bins"]:
        if each["predictions"]:
            assert each["from"] - 1e-9 <= each["mean_score"] <= each["to"] + 1e-9


CANDIDATES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(0, 1), st.integers(0, 10), st.booleans()),
    max_size=12,
    unique_by=lambda drawn: drawn[:3],
)


@pytest.mark.parametrize("decoder", DECODERS)
@given(CANDIDATES)
def test_one_decoding_holds_the_whole_curve(decoder, drawn):
    """At each threshold the curve counts what is decoded from the candidates that pass it."""
    drawn = sorted(drawn)
    columns = np.array([each[:4] for each in drawn], np.int32).reshape(-1, 4)
    zero, none = np.zeros(len(drawn), np.int32), np.full(len(drawn), -1, np.int64)
    start, end, label = columns[:, 0], columns[:, 0] + columns[:, 1], columns[:, 2]
    score = (columns[:, 3] / 10).astype(np.float32)
    candidates = Candidates(zero, zero, zero, start, end, none, none, label, score)
    gold = {(each[0], each[0] + each[1], each[2]) for each in drawn if each[4]}

    def keys(found):
        return list(zip(found.word_start.tolist(), found.word_end.tolist(), found.label.tolist(), strict=True))

    thresholds = [0.1, 0.35, 0.5, 0.7, 1.0]
    whole = decode(candidates, decoder)
    curve = ThresholdCurve(thresholds)
    curve.add(len(gold), whole.score.tolist(), [key in gold for key in keys(whole)])
    for point in curve.points():
        passing = candidates.take(np.flatnonzero(candidates.score >= np.float64(point.threshold)))
        found = keys(decode(passing, decoder))
        assert (point.predicted, point.correct) == (len(found), len(gold.intersection(found)))


def test_the_best_of_equal_points_is_the_lowest():
    curve = ThresholdCurve([0.2, 0.4, 0.6])
    curve.add(1, [0.5, 0.1], [True, False])
    assert curve.best().threshold == 0.2
    assert curve.best().f1 == 1


def test_nothing_at_all_scores_0():
    curve = ThresholdCurve()
    assert len(curve.points()) == 99
    assert {(point.precision, point.recall, point.f1) for point in curve.points()} == {(0, 0, 0)}
