"""What `--metrics-push` sends, as a plain HTTP server receives it. tests/services/servers has a real Pushgateway."""

import base64
import http.server
import threading
import time
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.errors import PipelineError
from pipelines.jobs.gateway import parse_gateway, without_login
from pipelines.jobs.job_file import read_job
from pipelines.jobs.tag import TagJob
from pipelines.report.run_counts import RunCounts
from pipelines.runs import prometheus, pushgateway
from pipelines.runs.prometheus import Metrics
from tests.support.processes import wait_for

OUTPUT = "/data/my out"


@contextmanager
def gateway(status=200, delay=0.0):
    """A server that stores requests as (method, path, headers, body); yields its port and the requests."""
    requests, over = [], threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.command, self.path, dict(self.headers), body))
            over.wait(delay)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, requests
        finally:
            over.set()
            server.shutdown()
            thread.join()


def values(body):
    """Name of each series without labels, except the output -> value."""
    families = text_string_to_metric_families(body.decode())
    return {
        sample.name: sample.value for each in families for sample in each.samples if set(sample.labels) == {"output"}
    }


def test_a_push_replaces_the_group_of_the_output():
    with gateway() as (port, requests), Metrics(None, OUTPUT, RunCounts(), f"http://127.0.0.1:{port}/base/") as metrics:
        metrics.begin()
        wait_for(lambda: requests)
    (first, last) = requests
    group = base64.urlsafe_b64encode(OUTPUT.encode()).decode()  # the form that the gateway wants for values with /
    for method, path, headers, _ in requests:
        assert (method, path) == ("PUT", f"/base/metrics/job/spanmarker/output@base64/{group}")
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert "Authorization" not in headers
    assert values(first[3])["spanmarker_run_success"] == 0
    assert "spanmarker_run_finish_timestamp_seconds" not in values(first[3])
    assert values(last[3])["spanmarker_run_success"] == 1
    assert values(last[3])["spanmarker_run_finish_timestamp_seconds"] == pytest.approx(time.time(), abs=60)


def test_it_is_repeated_and_the_last_push_tells_a_failure(monkeypatch):
    monkeypatch.setattr(prometheus, "PUSH_INTERVAL", 0.02)

    def fail_after(pushes):
        with Metrics(None, OUTPUT, RunCounts(), f"http://127.0.0.1:{port}") as metrics:
            metrics.begin()
            wait_for(lambda: len(requests) >= pushes)
            raise RuntimeError

    with gateway() as (port, requests):
        with pytest.raises(RuntimeError):
            fail_after(3)
        assert values(requests[-1][3])["spanmarker_run_exit_code"] == 1
        assert "spanmarker_run_exit_code" not in values(requests[-2][3])


@pytest.mark.parametrize("code", ["output.busy", "output.lock_lost"])
def test_a_run_that_has_not_its_output_leaves_its_group_to_the_one_that_has(code):
    with gateway() as (port, requests):
        with (
            pytest.raises(PipelineError, match=code),
            Metrics(None, OUTPUT, RunCounts(), f"http://127.0.0.1:{port}"),
        ):
            raise PipelineError(code, path="o", holder="another")
        assert requests == []


def test_a_login_is_sent_as_basic_authentication():
    with gateway() as (port, requests):
        url = f"http://na%40me:pass%3Aword@127.0.0.1:{port}"
        with Metrics(None, OUTPUT, RunCounts(), url) as metrics:
            metrics.begin()
    expected = base64.b64encode(b"na@me:pass:word").decode()
    assert {headers["Authorization"] for _, _, headers, _ in requests} == {f"Basic {expected}"}
    assert not any("word" in path for _, path, _, _ in requests)


@pytest.mark.parametrize("fault", ["refused", "error", "silent"])
def test_a_gateway_that_fails_is_one_warning(fault, monkeypatch):
    monkeypatch.setattr(prometheus, "PUSH_INTERVAL", 0.02)
    monkeypatch.setattr(pushgateway, "_TIMEOUT", 0.1)
    warnings = []
    with gateway(503, 60 if fault == "silent" else 0) as (port, requests):
        url = f"http://name:hush@127.0.0.1:{1 if fault == 'refused' else port}"
        with Metrics(None, OUTPUT, RunCounts(), url, warnings.append) as metrics:
            metrics.begin()
            wait_for(lambda: warnings if fault == "refused" else len(requests) > 1)
    (warning,) = warnings
    assert warning.code == "metrics.not_pushed"
    assert warning.values["url"].startswith("http://…@127.0.0.1:")
    assert "hush" not in str(warning)


def test_a_host_name_that_cannot_exist_is_a_warning_too():
    warnings = []
    with Metrics(None, OUTPUT, RunCounts(), "http://a..b:9091", warnings.append) as metrics:
        metrics.begin()
    assert [warning.code for warning in warnings] == ["metrics.not_pushed"]


@pytest.mark.parametrize(
    "url",
    [
        "gateway:9091",
        "ftp://a:hush@b",
        "http://",
        "http://a:hush",
        "http://a:hu/sh@b",
        "http://a?token=hush",
        "http://[hush",
    ],
)
def test_what_is_not_the_url_of_a_gateway_is_refused_without_being_shown(url):
    with pytest.raises(ValueError, match="Pushgateway") as caught:
        parse_gateway(url)
    assert "hush" not in str(caught.value)
    assert without_login(url) == "…"
    with pytest.raises(PipelineError, match=r"job.invalid") as refused:
        read_job(TagJob, None, {"input": ["in"], "output": "out", "metrics_push": url})
    assert "--metrics-push" in str(refused.value)
    assert "hush" not in str(refused.value)
