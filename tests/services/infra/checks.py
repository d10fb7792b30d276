"""What is wrong with the files in infra/: each check returns a list of problems, empty where all is well.

Real tools do most of it, offline: kubectl renders, kubernetes-validate and hadolint judge, and commands are parsed by
the commands themselves. What those leave out (who runs a pod, whether an image is pinned) is said here.
"""

import functools
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import kubernetes_validate.utils
import typer
import yaml
from typer.exceptions import TyperException

from pipelines.cli import app
from pipelines.commands.options import words_after
from pipelines.errors import PipelineError
from pipelines.jobs.job_file import read_job
from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.tag import TagJob

ROOT = Path(__file__).parents[3]
INFRA = ROOT / "infra"
OWN = ("containers", "kubernetes", "beam", "airflow")
JOBS = {"tag": TagJob, "prepare": PrepareJob}
#: From the first in which all that we use is stable (podFailurePolicy was last) to the newest that is known.
KUBERNETES = ("1.31", kubernetes_validate.latest_version())
# Else a megabyte of schemas is read for each manifest.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)

SECRET_NAME = re.compile(r"KEY|SECRET|TOKEN|PASSW|CREDENTIAL|CONNECTION_STRING|SAS\b", re.I)
SECRET_TEXT = re.compile(
    r"\b(AKIA|ASIA)[A-Z0-9]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY|AccountKey=|\bgh[pos]_\w{30}"
    r"|(secret|password|token|access_key|account_key)\w*[\"']?\s*[=:]\s*[\"']?(?=[\w/+-]*\d)[\w/+-]{12,}",
    re.I,
)

#: A DaskCluster (dask-kubernetes 2026.3.0) without what it takes over from Kubernetes: pods and the service.
DASK_CLUSTER = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "kubernetes.dask.org/v1"},
        "kind": {"const": "DaskCluster"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["worker", "scheduler"],
            "properties": {
                "idleTimeout": {"type": "integer"},
                "worker": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["replicas", "spec"],
                    "properties": {"replicas": {"type": "integer"}, "metadata": {}, "spec": {"type": "object"}},
                },
                "scheduler": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["spec", "service"],
                    "properties": {"metadata": {}, "spec": {"type": "object"}, "service": {"type": "object"}},
                },
            },
        },
    },
}


def tool(name: str) -> str:
    """Return the path of a program that comes with the `dev` extra, or stands on PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is neither beside Python nor on PATH: install the dev extra"
    return found


def dockerfile_problems(text: str) -> list[str]:
    """Hadolint's findings, and stages that run as root."""
    found = subprocess.run([tool("hadolint"), "--format", "json", "-"], input=text, capture_output=True, text=True)
    problems = [f"{item['code']} {item['message']}" for item in json.loads(found.stdout)]
    users: dict[str, str] = {}
    stage = ""
    for line in text.splitlines():
        if match := re.match(r"FROM (\S+) AS (\S+)", line):
            stage = match[2]
            users[stage] = users.get(match[1], "0")
        elif match := re.match(r"USER (\w+)", line):
            users[stage] = match[1]
    return problems + [
        f"stage {stage} runs as {users.get(stage)}"
        for stage in ("cpu", "cuda", "beam")
        if not re.fullmatch(r"[1-9]\d*", users.get(stage, ""))
    ]


