import subprocess
import sys
from typing import get_args

import pytest

from pipelines.errors import PipelineError
from pipelines.jobs import TagJob, read_job
from pipelines.training_job import TrainJob
from spanmarker_core.bundle import DTYPES, GATE_CHOICES, read_info
from tests.tiny import GATE, tiny_bundle


def test_all_problems_are_reported_at_once():
    with pytest.raises(PipelineError) as caught:
        read_job(TagJob, None, {"output": "o", "workers": 0, "threshold": 1.5, "engine": "spark", "nonsense": 1})
    message = str(caught.value)
    assert caught.value.code == "job.invalid"
    for name in ("input", "workers", "threshold", "engine", "nonsense"):
        assert f"\n  {name}: " in message
    assert "local" in message  # the remedy names what there is


def test_job_file_and_options_that_win(tmp_path):
    path = tmp_path / "tag.toml"
    path.write_text('input = "a.parquet"\noutput = "out"\nworkers = 2\nlanguage = "de"\n')
    job = read_job(TagJob, str(path), {"workers": 3, "language": None, "input": []})
    assert (job.input, job.output, job.workers, job.language) == (["a.parquet"], "out", 3, "de")


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
    with pytest.raises(PipelineError, match=rf"job.invalid.*\n  {next(iter(change))}: "):
        read_job(TagJob, None, {"input": ["x"], "output": "o", **change})


def test_choices_are_those_of_load():
    assert get_args(TagJob.model_fields["gate"].annotation) == GATE_CHOICES
    assert get_args(TagJob.model_fields["dtype"].annotation) == DTYPES


def test_a_training_job_hands_its_speed_options_on():
    files = {"train": "t", "dev": "d", "encoder": "e", "output": "o"}
    settings = TrainJob(**files, gate=True, gate_weight=0.3, gate_share=0.1, pair_layers=1).settings()
    assert (settings.gate, settings.gate_weight, settings.gate_share, settings.pair_layers) == (True, 0.3, 0.1, 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gate_weight": 0.3, "gate_share": 0.1}, "gate_share, gate_weight given, and no gate is trained"),
        ({"gate": False, "gate_share": 0.1}, "gate_share given, and no gate is trained"),
        ({"gate": True, "gate_weight": 0}, "gate_weight: "),
        ({"gate": True, "gate_weight": 1}, "gate_weight: "),
    ],
)
def test_options_of_a_gate_need_one_and_train_both_parts(options, says):
    with pytest.raises(PipelineError, match=says):
        read_job(TrainJob, None, {"train": "t", "dev": "d", "encoder": "e", "output": "o", **options})


def test_the_parent_needs_no_torch():
    code = "import sys, pipelines.run, pipelines.jobs, pipelines.engines.local; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
