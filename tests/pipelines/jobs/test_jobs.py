import math
from typing import get_args

import pytest
from pydantic import ValidationError

from pipelines.errors import PipelineError
from pipelines.jobs.job_file import read_job
from pipelines.jobs.tag import TagJob
from pipelines.jobs.train import TrainJob
from pipelines.report.command import command_line
from spanmarker_core.bundle.config import DTYPES, GATE_CHOICES
from spanmarker_core.bundle.reader import read_info
from spanmarker_core.errors import CoreError
from spanmarker_core.training import TrainingSettings
from tests.support.tiny import GATE, tiny_bundle

TRAIN = {"train": "t", "dev": "d", "encoder": "e", "output": "o"}


def test_all_problems_are_reported_at_once():
    with pytest.raises(PipelineError) as caught:
        read_job(TagJob, None, {"output": "o", "workers": 0, "threshold": 1.5, "engine": "spark", "nonsense": 1})
    message = str(caught.value)
    assert caught.value.code == "job.invalid"
    for said in ("--input is missing", "--workers: ", "--threshold: ", "--engine: ", "this job: unknown key nonsense"):
        assert f"\n  {said}" in message
    assert "local" in message  # the remedy names what there is


def test_job_file_and_options_that_win(tmp_path):
    path = tmp_path / "tag.toml"
    path.write_text('input = "a.parquet"\noutput = "out"\nworkers = 2\nlanguage = "de"\n')
    job = read_job(TagJob, str(path), {"workers": 3, "language": None, "input": []})
    assert (job.input, job.output, job.workers, job.language) == (["a.parquet"], "out", 3, "de")


def test_problems_name_what_the_user_wrote(tmp_path):
    path = tmp_path / "tag.toml"
    path.write_text('input = "a.parquet"\nkeep_columns_in = "rows"\nsentence_breaks = "line"\nwrite_sentences = "x"\n')
    with pytest.raises(PipelineError) as caught:
        read_job(TagJob, str(path), {"sentence_breaks": "lines?", "max_shard_bytes": 0, "decoder": None})
    named = [line.partition(": ")[0].split(" is missing")[0] for line in caught.value.values["problems"].splitlines()]
    assert sorted(named) == [
        "  --max-shard-bytes",
        "  --sentence-breaks",
        f"  {path}, line 2",
        f"  {path}, line 4",
        "  output",
    ]


@pytest.mark.parametrize("content", [None, "input = ["])
def test_unreadable_job_file(tmp_path, content):
    path = tmp_path / "tag.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PipelineError, match=r"job.unreadable"):
        read_job(TagJob, str(path), {})


def test_columns_must_differ():
    with pytest.raises(PipelineError, match="both 'text'"):
        read_job(TagJob, None, {"input": ["x"], "output": "o", "id_column": "text"})


def test_identity_is_what_decides_rows(tiny_bundle):
    info = read_info(tiny_bundle)
    job = TagJob(input=["x"], output="o", model=str(tiny_bundle))
    same = job.model_copy(update={"input": ["y"], "workers": 7, "device": "cuda", "max_shard_bytes": 5})
    assert same.identity(info) == job.identity(info)
    assert job.model_copy(update={"decoder": "flat.v1"}).identity(info) == job.identity(info)  # what the bundle says
    for change in ({"text_column": "body"}, {"threshold": 0.5}, {"decoder": "all.v1"}, {"language": "de"}):
        assert job.model_copy(update=change).identity(info) != job.identity(info)


def test_a_gate_in_effect_is_part_of_the_identity(tmp_path):
    def identity(trained, gate):
        path = tmp_path / trained
        if not path.exists():
            tiny_bundle(path, gate={**GATE, "trained": trained})
        job = TagJob(input=["x"], output="o", model=str(path), gate=gate)
        return job.identity(read_info(path))

    assert identity("fitted", "auto") == identity("fitted", "off") != identity("fitted", "on")
    assert identity("joint", "auto") == identity("joint", "on") != identity("joint", "off")
    assert (identity("fitted", "auto")["gate"], identity("joint", "auto")["gate"]) == ("off", "on from 0.5")


@pytest.mark.parametrize("change", [{"gate": "yes"}, {"dtype": "float16"}])
def test_choices_are_closed(change):
    with pytest.raises(PipelineError, match=rf"job.invalid.*\n  --{next(iter(change))}: "):
        read_job(TagJob, None, {"input": ["x"], "output": "o", **change})


