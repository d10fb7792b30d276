"""Beam's recipes: jobs that validate, options that Beam has."""

import argparse
import tomllib

import pytest

from tests.services.infra.checks import INFRA

RECIPES = sorted((INFRA / "beam").glob("*.toml"))


def unknown(options):
    """What no part of Beam, runners that aren't installed included, takes for its own."""
    beam = pytest.importorskip("apache_beam.options.pipeline_options")

    def all_of(kind):
        for part in kind.__subclasses__():
            yield part
            yield from all_of(part)

    parser = argparse.ArgumentParser(allow_abbrev=False, conflict_handler="resolve", exit_on_error=False)
    for part in all_of(beam.PipelineOptions):
        if "_add_argparse_args" in vars(part):
            part._add_argparse_args(parser)
    try:
        return parser.parse_known_args(options)[1]
    except argparse.ArgumentError as error:
        return [str(error)]


def options(path):
    return tomllib.loads(path.read_text())["beam_options"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_beam_knows_every_option(path):
    assert unknown(options(path)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--sdk_container_image=", "--sdk_container_img="),
        ("--max_num_workers=50", "--max_num_workers=many"),
        ("--no_use_public_ips", "--no_public_ips"),
    ],
)
def test_a_mistake_is_seen(old, new):
    given = options(INFRA / "beam" / "dataflow.toml")
    mistaken = [option.replace(old, new) for option in given]
    assert mistaken != given
    assert unknown(mistaken)


def test_each_recipe_names_its_runner_and_says_if_it_was_run():
    runners = {path.stem: options(path)[0] for path in RECIPES}
    assert runners == {
        "local": "--runner=FnApiRunner",
        "portable": "--runner=PortableRunner",
        "flink": "--runner=PortableRunner",
        "spark": "--runner=PortableRunner",
        "dataflow": "--runner=DataflowRunner",
    }
    not_run = {path.stem for path in RECIPES if "not run by us" in path.read_text().lower()}
    assert not_run == {"flink", "spark", "dataflow"}
