"""Evaluates a model with two thresholds, and asks whether the difference is more than chance.

The data are the first 60 sentences of the bundled model's test data. Prints precision, recall and F1 of both, the
difference with its 95 % interval, and how many correct and wrong entities the higher threshold removes. Two models are
compared in the same way; `spanmarker evaluate --report` and `spanmarker compare` do it for files, and write pages.
"""

from itertools import islice

from spanmarker_core import load
from spanmarker_core.data import read_annotated
from spanmarker_core.evaluation.evaluate import evaluate
from spanmarker_core.evaluation.predict import predict
from spanmarker_core.evaluation.scores.comparison import Comparison

TEST = "infra/models/bundled/data/test.jsonl"
#: None is the threshold that is stored in the model.
THRESHOLDS = (None, 0.7)


def main() -> None:
    """Evaluate both thresholds, then compare the predictions document by document."""
    model = load()
    sentences = list(islice(read_annotated(TEST), 60))
    for threshold in THRESHOLDS:
        result = evaluate(model, sentences, threshold=threshold)
        scores, (low, high) = result.micro, result.f1_interval
        print(
            f"threshold {threshold}: precision {scores.precision:.1%}, recall {scores.recall:.1%}, "
            f"F1 {scores.f1:.1%} (95 %: {low:.1%} to {high:.1%}); {scores.correct} of {scores.support} entities"
        )

    comparison = Comparison()
    predictions = (predict(model, sentences, threshold=threshold) for threshold in THRESHOLDS)
    for first, second in zip(*predictions, strict=True):
        comparison.add(first.sentence, first.predictions, second.predictions)
    found = comparison.to_json()
    overall, low, high = (100 * found["all"][name] for name in ("difference", "low", "high"))
    verdict = "a clear difference" if low > 0 or high < 0 else "no clear difference"
    print(f"Difference in F1: {overall:+.1f} points (95 %: {low:+.1f} to {high:+.1f}), {verdict}")
    # The names of wrong predictions that only the first makes, and of gold entities that only the first finds.
    wrong, correct = (sum(counts[name] for counts in found["entities"].values()) for name in ("mended", "lost"))
    print(f"The higher threshold removes {wrong} wrong and {correct} correct entities.")


if __name__ == "__main__":
    main()