def test_choices_are_those_of_load():
    assert get_args(TagJob.model_fields["gate"].annotation) == GATE_CHOICES
    assert get_args(TagJob.model_fields["dtype"].annotation) == DTYPES


def test_a_training_job_hands_its_speed_options_on():
    settings = TrainJob(**TRAIN, gate=True, gate_weight=0.3, gate_share=0.1, pair_layers=1).settings()
    assert (settings.gate, settings.gate_weight, settings.gate_share, settings.pair_layers) == (True, 0.3, 0.1, 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gate_weight": 0.3, "gate_share": 0.1}, "--gate-share, --gate-weight: only with --gate"),
        ({"gate": False, "gate_share": 0.1}, "--gate-share: only with --gate"),
        ({"gate": True, "gate_weight": 0}, "--gate-weight: 0 is not more than 0"),
        ({"gate": True, "gate_weight": 1}, "--gate-weight: 1 is not "),
    ],
)
def test_options_of_a_gate_need_one_and_train_both_parts(options, says):
    with pytest.raises(PipelineError, match=says):
        read_job(TrainJob, None, {"train": "t", "dev": "d", "encoder": "e", "output": "o", "gate": None, **options})


def test_secrets_in_options_are_shown_nowhere(tmp_path):
    beam = ["--s3_secret_key=hunter2", "--password", "hunter2", "--streaming"]
    options = {"storage_option": ["s3.secret=hunter2"], "engine": "beam", "beam_options": beam}
    job = TagJob(input=["x"], output=str(tmp_path), **options)
    described = job.described()
    assert described["storage_option"] == ["s3.secret"]
    assert described["beam_options"] == ["--s3_secret_key", "--password", "…", "--streaming"]
    assert "hunter2" not in str(described)
    assert command_line(job).endswith(" -- --s3_secret_key=… --password … --streaming")
    info = read_info(job.model_path)
    assert "hunter2" not in repr(job.task(info, "digest"))
    assert job.task(info, "digest").storage_options == ("s3.secret=hunter2",)
    (tmp_path / "job.toml").write_text('input = ["x"]\noutput = "o"\n[storage_option]\nsecret = "hunter2"\n')
    with pytest.raises(PipelineError, match=r"job.invalid") as caught:
        read_job(TagJob, str(tmp_path / "job.toml"), {})
    assert "storage_option" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_decoder_that_tags_have_no_use_for_is_refused_with_the_job(tmp_path):
    head = {"architecture": "seq_ner.v1", "start_marker_id": None, "end_marker_id": None}
    info = read_info(tiny_bundle(tmp_path / "tags", **head))
    job = TagJob(input=["x"], output="o")
    assert job.model_copy(update={"decoder": "flat.v1"}).identity(info) == job.identity(info)
    with pytest.raises(CoreError, match=r"call\.flat_tags"):
        job.model_copy(update={"decoder": "nested.v1"}).identity(info)


def test_workers_of_a_scheduler_are_its_own():
    with pytest.raises(PipelineError, match=r"--workers is for a cluster"):
        read_job(TagJob, None, {"input": "x", "output": "o", "engine": "dask", "scheduler": "tcp://h:1", "workers": 2})


