"""The DAG: its command parses; with an Airflow at hand it is loaded, and the pod that it asks for is judged."""

import ast
import os
import subprocess

import pytest
import yaml

from pipelines.errors import EXIT_CODES
from tests.services.infra.checks import INFRA, policy_problems, schema_problems, spanmarker_problems

DAG = INFRA / "airflow" / "spanmarker_dag.py"

PROBE = """
import importlib.util, sys, warnings, yaml
from kubernetes.client import ApiClient
warnings.simplefilter("error", DeprecationWarning)
spec = importlib.util.spec_from_file_location("spanmarker_dag", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
(task,) = module.dag.tasks
pod = ApiClient().sanitize_for_serialization(task.build_pod_request_obj())
open(sys.argv[2], "w").write(yaml.safe_dump(pod))
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: none
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: none, user: {}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
"""


def constants(text):
    """The values at the top of the DAG's file, and the arguments of its one operator."""
    tree = ast.parse(text)
    values = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names = [name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)]
            value = ast.literal_eval(node.value)
            values |= dict(zip(names, value if len(names) > 1 else [value], strict=True))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (operator,) = [call for call in calls if getattr(call.func, "id", "") == "KubernetesPodOperator"]
    return values, {item.arg: item.value for item in operator.keywords}


def test_the_command_parses():
    values, arguments = constants(DAG.read_text())
    assert spanmarker_problems(values["TAG"])[0] == []
    assert arguments["arguments"].id == "TAG"
    assert arguments["skip_on_exit_code"].value == EXIT_CODES["output.busy"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("--max-rejects", "--max-reject", "No such option"),
        ("--threads=2", "--threads=two", "two"),
        ('"tag",', '"tags",', "no command 'tags'"),
        ("--output=", "--model=", "output"),
    ],
)
def test_a_mistake_is_seen(old, new, problem):
    text = DAG.read_text()
    assert old in text
    assert problem in "".join(spanmarker_problems(constants(text.replace(old, new, 1))[0]["TAG"])[0])


@pytest.mark.skipif("AIRFLOW_PYTHON" not in os.environ, reason="AIRFLOW_PYTHON names no Python that has Airflow 3")
def test_airflow_loads_it_and_the_pod_is_sound(tmp_path):
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    environment = os.environ | {"AIRFLOW_HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "kubeconfig")}
    environment.pop("PYTHONPATH", None)
    python = [os.environ["AIRFLOW_PYTHON"], "-c", PROBE]

    def load(text):
        (tmp_path / "dag.py").write_text(text)
        command = [*python, str(tmp_path / "dag.py"), str(tmp_path / "pod.yaml")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    done = load(DAG.read_text())
    assert done.returncode == 0, done.stderr
    pod = yaml.safe_load((tmp_path / "pod.yaml").read_text())
    assert schema_problems(pod) == []
    assert policy_problems(pod) == []
    assert "skip_on_exit_cod'" in load(DAG.read_text().replace("skip_on_exit_code", "skip_on_exit_cod")).stderr
