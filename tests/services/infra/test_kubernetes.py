"""The manifests, rendered by kubectl and judged by Kubernetes' own schemas; and each kind of mistake is seen."""

import importlib.util
from pathlib import Path

import jsonschema
import pytest
import yaml

from pipelines.errors import EXIT_CODES, EXIT_FAULT
from tests.services.infra.checks import INFRA, kustomization_problems, pods, render

FOLDER = INFRA / "kubernetes"
KUSTOMIZATIONS = ("job", "dask", "dask-operator", "dask-gpu")
CRON = "base/cronjob.yaml"
WORKER = "dask/worker.yaml"
CLUSTER = "dask-operator/cluster.yaml"


@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_clean(name):
    pytest.importorskip("distributed")  # its own parser reads the commands of scheduler and workers
    assert kustomization_problems(FOLDER / name) == []


def test_all_files_are_used():
    used = set()
    for folder in (*KUSTOMIZATIONS, "base"):
        named = yaml.safe_load((FOLDER / folder / "kustomization.yaml").read_text())
        files = [file for entry in named.get("configMapGenerator", []) for file in entry["files"]]
        files += [patch["path"] for patch in named.get("patches", []) if "path" in patch]
        used |= {f"{folder}/{file}" for file in [*files, *named["resources"], "kustomization.yaml"]}
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert there <= used


def one(manifests, kind, name=None):
    return next(item for item in manifests if item["kind"] == kind and name in (None, item["metadata"]["name"]))


def test_values_of_the_kustomization_arrive():
    manifests, problems = render(FOLDER / "dask-gpu")
    assert not problems
    images = {item["image"] for manifest in manifests for pod in pods(manifest) for item in pod["containers"]}
    assert images == {"registry.example.com/spanmarker:0.1.0-cpu", "registry.example.com/spanmarker:0.1.0-cuda"}
    assert one(manifests, "Deployment", "spanmarker-worker")["spec"]["replicas"] == 4
    assert one(manifests, "Deployment", "spanmarker-worker-gpu")["spec"]["replicas"] == 2
    volume = next(pods(one(manifests, "CronJob")))["volumes"][0]
    assert volume["configMap"]["name"] == one(manifests, "ConfigMap")["metadata"]["name"]


def test_the_operator_makes_what_the_deployments_were():
    manifests, problems = render(FOLDER / "dask-operator")
    assert not problems
    assert not {item["kind"] for item in manifests} & {"Deployment", "Service", "NetworkPolicy"}
    assert one(manifests, "DaskCluster")["spec"]["worker"]["replicas"] == 4


