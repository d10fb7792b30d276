"""Split, pack and tag in a Beam pipeline of one's own, and the model as a handler. The example is in the module."""

import json

import apache_beam as beam
import pytest
from apache_beam.ml.inference.base import RunInference
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_pipeline

from pipelines.engines.beam.transforms import PackSamples, SpanMarkerModelHandler, SplitSentences, TagSamples
from pipelines.errors import PipelineError
from spanmarker_core.errors import CoreError
from tests.support.jobs import TEXTS, assert_same_annotations, rows, tag, write_jsonl

DOCUMENTS = [(f"doc-{number}", text) for number, text in enumerate(TEXTS * 3)]


def append(result, path):
    with open(path, "ab") as file:
        file.write(json.dumps(result).encode() + b"\n")


@pytest.fixture
def results(tmp_path):
    """A function: what a pipeline of `steps` makes of documents, in any order."""
    path = tmp_path / "results.jsonl"

    def run(documents, *steps, options=()):
        path.write_bytes(b"")
        with test_pipeline.TestPipeline("FnApiRunner", PipelineOptions(list(options))) as pipeline:
            made = pipeline | beam.Create(documents)
            for step in steps:
                made = made | step
            _ = made | beam.Map(append, str(path))
        return [json.loads(line) for line in path.read_bytes().splitlines()]

    return run


@pytest.fixture
def tagged(results):
    """The same by id, for ids that are unique."""
    return lambda *given, **options: {result["document_id"]: result for result in results(*given, **options)}


def in_steps(bundle, **options):
    return SplitSentences(), PackSamples(str(bundle)), TagSamples(str(bundle), **options)


def in_one(bundle, **options):
    return (RunInference(SpanMarkerModelHandler(str(bundle), **options)),)


@pytest.fixture(params=[in_steps, in_one])
def steps(request):
    return request.param


@pytest.mark.parametrize("batch_characters", [1, 300])
def test_rows_are_those_of_the_shard_task(tagged, steps, batch_characters, tmp_path, tiny_bundle):
    records = [{"id": document_id, "text": text} for document_id, text in DOCUMENTS]
    tag([write_jsonl(tmp_path / "in.jsonl", records)], tmp_path / "out", tiny_bundle)
    made = tagged(DOCUMENTS, *steps(tiny_bundle, batch_characters=batch_characters))
    assert made.keys() == {document_id for document_id, _ in DOCUMENTS}
    assert all(result["reject"] is None for result in made.values())
    found = [row for result in made.values() for row in result["annotations"]]
    assert len(found) > 50
    assert_same_annotations(found, rows(tmp_path / "out", "annotations"), places=False)


def test_options_of_the_model_are_heeded(tagged, steps, tiny, tiny_bundle):
    made = tagged(DOCUMENTS[:3], *steps(tiny_bundle, decoder="all.v1", threshold=0.3, threads=1))
    for entities, (document_id, _) in zip(
        tiny.tag_text(TEXTS[:3], decoder="all.v1", threshold=0.3), DOCUMENTS, strict=False
    ):
        found = [(row["char_start"], row["char_end"], row["label"]) for row in made[document_id]["annotations"]]
        assert sorted(found) == sorted((entity.char_start, entity.char_end, entity.label) for entity in entities)


def test_document_that_can_not_be_read_is_a_reject_and_costs_no_other(tagged, steps, tiny_bundle):
    documents = [("null", None), ("number", 3), ("empty", ""), ("good", TEXTS[0])]
    made = tagged(documents, *steps(tiny_bundle))
    codes = {document_id: (result["reject"] or {}).get("code") for document_id, result in made.items()}
    assert codes == {
        "null": "null_text",
        "number": "not_text",
        "empty": None,
        "good": None,
    }
    assert [bool(result["annotations"]) for result in made.values()] == [document_id == "good" for document_id in made]


def test_equal_ids_stay_two_documents(results, steps, tiny_bundle):
    found = results([("same", TEXTS[0]), ("same", TEXTS[1]), ("same", TEXTS[0])], *steps(tiny_bundle))
    firsts = [result["annotations"][0]["entity_id"] for result in found]
    assert firsts == [0, 0, 0]
    alone = results([("same", TEXTS[0])], *steps(tiny_bundle))[0]["annotations"]
    assert sum(len(result["annotations"]) == len(alone) for result in found) >= 2


class Failing(SpanMarkerModelHandler):
    """A handler of a model that fails on one text, or on all: as a lost device would."""

    def __init__(self, model, fails_on):
        super().__init__(model)
        self.fails_on = fails_on

    def load_model(self):
        model = super().load_model()
        score, fails_on = (
            model.score_each,
            model.packer.tokenizer.encode(self.fails_on).ids[1:-1] if self.fails_on else [],
        )

        def failing(windows, threshold=None):
            ids = windows.token_ids.tolist()
            if any(ids[at : at + len(fails_on)] == fails_on for at in range(len(ids))):
                raise RuntimeError("no luck")
            return score(windows, threshold)

        model.score_each = failing
        return model


def test_document_that_fails_in_a_batch_is_found_and_rejected(tagged, tiny_bundle):
    documents = [*DOCUMENTS[:9], ("bad", "zyx flew to Paris."), *DOCUMENTS[9:]]
    made = tagged(documents, RunInference(Failing(str(tiny_bundle), "zyx")))
    assert made["bad"]["reject"] == {"stage": "tag", "code": "tag_failed", "message": "RuntimeError: no luck"}
    assert [document_id for document_id, result in made.items() if result["reject"]] == ["bad"]
    whole = tagged(DOCUMENTS, *in_one(tiny_bundle))
    assert_same_annotations(
        [row for result in made.values() for row in result["annotations"]],
        [row for result in whole.values() for row in result["annotations"]],
    )


def test_model_that_fails_on_anything_makes_no_rejects_of_documents(tagged, tiny_bundle):
    with pytest.raises(RuntimeError, match=r"\[model.broken\]"):
        tagged(DOCUMENTS, RunInference(Failing(str(tiny_bundle), "")))


def test_bad_options_are_faults_of_the_pipeline(tagged, tiny_bundle, tmp_path):
    for handler, error in (
        (SpanMarkerModelHandler(str(tmp_path / "none")), r"hub\.not_found"),
        (SpanMarkerModelHandler(str(tiny_bundle), decoder="none.v1"), "none.v1"),
    ):
        with pytest.raises((CoreError, PipelineError, RuntimeError), match=error):
            tagged(DOCUMENTS, RunInference(handler))


@pytest.mark.services
def test_worker_processes_give_the_same_rows(tagged, steps, tiny_bundle):
    several = tagged(
        DOCUMENTS,
        *steps(tiny_bundle),
        options=["--direct_running_mode=multi_processing", "--direct_num_workers=2"],
    )
    assert several == tagged(DOCUMENTS, *steps(tiny_bundle))
