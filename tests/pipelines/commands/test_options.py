"""Options of commands are the fields of job models: their names, types, defaults and texts."""

import inspect
import shlex
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands.examples import EXAMPLES
from pipelines.commands.options import Job, JobCommand, options_of, with_options
from pipelines.jobs.fit_gate import GateJob
from pipelines.jobs.job_file import read_job
from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.jobs.shared import CardTexts
from pipelines.jobs.tag import TagJob
from pipelines.jobs.train import TrainJob
from spanmarker_core.card.facts import TEXTS
from spanmarker_core.shown import Panel, Shown


class Base(BaseModel):
    """Fields of every kind."""

    input: Annotated[list[str], Shown(Panel.FILES, "PATH")] = Field([], description="Files [sic].")
    output: str = Field(description="Folder.")
    learning_rate: float = Field(5e-5, description="Rate.")
    workers: Annotated[int | None, Shown(Panel.SPEED)] = Field(None, description="Workers.  [default: all]")
    resources: dict[str, float] = Field({}, description="Resources.")
    gate: bool = Field(True, description="Gate.")
    force: bool = Field(False, description="Force.")
    column: int | str | None = Field(None, union_mode="left_to_right", description="Column.")
    secret: str = Field("", description="Secret.")


class Small(Base):
    """A job that adds a field."""

    dtype: Literal["float32", "int8"] = Field("float32", description="Format.")


class Other(BaseModel):
    """A second job of the same command."""

    output: str = Field("here", description="Another folder.")
    encoder: str = Field("bert", description="Encoder.")


def parameters(**chosen: Any) -> list[inspect.Parameter]:
    return options_of(
        Small,
        Other,
        first=["output"],
        without={"secret"},
        prefix="Other: ",
        required={"input": " or --samples"},
        **chosen,
    )


@pytest.fixture
def run():
    """Run a command on some words; returns what it printed and the options that it was given."""
    given: dict[str, Any] = {}

    @with_options(lambda: parameters(named={"gate": "--gate/--no-gate"}, helps={"force": "By force."}))
    def command(job: Job = None, **options: Any) -> None:
        given.update(options, job=job)

    small = typer.Typer(rich_markup_mode="rich", add_completion=False)
    small.command(cls=JobCommand)(command)

    def run(*words: str) -> tuple[str, dict[str, Any]]:
        given.clear()
        return CliRunner().invoke(small, words, env={"COLUMNS": "200"}).output, dict(given)

    return run


def test_options_are_read_as_the_types_of_the_fields(run):
    words = ["--input", "a", "--input", "b", "--workers", "3", "--learning-rate", "1e-3", "--resources", "GPU=1"]
    _, given = run(*words, "--no-gate", "--force", "--dtype", "int8", "--column", "-1", "--job", "j.toml")
    assert given == {
        "output": None,
        "dtype": "int8",
        "input": ["a", "b"],
        "learning_rate": 1e-3,
        "workers": 3,
        "resources": ["GPU=1"],
        "gate": False,
        "force": True,
        "column": "-1",
        "encoder": None,
        "job": "j.toml",
    }
    for wrong in (["--workers", "x"], ["--no-force"], ["--secret", "x"]):
        assert run(*wrong)[1] == {}


def test_options_that_are_not_given_are_left_to_the_job(run):
    assert set(run()[1].values()) == {None}


def test_help_states_text_and_default_of_each_field(run):
    lines = [" ".join(line.strip("│ ").split()) for line in run("--help")[0].splitlines()]
    for shown in (
        "--output TEXT Folder. [required]",
        "--dtype float32|int8 Format. [default: float32]",
        "--input PATH Files [sic]. [required or --samples]",
        "--learning-rate NUMBER Rate. [default: 5e-5]",
        "--workers N Workers. [default: all]",
        "--gate --no-gate Gate. [default: yes]",
        "--force By force. [default: no]",
        "--encoder TEXT Other: encoder. [default: bert]",
    ):
        assert shown in lines


def test_options_stand_in_the_panels_of_their_fields(run):
    text = run("--help")[0]
    places = [text.index(part) for part in ("Input and output", "--input", "─ Speed", "--workers", "─ Help", "--help")]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", [TagJob, PrepareJob, AnnotatedJob, TrainJob, GateJob], ids=lambda kind: kind.__name__)
def test_every_setting_of_a_job_says_where_it_is_shown(kind):
    bare = {name for name, field in kind.model_fields.items() if not any(isinstance(m, Shown) for m in field.metadata)}
    assert bare <= {"annotated"}


def test_examples_are_commands_that_exist():
    group = typer.main.get_command(app)
    assert set(EXAMPLES) == {*group.commands, "fit"} - {"gate"}
    for name, lines in EXAMPLES.items():
        assert len(lines) == 3, name
        for line in lines.values():
            first, *words = shlex.split(line)
            assert first == "spanmarker"
            command, words = group.commands[words[0]], words[1:]
            if "fit" in words[:1]:
                command, words = command.commands["fit"], words[1:]
            command.make_context("x", words)


def test_train_offers_its_settings_and_files():
    made = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).output
    only_in_files = {*CardTexts.model_fields, "splitter", "warmup_share", "weight_decay"}
    for name in TrainJob.model_fields:
        option = "--option" if name == "options" else f"--{name.replace('_', '-')}"
        assert (f" {option} " in made) == (name not in only_in_files), name


@pytest.mark.parametrize(("given", "column"), [("2", 2), ("-1", -1), ("NER", "NER"), (None, None)])
def test_columns_are_numbers_or_names(given, column):
    files = {"train": "t", "dev": "d", "encoder": "e", "output": "o"}
    assert read_job(TrainJob, None, {**files, "tag_column": given}).tag_column == column


def test_a_job_states_the_texts_of_a_card():
    assert set(CardTexts.model_fields) == set(TEXTS)
    job = TrainJob(train="t", dev="d", encoder="e", output="o", language="de", not_for="x", scheme="IOB2")
    assert job.facts() == {"language": "de", "not_for": "x"}
