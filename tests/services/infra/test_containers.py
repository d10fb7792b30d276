"""The Dockerfile: clean by hadolint, pinned, not root; and each mistake that would spoil that is seen."""

import fnmatch
import re
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.services.infra.checks import INFRA, ROOT, dockerfile_problems

DOCKERFILE = (INFRA / "containers" / "Dockerfile").read_text()
CONSTRAINTS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line and line[0] != "#"
)


def test_clean():
    assert dockerfile_problems(DOCKERFILE) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("python:3.12.12-slim-bookworm", "python:latest", "DL3007"),
        ("python:3.12.12-slim-bookworm", "python", "DL3006"),
        ("USER 10001:10001", "USER root", "DL3002"),
        ("USER 10001:10001", "USER spanmarker", "stage cpu runs as spanmarker"),
        ("USER 10001:10001\n", "", "stage cuda runs as 0"),
        ("ENV RUN_PYTHON", "USER 0\nENV RUN_PYTHON", "stage beam runs as 0"),
        ("torch==2.13.0+cpu", "torch", "DL3013"),
        ("PIP_NO_CACHE_DIR=1 ", "", "DL3042"),
        ("--from=build-cpu ", "--from=bild-cpu ", "DL3022"),
        ("WORKDIR /src", "WORKDIR src", "DL3000"),
        ("COPY schemas schemas", "ADD schemas schemas", "DL3020"),
        ("RUN groupadd", "RUN apt-get install gcc && groupadd", "DL3008"),
        ("RUN groupadd", "RUN sudo groupadd", "DL3004"),
        ("RUN groupadd", "RUNN groupadd", "DL1000"),
    ],
)
def test_a_mistake_is_seen(old, new, problem):
    assert old in DOCKERFILE
    assert any(found.startswith(problem) for found in dockerfile_problems(DOCKERFILE.replace(old, new, 1)))


def test_versions_are_those_of_the_tested_set():
    builds = re.findall(r"torch==([\d.]+)\+(\w+)", DOCKERFILE)
    assert [kind for _, kind in builds] == ["cpu", "cu130"]
    assert {version for version, _ in builds} == {CONSTRAINTS["torch"]}
    assert re.search(r"beam_python3.12_sdk:([\d.]+)", DOCKERFILE)[1] == CONSTRAINTS["apache-beam"]


def test_extras_exist_and_are_pinned():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {extra for group in re.findall(r"'\.\[([\w,]+)\]'", DOCKERFILE) for extra in group.split(",")}
    assert asked == {"s3", "gcs", "azure", "dask", "beam"}
    for extra in asked:
        assert {Requirement(line).name for line in extras[extra]} <= set(CONSTRAINTS), extra


def test_the_build_is_sent_what_it_copies_and_little_else():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert rules[0] == "*", "all is left out but what is named"
    named = {rule[1:] for rule in rules if rule[0] == "!"}
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.M)]
    assert named == {name for names in copied for name in names}
    assert all((ROOT / name).exists() for name in named)
    assert any(fnmatch.fnmatch("pipelines/__pycache__", rule) for rule in rules[1:] if rule[0] != "!")