def test_an_architecture_with_its_options():
    job = TrainJob(**TRAIN, architecture="span_marker", options=["tags=crf", 'output="tags"'], tag_weight=0.2)
    settings = job.settings()
    assert (settings.architecture, settings.options) == ("span_marker.v1", {"tags": "crf", "output": "tags"})
    assert (settings.tag_weight, settings.negatives, settings.head_learning_rate) == (0.2, None, None)
    settings = TrainJob(**TRAIN, negatives=100, boundary_smoothing=0.1, head_learning_rate=2e-3).settings()
    assert (settings.negatives, settings.boundary_smoothing, settings.head_learning_rate) == (100, 0.1, 2e-3)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"architecture": "marker_span"}, "not one of span_marker.v1.*call.unknown_option"),
        ({"options": ["tags"]}, "'tags' is not NAME=VALUE"),
        (
            {"options": {"color": 1, "tags": "hmm"}},
            "color is not an option.* has tags, output.*; option tags is 'hmm', not",
        ),
        ({"options": ["tags=crf", "tags=softmax"]}, "tags occurs twice"),
        ({"options": {"output": "tags"}}, "no tagging head: set tags"),
        ({"tag_weight": 0.1}, "no tagging head bundled"),
        ({"gate": True, "negatives": 5}, "`gate` and `negatives` both"),
        ({"gate": True, "architecture": "dspert"}, "`gate`: spans see each other"),
        ({"gate": True, "architecture": "seq_ner"}, "`gate`: entities come from tags"),
        ({"pair_layers": 1, "architecture": "span_ner"}, "`pair_layers`: the architecture has no markers"),
        ({"pair_layers": 1, "architecture": "pl_marker"}, "`pair_layers`: pl_marker always pairs"),
        ({"pair_layers": 1, "options": {"attention": "no_self"}}, "`pair_layers`: .* attention is no_self"),
        ({"negatives": 1, "options": {"attention": "all_markers"}}, "`negatives`: spans see each other"),
        ({"negatives": 1, "architecture": "seq_ner"}, "`negatives`: this model has no spans to train: remove it"),
        ({"decoder": "nested.v1", "architecture": "seq_ner"}, "`decoder`: entities come from tags"),
        (
            {"options": {"lstm": 65536}, "architecture": "dspert"},
            "option lstm is 65536, not an integer from 0 to 4096",
        ),
        ({"gate_ends": False}, "only with `gate`"),
        ({"boundary_smoothing": 1.0}, "less than 1"),
        (
            {"architecture": "dspert", "encoder_layers": 2, "options": {"span_layers": 3}},
            "span_layers is 3, .* 2 layers",
        ),
    ],
)
def test_architectures_that_can_not_be_trained(options, problem):
    with pytest.raises(ValidationError, match=problem):
        TrainJob(**TRAIN, **options)


def test_all_that_does_not_fit_together_is_told_at_once():
    with pytest.raises(
        ValidationError, match=r"(?s)`gate`: .*`pair_layers`: .*`tag_weight`.*`batch_size` and `batch_tokens`"
    ):
        TrainJob(**TRAIN, architecture="dspert", gate=True, pair_layers=1, batch_size=2, batch_tokens=9, tag_weight=0.5)


def test_a_mistyped_option_hides_no_other_fault_and_makes_none_up():
    given = {"architecture": "bl_ner", "options": {"width_sze": 64}, "tag_weight": 0.5, "gate": True, "negatives": 5}
    with pytest.raises(ValidationError, match=r"(?s)width_sze is not an option.*`gate` and `negatives`") as caught:
        TrainJob(**TRAIN, **given)
    assert "no tagging head" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("entity_max_length", [0]),
        ("encoder_layers", [0]),
        ("pair_layers", [-1]),
        ("gate_weight", [0, 1]),
        ("gate_share", [-0.1, 1.1]),
        ("negatives", [0]),
        ("boundary_smoothing", [-0.1, 1]),
        ("tag_weight", [0, 1]),
        ("learning_rate", [0, math.inf, math.nan]),
        ("head_learning_rate", [0, math.inf]),
        ("weight_decay", [-1]),
        ("warmup_share", [-0.1, 1]),
        ("batch_size", [0]),
        ("batch_tokens", [0]),
        ("accumulation", [0]),
        ("epochs", [0]),
        ("save_steps", [0]),
        ("seed", [-1]),
    ],
)
def test_jobs_and_settings_refuse_the_same_numbers(name, values):
    for value in values:
        with pytest.raises(ValidationError, match=rf"{name}\n"):
            TrainJob(**TRAIN, **{name: value})
        with pytest.raises(CoreError, match=rf"call\.out_of_range.*{name} {value}"):
            TrainingSettings(**{name: value})


def test_settings_tell_all_numbers_that_can_not_be():
    with pytest.raises(CoreError, match=r"epochs 0: .*; seed -1: "):
        TrainingSettings(epochs=0, seed=-1)


def test_options_are_laid_over_those_of_a_file_by_name(tmp_path):
    file = tmp_path / "job.toml"
    file.write_text('architecture = "dspert"\n[options]\naggregation = "mean"\nspan_layers = 1\n')
    job = read_job(TrainJob, str(file), {**TRAIN, "options": ["span_layers=none", "lstm=0"]})
    assert job.options == {"aggregation": "mean", "span_layers": "none", "lstm": 0}
    with pytest.raises(PipelineError, match=r"--option: 'lstm' is not NAME=VALUE"):
        read_job(TrainJob, str(file), {**TRAIN, "options": ["lstm"]})
