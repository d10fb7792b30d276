"""Every file in infra/ opens with its command, every command parses, and no file has a secret in it."""

import re

import pytest

from tests.services.infra.checks import (
    INFRA,
    JOBS,
    OWN,
    ROOT,
    SECRET_NAME,
    SECRET_TEXT,
    commands_in,
    spanmarker_problems,
)

pytestmark = pytest.mark.default  # no tools are started
FILES = sorted(path for name in OWN for path in (INFRA / name).rglob("*") if path.is_file() and path.suffix != ".pyc")
TEXTS = [
    path
    for path in sorted([*INFRA.rglob("*"), ROOT / ".dockerignore"])
    if path.suffix in {".md", ".toml", ".yaml", ".py"} or path.name in ("Dockerfile", ".dockerignore")
]
TOMLS = [path for path in FILES if path.suffix == ".toml"]


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_opens_with_the_command_that_uses_it(path):
    first = path.read_text().splitlines()[0]
    assert re.match(r"# (spanmarker|kubectl|docker|python|pip|cp) ", first), first


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_commands_parse(path):
    assert [problem for words in commands_in(path.read_text()) for problem in spanmarker_problems(words)[0]] == []


def test_commands_are_found():
    text = r"""
    # spanmarker tag --job a.toml \
    #     --workers 2
    Run `spanmarker prepare --force` first.
    docker run --rm --volume x:y registry.example.com/spanmarker:0.1.0-cpu status out/
    docker run other:1 tag
    """
    assert commands_in(text) == [
        ["tag", "--job", "a.toml", "--workers", "2"],
        ["status", "out/"],
        ["prepare", "--force"],
    ]


@pytest.mark.parametrize("path", TOMLS, ids=name)
def test_a_job_is_run_by_its_own_command_and_has_no_secret(path):
    (command,) = [words for words in commands_in(path.read_text()) if words[0] in JOBS and f"{name(path)}" in words]
    problems, job = spanmarker_problems(command)
    assert problems == []
    assert not [option for option in job.storage_option if SECRET_NAME.search(option.partition("=")[0])]


def test_a_job_with_a_key_that_does_not_exist_is_seen(tmp_path):
    path = tmp_path / "tag.toml"
    path.write_text((INFRA / "beam/local.toml").read_text().replace("threads", "thread"))
    assert "thread: Extra inputs" in spanmarker_problems(["tag", "--job", str(path)])[0][0]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["tag", "--input", "a", "--output", "b", "--enginee", "dask"], "No such option"),
        (["tag", "--input", "a", "--output", "b", "--engine", "dusk"], "'dusk' is not one of"),
        (["tag", "--input", "a", "--output", "b", "--runner=FlinkRunner"], "No such option"),
        (
            ["tag", "--input", "a", "--output", "b", "--", "--runner=FlinkRunner"],
            "only for --engine beam",
        ),
        (["tag", "--input", "a", "--samples", "b", "--output", "c"], "it replaces --input"),
        (["tag", "--job", "infra/none.toml"], "[job.unreadable]"),
        (["status"], ""),
        (["gate", "fitt", "x"], "no command 'fitt'"),
    ],
)
def test_a_mistake_in_a_command_is_seen(command, problem):
    assert problem in "".join(spanmarker_problems(command)[0])


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_no_secrets(path):
    assert not SECRET_TEXT.search(path.read_text())


@pytest.mark.parametrize(
    "text",
    [
        'storage_option = ["key=AKIAIOSFODNN7EXAMPLE"]',
        "aws_secret_access_key: wJalrXUtnFEMI7K7MDENGbPxRfiCYEXAMPLEKEY",
        "ENV AZURE_STORAGE_CONNECTION_STRING=DefaultEndpointsProtocol=https;AccountKey=abc",
        '"--password=hunter2hunter2"',
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_secrets_are_seen(text):
    assert SECRET_TEXT.search(text)


def test_the_readme_names_every_file_that_is_used():
    readme = (INFRA / "README.md").read_text()
    folders = {path.parent if path.parent.name in ("kubernetes", "containers") else path for path in FILES}
    missing = [name(path) for path in folders if path.is_dir() and path.name not in readme]
    assert not missing
    assert all(path.name in readme or path.parent.name in readme for path in FILES)
