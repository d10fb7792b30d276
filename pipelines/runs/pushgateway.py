"""Pushes metrics to a Prometheus Pushgateway, for `--metrics-push`."""

from collections.abc import Callable
from http.client import HTTPException
from urllib.parse import unquote, urlunsplit

from prometheus_client.exposition import basic_auth_handler, push_to_gateway
from prometheus_client.registry import Collector

from pipelines.errors import PipelineError
from pipelines.jobs.gateway import parse_gateway, without_login

#: Value of the grouping key `job`, which all runs share.
JOB = "spanmarker"
#: Seconds after which the gateway counts as not reached.
_TIMEOUT = 5.0


class Pushgateway:
    """A gateway to which a run pushes its metrics. A gateway that fails causes one warning, and never an error.

    Each push replaces the group that consists of `job="spanmarker"` and the output.

    Args:
        url: URL of the gateway; a login in it is sent as basic authentication.
        output: value of the grouping key `output`.
        warn: receives the error of the first push that fails.
    """

    def __init__(self, url: str, output: str, warn: Callable[[PipelineError], None]) -> None:
        parts = parse_gateway(url)
        login, mark, host = parts.netloc.rpartition("@")
        name, _, password = login.partition(":")
        self._login = (unquote(name), unquote(password)) if mark else (None, None)
        self._url = urlunsplit(parts._replace(netloc=host))
        self._shown, self._output, self._warn = without_login(url), output, warn
        self._warned = False

    def push(self, metrics: Collector) -> None:
        """Replace the metrics of the output in the gateway.

        Args:
            metrics: the metrics.
        """
        try:
            push_to_gateway(
                self._url,
                job=JOB,
                registry=metrics,
                grouping_key={"output": self._output},
                timeout=_TIMEOUT,
                handler=self._handler,
            )
        except (OSError, HTTPException, UnicodeError) as error:  # the last for a host name such as a..b
            if not self._warned:
                self._warned = True
                self._warn(PipelineError("metrics.not_pushed", url=self._shown, reason=error))

    def _handler(
        self, url: str, method: str, timeout: float | None, headers: list[tuple[str, str]], data: bytes
    ) -> Callable[[], None]:
        return basic_auth_handler(url, method, timeout, headers, data, *self._login)