def test_exit_codes_are_treated_as_documented():
    again = {EXIT_CODES["shards.failed"], EXIT_CODES["output.busy"]}
    end = {EXIT_FAULT, 2, EXIT_CODES["rejects.too_many"]}
    assert again | end == {EXIT_FAULT, 2, *EXIT_CODES.values()}, "another exit code: say here what it means"
    cron = yaml.safe_load((FOLDER / CRON).read_text())["spec"]
    rules = cron["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    codes = {rule["action"]: set(rule["onExitCodes"]["values"]) for rule in rules if "onExitCodes" in rule}
    assert codes == {"FailJob": end, "Count": again}
    assert cron["concurrencyPolicy"] == "Forbid"
    assert cron["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] == "Never", "a failure policy needs it"


@pytest.mark.parametrize(
    ("where", "file", "old", "new", "problem"),
    [
        # kubectl
        ("job", CRON, "kind: CronJob\n", "", "missing kind in object"),
        ("job", CRON, "  schedule:", " schedule:", "yaml"),
        ("job", CRON, "  schedule:", "  schedule: x\n  schedule:", "already defined"),
        ("job", "base/kustomization.yaml", "cronjob.yaml", "cron.yaml", "no such file"),
        ("job", "job/kustomization.yaml", "namespace:", "nmspace:", "unknown field"),
        ("dask", "dask/kustomization.yaml", "path: /spec/jobT", "path: /spec/jobsT", "missing path"),
        ("dask", "dask/kustomization.yaml", "spanmarker-worker", "spanmarker-wrker", "does not match a config"),
        # Kubernetes' schemas
        ("job", CRON, "backoffLimit", "backoffLimits", "backoffLimits"),
        ("job", CRON, "backoffLimit: 5", "backoffLimit: five", "not of type"),
        ("job", CRON, "concurrencyPolicy: Forbid", "concurrencyPolicy: 3", "not of type"),
        ("job", CRON, '  schedule: "15 2 * * *"\n', "", "'schedule' is a required property"),
        ("job", CRON, "operator: In, ", "", "'operator' is a required property"),
        ("dask", WORKER, "    matchLabels:", "    matchLabel:", "matchLabel"),
        ("dask", "dask/scheduler.yaml", "port: 8786,", "prt: 8786,", "'port' is a required property"),
        ("dask-operator", CLUSTER, "  worker:\n", "  workers:\n", "doc is missing path"),
        ("dask-operator", CLUSTER, "terminationGracePeriodSeconds: 60", "terminationGrace: 60", "terminationGrace"),
        ("dask-operator", CLUSTER, "port: 8787", 'port: "x"', "not of type"),
        ("dask-operator", CLUSTER, "    service:\n", "    servce:\n", "servce"),
        # what schemas leave open
        ("job", CRON, "runAsNonRoot: true", "runAsNonRoot: false", "runs as root"),
        ("job", CRON, "runAsUser: 10001", "runAsUser: 0", "runs as root"),
        ("dask", WORKER, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "can write to its image"),
        ("dask-operator", CLUSTER, "drop: [ALL]", "drop: []", "keeps privileges"),
        ("job", "job/kustomization.yaml", "newTag: 0.1.0-cpu", "newTag: latest", "is not pinned"),
        ("job", "job/kustomization.yaml", "newTag: 0.1.0-cpu", "", "is not pinned"),
        ("dask-gpu", "dask-gpu/kustomization.yaml", "name: spanmarker-cuda", "name: spanmarker-coda", "is not pinned"),
        ("dask", WORKER, 'cpu: "2", memory: 4Gi', 'cpu: "2"', "no share"),
        (
            "job",
            CRON,
            "              envFrom:",
            "              env: [{name: AWS_SECRET_ACCESS_KEY, value: abc}]\n              envFrom:",
            "AWS_SECRET_ACCESS_KEY in clear text",
        ),
        (
            "job",
            "base/serviceaccount.yaml",
            "apiVersion: v1\n",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {A: b}\n---\napiVersion: v1\n",
            "holds a secret",
        ),
        # commands and jobs
        ("job", CRON, "[tag, --job", "[tagg, --job", "no command 'tagg'"),
        ("job", CRON, "[tag, --job", "[tag, --jobb", "No such option: --jobb"),
        ("job", CRON, "spanmarker/tag.toml]", "spanmarker/tags.toml]", "no /etc/spanmarker/tags.toml"),
        ("job", "job/tag.toml", "workers = 2", "wrkers = 2", "wrkers"),
        ("job", "job/tag.toml", "workers = 2", "workers = 0", "0 is less than 1"),
        ("job", "job/tag.toml", "input =", "inpt =", "inpt"),
        ("dask", WORKER, "--nthreads=1", "--n-threads=1", "No such option"),
        ("dask", WORKER, "- dask\n", "- dask-wrker\n", "not a dask command"),
        ("dask", "dask/tag.toml", "scheduler:8786", "scheduler:8787", "nothing listens at"),
        ("dask-operator", CLUSTER, "  name: spanmarker\n", "  name: other\n", "nothing listens at|no matches"),
        ("dask-gpu", "dask-gpu/worker-gpu.yaml", "--resources=GPU=1", "--resources=gpu=1", "no worker has GPU"),
    ],
)
def test_a_mistake_is_seen(planted, where, file, old, new, problem):
    pytest.importorskip("distributed")
    found = "\n".join(kustomization_problems(planted(file, old, new) / where))
    assert any(part in found for part in problem.split("|")), found or "nothing was seen"


def test_the_cluster_fits_the_operators_own_schema():
    wheel = importlib.util.find_spec("dask_kubernetes")
    if wheel is None:
        pytest.skip("needs: pip install --no-deps dask-kubernetes==2026.3.0")
    charts = Path(wheel.submodule_search_locations[0]) / "operator/deployment/helm/dask-kubernetes-operator"
    schema = yaml.safe_load((charts / "crds/daskcluster.yaml").read_text())["spec"]["versions"][0]["schema"]
    manifests, _ = render(FOLDER / "dask-operator")
    cluster = one(manifests, "DaskCluster")
    jsonschema.validate(cluster, schema["openAPIV3Schema"])
    cluster["spec"]["worker"]["spec"]["containers"][0]["command"] = "dask worker"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(cluster, schema["openAPIV3Schema"])
