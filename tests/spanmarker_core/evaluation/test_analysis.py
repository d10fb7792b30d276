"""The parts of a report agree with each other, whatever is scored; and stay small, whatever the text."""

import json
from collections import Counter

from hypothesis import given

from spanmarker_core.data import Sentence
from spanmarker_core.evaluation.markdown import details_to_markdown
from spanmarker_core.evaluation.scores.analysis import Analysis, Setting
from spanmarker_core.evaluation.scores.attributes import TrainingForms
from spanmarker_core.evaluation.scores.error_kinds import KINDS
from spanmarker_core.evaluation.scores.examples import EXAMPLES, Marked, in_context
from spanmarker_core.text.tag_schemes import Span
from tests.spanmarker_core.evaluation.drawn import evaluated


def analysed(data, training=None, **setting):
    analysis = Analysis(Setting(**setting), None if training is None else TrainingForms.of(training))
    for sentence, predictions in data:
        analysis.add(sentence, predictions)
    return analysis


def sums(groups):
    return [sum(group[name] for group in groups) for name in ("support", "predicted", "correct")]


@given(evaluated(), evaluated())
def test_every_part_adds_up_to_the_whole(data, training):
    analysis = analysed(data, [sentence for sentence, _ in training])
    micro, values = analysis.result().micro, analysis.to_json()
    total = [micro.support, micro.predicted, micro.correct]
    assert sums(values["structure"]["groups"].values()) == total
    assert sums(values["surface_forms"]["groups"].values()) == total
    for name in ("eLen", "tLen", "eCon", "eDen", "oDen"):
        assert sums(values["attributes"][name]["buckets"]) == total
    assert sum(each["predictions"] for each in values["calibration"]["bins"]) == micro.predicted
    assert sum(each["correct"] for each in values["calibration"]["bins"]) == micro.correct
    assert sum(values["errors"]["false"].values()) == micro.predicted - micro.correct
    assert sum(values["errors"]["missed"].values()) == micro.support - micro.correct
    assert values["cross_checks"]["semeval_2013"]["strict"]["f1"] == micro.f1
    chosen = values["threshold_curve"]["chosen"]
    assert (chosen["precision"], chosen["recall"], chosen["f1"]) == (micro.precision, micro.recall, micro.f1)
    assert values["data"]["entities"] == micro.support
    kept = Counter({kind: len(each) for kind, each in values["examples"].items()})
    for kind in KINDS:
        side = "missed" if kind == "missed" else "false"
        assert kept[kind] == min(EXAMPLES, values["errors"][side][kind])
    json.dumps(values, allow_nan=False)
    assert details_to_markdown(values).startswith("## Errors\n")


@given(evaluated())
def test_the_order_of_entities_changes_nothing(data):
    turned = [
        (
            Sentence(sentence.document_id, sentence.sentence_id, sentence.words, sentence.entities[::-1]),
            dict(reversed(found.items())),
        )
        for sentence, found in data
    ]
    first, second = analysed(data).to_json(), analysed(turned).to_json()
    assert json.dumps(first) == json.dumps(second)


def test_without_training_data_it_says_what_is_missing():
    data = [(Sentence("d", 0, ["Ann"], [Span(0, 1, "PER")]), {Span(0, 1, "PER"): 0.9})]
    values = analysed(data).to_json()
    missing = values["surface_forms"]["missing"]
    assert "--train" in missing
    assert values["unknown_words"] == {"missing": missing}
    assert {name for name, each in values["attributes"].items() if "missing" in each} == {"eCon", "oDen"}
    assert missing in details_to_markdown(values)


def test_with_training_data_it_tells_seen_from_unseen():
    training = [Sentence("t", 0, ["Ann", "left", "York"], [Span(0, 1, "PER"), Span(2, 3, "LOC")])]
    sentence = Sentence("d", 0, ["Ann", "and", "York", "left", "Rome"], [Span(0, 1, "PER"), Span(2, 3, "ORG")])
    values = analysed([(sentence, {Span(0, 1, "PER"): 0.9, Span(4, 5, "LOC"): 0.5})], training).to_json()
    groups = values["surface_forms"]["groups"]
    assert {name: sums([group]) for name, group in groups.items()} == {
        "seen": [1, 1, 1],
        "other_label": [1, 0, 0],
        "unseen": [0, 1, 0],
    }
    assert (values["unknown_words"]["unknown"], values["unknown_words"]["density"]) == (2, 2 / 5)


