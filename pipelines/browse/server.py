"""HTTP server for the pages, local and read-only.

It listens on 127.0.0.1. A website can make its own host name resolve to that address, so requests must name this
machine in their Host header. Response headers forbid everything that a page does not need: foreign scripts and styles,
frames, embedding, caching, and referrers.
"""

import contextlib
import http.server
import re
import socketserver
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, ClassVar

from pipelines.browse.clients import Clients
from pipelines.browse.problems import Problem
from pipelines.errors import PipelineError
from pipelines.pages import policy
from spanmarker_core.errors import CodedError

HOST = "127.0.0.1"
#: Maximum length of a URL in bytes.
MAX_ADDRESS = 8192
#: Maximum number of concurrent requests; further ones are rejected.
_MOST_REQUESTS = 32
_OUR_NAMES = {"127.0.0.1", "localhost", "[::1]"}

Answer = Callable[[str, str], bytes]  # (path, query) -> page; raises Problem
Told = Callable[[Problem], bytes]


class Server(http.server.ThreadingHTTPServer):
    """Answers GET and HEAD requests on a port of 127.0.0.1.

    Args:
        port: the port; 0 selects a free one.
        answer: returns the page for a path and a query string.
        told: returns the page for a problem.

    Raises:
        PipelineError: `browse.port_unusable`.
    """

    daemon_threads = True
    #: Number of connections that the system queues until they are accepted.
    request_queue_size = 128

    def __init__(self, port: int, answer: Answer, told: Told) -> None:
        self.answer, self.told = answer, told
        self.room = threading.BoundedSemaphore(_MOST_REQUESTS)
        self.clients = Clients()
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PipelineError("browse.port_unusable", port=port, reason=reason) from error

    def server_bind(self) -> None:
        """Bind the socket without looking up the name of this machine."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    @property
    def url(self) -> str:
        """Return the URL of the start page."""
        return f"http://{HOST}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a new thread; if there are too many connections, the slowest client is disconnected.

        Args:
            request: socket of the connection.
            client_address: address of the client.
        """
        self.clients.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection.

        Args:
            request: socket of the connection.
        """
        self.clients.remove(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections that exceeded their time limit. `serve_forever` calls this several times per second."""
        self.clients.close_late()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected; report any other error, which is a bug.

        Args:
            request: socket of the connection.
            client_address: address of the client.
        """
        if not isinstance(sys.exception(), OSError):
            traceback.print_exc()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "spanmarker", ""
    #: One request per connection, so that no trailing data is taken for another request.
    protocol_version = "HTTP/1.0"
    _HEADERS: ClassVar[dict[str, str]] = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy(forms=True) + "; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }

    def do_GET(self) -> None:
        """Answer a GET request."""
        path, _, query = self.path.partition("?")
        try:
            self._check()
            with self._place():
                page = self._answer(path, query.partition("#")[0])
            self._send(HTTPStatus.OK, page)
        except Problem as problem:
            self._send(problem.status, self.server.told(problem))

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer an invalid request or an unsupported method.

        Args:
            code: HTTP status.
            message: unused.
            explain: unused.
        """
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        words = "Pages can only be read." if status == HTTPStatus.METHOD_NOT_ALLOWED else status.description
        self._send(status, self.server.told(Problem(status, status.phrase, words)))

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests.

        Args:
            format: unused.
            args: unused.
        """

    @contextlib.contextmanager
    def _place(self) -> Iterator[None]:
        """Occupy one of the slots for concurrent requests. Waiting for a client takes no slot.

        Raises:
            Problem: all slots are taken.
        """
        if not self.server.room.acquire(blocking=False):
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE, "Too many at once", "Other pages are being made. Load this one again."
            )
        try:
            with self.server.clients.answering(self.connection):
                yield
        finally:
            self.server.room.release()

    def _answer(self, path: str, query: str) -> bytes:
        """Return a page.

        Raises:
            Problem: the page cannot be shown; no other exception is raised.
        """
        try:
            return self.server.answer(path, query)
        except CodedError as error:
            raise Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "The output can't be read", str(error)) from error
        except Problem:
            raise
        except Exception as error:
            traceback.print_exc()
            words = "The page could not be made; the terminal that spanmarker browse runs in says why."
            raise Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "A fault of this program", words) from error

    def _check(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or _host(hosts[0]) not in _OUR_NAMES:
            words = "This page is for this machine only. Open it as the terminal says, by 127.0.0.1 or localhost."
            raise Problem(HTTPStatus.FORBIDDEN, "Not this machine", words)
        if len(self.path) > MAX_ADDRESS:
            raise Problem(HTTPStatus.REQUEST_URI_TOO_LONG, "Too long", f"An address has at most {MAX_ADDRESS:,} bytes.")
        if not self.path.startswith("/") or self.path.startswith("//"):
            raise Problem(HTTPStatus.BAD_REQUEST, "Not an address", "An address begins with one slash.")

    def _send(self, status: HTTPStatus, page: bytes) -> None:
        self.send_response(status)
        for name, value in self._HEADERS.items():
            self.send_header(name, value)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)


_HOST_HEADER = re.compile(r"([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


def _host(value: str) -> str:
    """Return the name in a Host header, without its port; empty if the header is invalid.

    >>> _host("LOCALHOST:80"), _host("[::1]:80"), _host("127.0.0.1.evil.example"), _host("a@localhost")
    ('localhost', '[::1]', '127.0.0.1.evil.example', '')
    """
    found = _HOST_HEADER.fullmatch(value.strip().lower())
    return found[1] if found else ""