def render(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the manifests that `kubectl apply --kustomize` would send, and what kubectl has against them."""
    done = subprocess.run([tool("kubectl"), "kustomize", str(folder)], capture_output=True, text=True, timeout=60)
    if done.returncode or done.stderr:
        return [], [done.stderr.strip()]
    return list(yaml.safe_load_all(done.stdout)), []


def kustomization_problems(folder: Path) -> list[str]:
    """Everything that is wrong with one kustomization, rendered."""
    manifests, problems = render(folder)
    for manifest in manifests:
        name = f"{manifest.get('kind')} {manifest.get('metadata', {}).get('name')}"
        problems += [f"{name}: {problem}" for problem in (*schema_problems(manifest), *policy_problems(manifest))]
    return problems or _command_problems(manifests)


def schema_problems(manifest: dict[str, Any]) -> list[str]:
    """What Kubernetes' own schemas say, unknown fields included."""
    try:
        if manifest.get("kind") != "DaskCluster":
            for version in KUBERNETES:
                kubernetes_validate.validate(manifest, version, strict=True)
            return []
        jsonschema.validate(manifest, DASK_CLUSTER)
    except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
        return [f"{'.'.join(map(str, error.path))}: {error.message}"]
    except (kubernetes_validate.SchemaNotFoundError, KeyError) as error:
        return [f"no schema: {error!r}"]
    return [problem for part in operator_parts(manifest) for problem in schema_problems(part)]


def operator_parts(cluster: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the Dask operator makes of a DaskCluster: two kinds of Deployment, one Service."""
    name = cluster["metadata"]["name"]
    for role in ("scheduler", "worker"):
        labels = {"dask.org/cluster-name": name, "dask.org/component": role}
        template = {"metadata": {"labels": labels}, "spec": cluster["spec"][role]["spec"]}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"{name}-{role}"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{name}-scheduler"},
        "spec": cluster["spec"]["scheduler"]["service"],
    }


def pods(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every pod specification in a manifest, however deep."""
    if isinstance(manifest.get("containers"), list):
        yield manifest
    for value in manifest.values():
        if isinstance(value, dict):
            yield from pods(value)


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """The containers of a pod, those that go first included."""
    return [*pod.get("initContainers", []), *pod["containers"]]


def policy_problems(manifest: dict[str, Any]) -> list[str]:
    """What every schema allows and we don't."""
    problems = ["holds a secret: make it by hand"] if manifest.get("kind") == "Secret" else []
    for pod in pods(manifest):
        security = pod.get("securityContext", {})
        if not security.get("runAsNonRoot") or not security.get("runAsUser"):
            problems.append("runs as root")
        for container in containers(pod):
            name, own = container.get("name"), container.get("securityContext", {})
            if own.get("runAsUser", 1) == 0 or own.get("runAsNonRoot") is False:
                problems.append(f"{name} runs as root")
            if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities", {}).get("drop") != ["ALL"]:
                problems.append(f"{name} keeps privileges")
            if own.get("readOnlyRootFilesystem") is not True:
                problems.append(f"{name} can write to its image")
            if not re.search(r"@sha256:[0-9a-f]{64}$|:(?!latest$)[\w.-]+$", container.get("image", "")):
                problems.append(f"{name}'s image {container.get('image')} is not pinned")
            resources = container.get("resources", {})
            if not {"cpu", "memory"} <= set(resources.get("requests", {})) or "memory" not in resources.get(
                "limits", {}
            ):
                problems.append(f"{name} has no share of CPU and memory")
            problems += [
                f"{name} has {item['name']} in clear text"
                for item in container.get("env", [])
                if SECRET_NAME.search(item["name"]) and "value" in item
            ]
    return problems


def _command_problems(manifests: list[dict[str, Any]]) -> list[str]:
    """Commands of containers that can't be parsed, jobs that can't run, and addresses and resources that nobody has."""
    files = {name: text for item in manifests for name, text in item.get("data", {}).items()}
    problems, offered = [], set()
    jobs = []
    for container in [each for item in manifests for pod in pods(item) for each in containers(pod)]:
        if "command" in container:
            try:
                offered |= _dask_resources(container["command"])
            except Exception as error:  # whatever click or distributed makes of it
                problems.append(f"{' '.join(container['command'])}: {error}")
        else:
            found, job = spanmarker_problems(container.get("args", []), files)
            problems += found
            jobs += [job] if job else []
    addresses = {f"tcp://{name}:{port}" for name, port in _services(manifests)}
    for job in jobs:
        if job.scheduler and job.scheduler not in addresses:
            problems.append(f"nothing listens at {job.scheduler}, only at {sorted(addresses)}")
        problems += [f"no worker has {name}" for name in job.resources if name not in offered]
    return problems


def _services(manifests: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    made = [part for item in manifests if item.get("kind") == "DaskCluster" for part in operator_parts(item)]
    for item in [*manifests, *made]:
        if item.get("kind") == "Service":
            yield from ((item["metadata"]["name"], port["port"]) for port in item["spec"]["ports"])


def _dask_resources(command: list[str]) -> set[str]:
    """Parse a `dask scheduler` or `dask worker` as Dask does; return the names of the resources that it offers."""
    from distributed.cli import dask_scheduler, dask_worker

    if command[0] != "dask":
        raise ValueError("not a dask command")
    kind = {"scheduler": dask_scheduler, "worker": dask_worker}[command[1]]
    params = kind.main.make_context(f"dask {command[1]}", command[2:]).params
    return {pair.partition("=")[0] for pair in (params.get("resources") or "").split()}


def spanmarker_problems(
    arguments: list[str], files: dict[str, str] | None = None
) -> tuple[list[str], TagJob | PrepareJob | None]:
    """Parse the arguments of a `spanmarker`, and check the job that they make. `files` are those of a ConfigMap."""
    command: Any = typer.main.get_command(app)
    words = list(arguments)
    shown = shlex.join(["spanmarker", *words])
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands:
            return [f"{shown}: no command {words[0]!r}"], None
        command = command.commands[words.pop(0)]
    if not words:
        return [], None  # a command by its name alone, in prose
    try:
        context = command.make_context(arguments[0], words)
    except TyperException as error:
        return [f"{shown}: {error}"], None
    if arguments[0] not in JOBS:
        return [], None
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in context.params.items()}
    path, options["beam_options"] = options.pop("job"), words_after(context)
    for name in ("text", "dry_run"):  # not of a job
        options.pop(name, None)
    try:
        if path is None or files is None:
            return [], read_job(JOBS[arguments[0]], path and str(ROOT / path), options)
        folder, _, name = path.rpartition("/")
        if folder != "/etc/spanmarker" or name not in files:
            return [f"{shown}: no {path} among {sorted(files)}"], None
        return [], _job_of(files[name], JOBS[arguments[0]], options)
    except PipelineError as error:
        return [f"{shown}: {error}"], None


def _job_of(text: str, kind: type, options: dict[str, Any]) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return read_job(kind, file.name, options)


def commands_in(text: str) -> list[list[str]]:
    """The arguments of every `spanmarker ...` in a text: at the start of a line, in backticks, or in a `docker run`."""
    joined = re.sub(r"\\\n[ #]*", " ", text)
    found = re.findall(r"^[ #$]*((?:spanmarker|docker run) .*)$", joined, re.M)
    found += re.findall(r"`(spanmarker [^`]*)`", joined)
    commands = []
    for line in found:
        words = shlex.split(line.split(" # ")[0], comments=False)
        if words[0] == "docker":
            image = next((n for n, word in enumerate(words) if re.search(r"spanmarker:[\w.]+-(cpu|cuda)$", word)), None)
            if image is None:
                continue
            words = words[image:]
        commands.append(words[1:])
    return commands
