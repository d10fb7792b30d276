"""What `span_marker` answers: `predict`, and behind it the probabilities of every candidate span.

Runs in the library's own environment. Nothing of the library is computed a second time here: a forward
hook keeps what the model returned during `predict`, and `check` then makes sure that it is what
`predict` decoded and that the file is worth comparing with.
"""

from collections import Counter

import torch
from datasets import Dataset
from span_marker import SpanMarkerModel

CLEAR = 1e-4  # two scores closer than this are a tie to a comparison within 1e-4
CLEAR_LABEL = 1e-5  # the same for the two best labels of a span that is no entity in the end


def record(model: SpanMarkerModel, case: dict) -> dict:
    """`case` with the library's view of every sentence: tokens, words, spans, probabilities, entities."""
    inputs = [sentence["input"] for sentence in case["sentences"]]
    columns = {"tokens": inputs}
    model.config.max_prev_context = model.config.max_next_context = None
    if case["context"]:
        model.config.max_prev_context = case["context"]["max_prev_context"]
        model.config.max_next_context = case["context"]["max_next_context"]
        for name in ("document_id", "sentence_id"):
            columns[name] = [sentence[name] for sentence in case["sentences"]]

    samples = []
    hook = model.register_forward_hook(
        lambda _, __, given, output: samples.extend(_samples(given, output)), with_kwargs=True
    )
    entities = model.predict(Dataset.from_dict(columns), batch_size=4)
    hook.remove()

    tokenized = model.tokenizer({"tokens": inputs}, return_num_words=True, return_batch_encoding=True)
    encoding = tokenized["batch_encoding"]
    sentences = []
    for index, (sentence, found) in enumerate(zip(case["sentences"], entities, strict=True)):
        word_count = tokenized["num_words"][index]
        words = list(model.tokenizer.get_all_valid_spans(word_count, model.config.entity_max_length))
        parts = []
        while sum(len(part["probabilities"]) for part in parts) < len(words):
            parts.append(samples.pop(0))
        first_tokens = [position for part in parts for position in part["first_tokens"]]
        last_tokens = [position for part in parts for position in part["last_tokens"]]
        assert all(part["input_ids"] == parts[0]["input_ids"] for part in parts)
        view = {
            "input_ids": parts[0]["input_ids"],
            "samples": [len(part["probabilities"]) for part in parts],
            "word_count": word_count,
        }
        if case["kind"] == "text":
            view["word_chars"] = [list(encoding.word_to_chars(index, word)) for word in range(word_count)]
        view["spans"] = [
            [*span, first, last] for span, first, last in zip(words, first_tokens, last_tokens, strict=True)
        ]
        view["probabilities"] = [row for part in parts for row in part["probabilities"]]
        view["entities"] = [{**entity, "score": round(entity["score"], 7)} for entity in found]
        sentences.append({**sentence, **view})
    assert not samples
    return {**case, "sentences": sentences}


def _samples(given: dict, output) -> list[dict]:
    """One forward pass as samples: text tokens, positions of the markers less the 2 added, softmax."""
    samples = []
    probabilities = output.logits.softmax(-1)
    for row, count in enumerate(given["num_marker_pairs"].tolist()):
        text_tokens = int(given["attention_mask"][row, 0].sum())  # all that the first token sees
        start = int(given["start_marker_indices"][row])
        positions = (given["position_ids"][row] - 2).tolist()
        samples.append(
            {
                "input_ids": given["input_ids"][row, :text_tokens].tolist(),
                "first_tokens": positions[start : start + count],
                "last_tokens": positions[start + count : start + 2 * count],
                "probabilities": [
                    [round(probability, 7) for probability in span] for span in probabilities[row, :count].tolist()
                ],
            }
        )
    return samples


def check(case: dict, labels: list[str], outside_id: int) -> dict:
    """Refuse a case that could not fail or whose decoding hangs on rounding; return how its scores lie.

    Greedy decoding keeps its result under any change of scores by less than half of `CLEAR` (rounding
    changes them by a hundredth of that) if every candidate it turned down overlaps a chosen one that
    scores higher by `CLEAR`.
    """
    gaps, label_gaps, scores, counts = [], [], [], Counter()
    for sentence in case["sentences"]:
        top = torch.tensor(sentence["probabilities"], dtype=torch.float64).topk(2)
        candidates = [
            (score, tuple(span[:2]), label, score - second)
            for span, (score, second), (label, _) in zip(
                sentence["spans"], top.values.tolist(), top.indices.tolist(), strict=True
            )
        ]
        label_gaps += [gap for *_, gap in candidates]
        chosen = []
        for score, span, label, gap in sorted(candidates, key=lambda candidate: -candidate[0]):
            if label == outside_id:
                continue
            above = [kept[0] - score for kept in chosen if kept[1][0] < span[1] and span[0] < kept[1][1]]
            if above:
                gaps.append(max(above))
            else:
                chosen.append((score, span))
                gaps.append(gap)
                scores.append(score)
                counts[labels[label]] += 1
        assert len(chosen) == len(sentence["entities"]), (case["name"], sentence["input"])
        predicted = sorted(entity["score"] for entity in sentence["entities"])
        assert predicted == sorted(score for score, _ in chosen), (case["name"], sentence["input"])
    figures = {"labels": counts, "scores": scores, "gap": min(gaps), "label_gap": min(label_gaps)}
    figures["spans"] = sum(len(sentence["spans"]) for sentence in case["sentences"])
    assert sum(count >= 2 for count in counts.values()) >= 2, (case["name"], counts)
    assert figures["gap"] > CLEAR, (case["name"], figures["gap"])
    assert figures["label_gap"] > CLEAR_LABEL, (case["name"], figures["label_gap"])
    return figures