def test_each_attribute_counts_in_its_bucket():
    """One gold entity of 40 words is a density of 0.025; three predictions of other words change nothing in it."""
    gold, wrong = Span(0, 1, "PER"), [Span(2, 3, "PER"), Span(4, 6, "PER"), Span(7, 12, "PER")]
    long = Sentence("a", 0, ["Ann", *(f"w{number}" for number in range(39))], [gold])
    short = Sentence("b", 0, ["Ann", *["known"] * 6], [gold])  # seven words, one of them an entity
    training = [Sentence("t", 0, ["Ann", *(f"w{number}" for number in range(34)), "known"], [gold])]
    data = [(long, dict.fromkeys(wrong, 0.5)), (short, {gold: 0.9})]
    attributes = analysed(data, training).to_json()["attributes"]
    counted = {
        name: {each["bucket"]: (each["support"], each["predicted"]) for each in attributes[name]["buckets"]}
        for name in ("eLen", "tLen", "eCon", "eDen", "oDen")
    }
    assert counted == {
        "eLen": {"XS": (2, 2), "S": (0, 1), "L": (0, 0), "XL": (0, 1)},
        "tLen": {"XS": (1, 1), "S": (0, 0), "L": (0, 0), "XL": (1, 3)},
        "eCon": {"XS": (0, 3), "S": (0, 0), "L": (0, 0), "XL": (2, 1)},
        "eDen": {"XS": (0, 0), "S": (1, 3), "L": (0, 0), "XL": (1, 1)},
        "oDen": {"XS": (1, 1), "S": (0, 0), "L": (1, 3), "XL": (0, 0)},
    }


def test_no_predictions_and_no_gold():
    data = [(Sentence("d", 0, ["a", "b"], []), {}), (Sentence("d", 1, ["c"], []), {})]
    values = analysed(data, [data[0][0]]).to_json()
    assert values["errors"]["boundary_error_rate"] == 0
    assert values["calibration"]["expected_calibration_error"] is None
    assert values["examples"] == {}
    assert values["confusion"] == values["confusion"] | {"labels": [None], "counts": [[0]]}
    assert details_to_markdown(values)


def test_a_threshold_that_the_curve_can_not_show():
    values = analysed([], threshold={"PER": 0.5}).to_json()["threshold_curve"]
    assert (values["chosen"]["threshold"], values["chosen"]["words"]) == (None, "one threshold per label")
    tagged = analysed([], tags=True).to_json()
    assert tagged["threshold_curve"]["chosen"]["words"] == "no threshold: all entities from the tags"
    assert "a lower one adds none" in details_to_markdown(tagged)
    assert analysed([], threshold=0.5).to_json()["threshold_curve"]["chosen"]["words"] == "threshold 0.5"


def test_the_curve_counts_what_a_lower_threshold_would_give():
    sentence = Sentence("d", 0, ["Ann", "in", "York"], [Span(0, 1, "PER"), Span(2, 3, "LOC")])
    analysis = Analysis(Setting())
    analysis.add(sentence, {Span(0, 1, "PER"): 0.9}, {Span(0, 1, "PER"): 0.9, Span(2, 3, "LOC"): 0.3})
    curve = analysis.to_json()["threshold_curve"]
    assert curve["chosen"]["recall"] == 0.5
    assert (curve["best_on_this_data"]["threshold"], curve["best_on_this_data"]["recall"]) == (0.01, 1)


def test_examples_are_short_whatever_the_words_are():
    words = ["x" * 1_000_000, *["w"] * 5000, "\ud7ff\u202e<script>"]
    whole = Span(0, len(words), "L" * 1_000_000)
    example = in_context(Sentence("d" * 1_000_000, 7, words, []), [Marked(whole, "missed"), Marked(whole, "wrong", 1)])
    assert len(json.dumps(example)) < 6000
    for mark in example["marks"]:
        assert 0 <= mark["start"] < mark["end"] <= len(example["text"])
    last = in_context(Sentence("d", 7, words, []), [Marked(Span(len(words) - 1, len(words), "A"), "missed")])
    assert last["text"][last["marks"][0]["start"] :] == words[-1]
    assert (last["words_before"], last["words_after"]) == (len(words) - 13, 0)


def test_which_examples_are_kept_does_not_depend_on_what_came_before():
    def missed(number):
        return Sentence(f"d{number}", 0, ["Ann", "left"], [Span(0, 1, "PER")]), {}

    first = analysed([missed(number) for number in range(40)]).to_json()["examples"]["missed"]
    second = analysed([missed(number) for number in reversed(range(40))]).to_json()["examples"]["missed"]
    assert first == second
    assert len(first) == EXAMPLES


def test_the_digest_is_of_words_and_gold_alone():
    sentence = Sentence("d", 0, ["Ann", "left"], [Span(0, 1, "PER"), Span(1, 2, "LOC")])
    other = Sentence("d", 0, ["Ann", "left"], [Span(1, 2, "LOC"), Span(0, 1, "PER")])
    digests = [
        analysed([(each, found)]).to_json()["data"]["digest"]
        for each, found in (
            (sentence, {}),
            (other, {Span(0, 1, "PER"): 0.5}),
            (Sentence("d", 0, ["Ann left"], sentence.entities[:1]), {}),
            (Sentence("d", 0, ["Ann", "left"], sentence.entities[:1]), {}),
        )
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_text_and_labels_are_nobodys_markup():
    sentence = Sentence("d", 0, ["a|b", "<img>", "`x`\n# y"], [Span(0, 3, "x|y*")])
    page = details_to_markdown(analysed([(sentence, {})]).to_json())
    assert r"missed: a\|b \<img\> \`x\` # y" in page
    assert "| x\\|y\\* | 0 | 1 |" in page
