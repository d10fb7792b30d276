"""Alerts and dashboard name metrics and labels that runs write; promtool and a real Pushgateway agree, if installed."""

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.request
from itertools import combinations

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pipelines.output.progress_file import RunState
from pipelines.report.run_counts import RunCounts
from pipelines.runs.prometheus import GAUGES, Metrics
from tests.services.infra.checks import INFRA
from tests.services.servers.seaweed import free_ports
from tests.support.processes import wait_for

RULES = yaml.safe_load((INFRA / "monitoring" / "alerts.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["spec"]["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((INFRA / "monitoring" / "dashboard.json").read_text())
QUERIES = {
    f"{panel['title']}: {n}": target["expr"]
    for panel in DASHBOARD["panels"]
    for n, target in enumerate(panel["targets"])
}
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
OUTPUT = "s3://corpus/my entities"
HOUR = 60


def unknown(query):
    """Metrics and labels in a query that no run writes."""
    metrics = set(re.findall(r"\bspanmarker_\w+", query))
    known = {f"spanmarker_{name}": label for name, (_, label) in GAUGES.items()}
    labels = {name for names in re.findall(r"\b(?:by|on) \(([\w, ]+)\)", query) for name in names.split(", ")}
    labels |= set(re.findall(r"(\w+)[!=]~?\"", query))
    return metrics - known.keys(), labels - {"output", *(known.get(metric, "") for metric in metrics)}


@pytest.mark.default
@pytest.mark.parametrize("query", [*(rule["expr"] for rule in ALERTS.values()), *QUERIES.values()])
def test_queries_name_what_runs_write(query):
    assert unknown(query) == (set(), set())
    assert "spanmarker_" in query


@pytest.mark.default
def test_what_no_run_writes_is_seen():
    query = 'sum by (status) (spanmarker_run_nothing{output="a"}) / sum by (code, label) (spanmarker_run_rejects)'
    assert unknown(query) == ({"spanmarker_run_nothing"}, {"status", "label"})
    assert VARIABLES["output"]["definition"] == "label_values(spanmarker_run_start_timestamp_seconds, output)"


@pytest.mark.default
def test_alerts_are_a_rule_of_the_operator_and_panels_do_not_overlap():
    assert (RULES["apiVersion"], RULES["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert all({"summary", "description"} == rule["annotations"].keys() for rule in ALERTS.values())
    assert "$labels.output" in "".join(rule["annotations"]["summary"] for rule in ALERTS.values())
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        for at in (panel["gridPos"] for panel in panels)
    ]
    assert not any(one & other for one, other in combinations(cells, 2))
    assert max(x for each in cells for x, _ in each) < 24  # Grafana's columns


def program(name):
    """Path of a program of Prometheus; the test is skipped where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on PATH: install Debian's packages prometheus and prometheus-pushgateway")
    return found


def promtool(*words):
    done = subprocess.run([program("promtool"), *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_parses_all_queries(tmp_path):
    rules = [
        {"record": f"query:{n}", "expr": query.replace("$output", ".*")} for n, query in enumerate(QUERIES.values())
    ]
    groups = [*RULES["spec"]["groups"], {"name": "dashboard", "rules": rules}]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
    promtool("check", "rules", str(tmp_path / "rules.yml"))


def series(values, **metrics):
    """Series of an output for promtool: one value each minute. `_` is a minute without one."""
    return [
        {"series": f'spanmarker_{name}{{output="out"}}', "values": text} for name, text in (values | metrics).items()
    ]


#: A run that starts at second 60 and ends at second 600 with success, and nothing after it.
ENDED = {
    "run_start_timestamp_seconds": "_ 60x3000",
    "run_success": "_ 0x8 1x2990",
    "run_finish_timestamp_seconds": "_x9 600x2990",
    "run_exit_code": "_x9 0x2990",
    "run_done_bytes": "_ 0+10x8 90x2990",
    "run_all_rejects": "_ 0x3000",
    "run_documents": "_ 100x3000",
}
#: name of the case -> series, minute -> alerts that are active then
CASES = {
    "a success": (series(ENDED), {HOUR: [], 26 * HOUR: [], 27 * HOUR: ["SpanmarkerNoSuccess"]}),
    "a failure": (
        series(ENDED, run_success="_ 0x3000", run_exit_code="_x9 4x2990"),
        {20: [], HOUR: ["SpanmarkerRunFailed"], 27 * HOUR: ["SpanmarkerNoSuccess", "SpanmarkerRunFailed"]},
    ),
    "a process that was killed": (
        series(
            {name: ENDED[name] for name in ("run_start_timestamp_seconds", "run_done_bytes")}, run_success="_ 0x3000"
        ),
        {30: [], 2 * HOUR: ["SpanmarkerStalled"], 27 * HOUR: ["SpanmarkerNoSuccess", "SpanmarkerStalled"]},
    ),
    "a long run": (
        series(
            {"run_start_timestamp_seconds": "_ 60x3000", "run_success": "_ 0x3000", "run_done_bytes": "_ 0+10x3000"}
        ),
        {2 * HOUR: [], 25 * HOUR: []},
    ),
    "rejects": (series(ENDED, run_all_rejects="_ 2x3000"), {4: [], 30: ["SpanmarkerRejects"]}),
    "rejects of earlier runs": (
        series(ENDED, run_documents="_ 0x3000", output_all_rejects="_x9 2x2990", output_documents="_x9 100x2990"),
        {HOUR: ["SpanmarkerRejects"]},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_alerts_are_raised_when_they_should_be(case, tmp_path):
    given, expected = CASES[case]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(RULES["spec"]))
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    tests = [
        {
            "expr": query,
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names],
        }
        for minute, names in expected.items()
    ]
    test = {"interval": "1m", "input_series": given, "promql_expr_test": tests}
    (tmp_path / "tests.yml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]})
    )
    promtool("test", "rules", str(tmp_path / "tests.yml"))


@contextlib.contextmanager
def pushgateway():
    """A Pushgateway; yields its URL."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    process = subprocess.Popen([program("prometheus-pushgateway"), f"--web.listen-address={address}"])
    try:
        wait_for(lambda: answers(f"http://{address}/-/ready"), 30, process)
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def answers(url):
    try:
        return urllib.request.urlopen(url, timeout=5).status == 200
    except OSError:
        return False


def scraped(url):
    """What Prometheus would scrape from a gateway: (name, labels) -> value."""
    text = urllib.request.urlopen(f"{url}/metrics", timeout=5).read().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("job") == "spanmarker"
    }


def test_a_gateway_takes_what_is_pushed_and_each_push_replaces_the_last():
    warnings, own = [], (("instance", ""), ("job", "spanmarker"), ("output", OUTPUT))
    with pushgateway() as url:
        with Metrics(None, OUTPUT, RunCounts(), url, warnings.append) as metrics:
            metrics.state = lambda: RunState("", "", 3, 1, 90, 30, 5, 400, 7, 0, 200.0, 12.5)
            metrics.begin()
            wait_for(lambda: scraped(url), 30)
            found = scraped(url)
            assert found["spanmarker_run_eta_seconds", *own] == 12.5
            assert found["spanmarker_run_success", *own] == 0
        found = scraped(url)
        assert found["spanmarker_run_success", *own] == 1
        assert found["spanmarker_run_exit_code", *own] == 0
        assert ("spanmarker_run_eta_seconds", *own) not in found
        assert found["push_failure_time_seconds", *own] == 0
        assert found["push_time_seconds", *own] == pytest.approx(time.time(), abs=60)
    assert warnings == []
