"""HTTP server for the pages, local and read-only.

It listens on 127.0.0.1. A website can make its own host name resolve to that address, so requests must name this
machine in their Host header. Response headers forbid everything that a page does not need: foreign scripts and styles,
frames, embedding, caching, and referrers.
"""

import asyncio
import logging
import re
import socket
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import replace
from http import HTTPStatus
from itertools import chain
from typing import TypeVar

from pipelines.browse.download import Download
from pipelines.browse.error_pages import PageError
from pipelines.errors import PipelineError
from pipelines.pages import policy
from spanmarker_core.errors import CodedError

try:
    import uvicorn
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.types import Receive, Scope, Send

    from pipelines.browse import connection
except ImportError as _error:
    raise PipelineError("browse.not_installed", reason=_error) from _error

HOST = "127.0.0.1"
#: Maximum length of a URL in bytes.
MAX_ADDRESS = 8192
_MAX_HEADERS = 100
#: Maximum number of requests that are answered or wait; further ones are rejected.
_MOST_REQUESTS = 512
#: Number of requests that are answered at the same time; the others wait.
_AT_ONCE = 16
#: Number of connections that the system queues until they are accepted.
_BACKLOG = 512
_PART = 1 << 16  # bytes of a page that are sent at once
_OUR_NAMES = {"127.0.0.1", "localhost", "[::1]"}
_HEADERS = {
    "Server": "spanmarker",
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": policy(forms=True) + "; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",  # One request per connection, so that no trailing data is taken for another request.
}

MakePage = Callable[[str, str], bytes | Download]  # (path, query string) -> page or file; raises PageError
Result = TypeVar("Result")
MakeErrorPage = Callable[[PageError], bytes]


class Server:
    """Answers GET and HEAD requests on a port of 127.0.0.1, as a context manager that closes the port at the end.

    Args:
        port: the port; 0 selects a free one.
        page: returns the page for a path and a query string.
        error_page: returns the page for an error.

    Attributes:
        port: the port that the server listens on.

    Raises:
        PipelineError: `browse.port_unusable`.
    """

    def __init__(self, port: int, page: MakePage, error_page: MakeErrorPage) -> None:
        try:
            self._socket = socket.create_server((HOST, port), backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PipelineError("browse.port_unusable", port=port, reason=reason) from error
        self.port: int = self._socket.getsockname()[1]
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                _Application(page, error_page),
                http=connection.Connection,
                loop="asyncio",
                ws="none",
                lifespan="off",
                backlog=_BACKLOG,
                proxy_headers=False,
                server_header=False,
                access_log=False,
                log_config=None,
                log_level=logging.CRITICAL,
                timeout_graceful_shutdown=0,
            )
        )

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def url(self) -> str:
        """Return the URL of the start page."""
        return f"http://{HOST}:{self.port}/"

    def run(self) -> None:
        """Answer requests until `stop` is called or, in the main thread, a signal ends the process."""
        self._uvicorn.run([self._socket])

    def stop(self) -> None:
        """End `run`, from any thread. Pages that are being made are not waited for."""
        self._uvicorn.should_exit = True


class _Application:
    """The ASGI application: one endpoint, which checks every request in the same way."""

    def __init__(self, page: MakePage, error_page: MakeErrorPage) -> None:
        self._page, self._error_page = page, error_page
        self._active = 0
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            _check(request)
            status, page = HTTPStatus.OK, await self._make(request)
        except PageError as error:
            status, page = error.status, self._error_page(error)
        if isinstance(page, Download):
            await self._send_file(request, page)(scope, receive, send)
            return
        headers = {**_HEADERS, "Content-Length": str(len(page))}
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD"
        request.state.connection.wait(connection.RESPONSE_SECONDS)
        await StreamingResponse(_parts(page), status, headers)(scope, receive, send)

    def _send_file(self, request: Request, file: Download) -> StreamingResponse:
        headers = {
            **_HEADERS,
            "Content-Type": file.content_type,
            "Content-Disposition": f'attachment; filename="{file.name}"',
        }
        request.state.connection.wait(connection.DOWNLOAD_SECONDS)
        parts = _nothing() if request.method == "HEAD" else self._file_parts(file)
        return StreamingResponse(parts, HTTPStatus.OK, headers)

    async def _file_parts(self, file: Download) -> AsyncIterator[bytes]:
        """Yield the parts of a file. An error ends the connection, so that the client sees that the file is cut."""
        while True:
            async with self._slots:
                part = await _in_thread(lambda: next(file.parts, None))
            if part is None:
                return
            yield part

    async def _make(self, request: Request) -> bytes | Download:
        if self._active >= _MOST_REQUESTS:
            raise PageError(
                HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests", "Other pages are being loaded. Reload this one."
            )
        query = bytes(request.scope["query_string"]).decode("ascii").partition("#")[0]
        self._active += 1
        try:
            async with self._slots:
                return await _in_thread(lambda: _begun(self._page(_path(request), query)))
        except CodedError as error:
            raise PageError(HTTPStatus.INTERNAL_SERVER_ERROR, "The output cannot be read", str(error)) from error
        except PageError:
            raise
        except Exception as error:
            traceback.print_exc()
            explanation = "The page could not be created. See the error in the terminal of spanmarker browse."
            raise PageError(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error", explanation) from error
        finally:
            self._active -= 1


def _begun(page: bytes | Download) -> bytes | Download:
    """Make the first part of a file, so that an error in it is shown as a page."""
    if isinstance(page, Download):
        first = next(page.parts, b"")
        return replace(page, parts=chain([first], page.parts))
    return page


async def _nothing() -> AsyncIterator[bytes]:
    no_parts: tuple[bytes, ...] = ()
    for part in no_parts:
        yield part


async def _in_thread(work: Callable[[], Result]) -> Result:
    """Call a function in a thread that does not keep the process alive, unlike those of asyncio and Starlette."""
    done = Future[Result]()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(done)


async def _parts(page: bytes) -> AsyncIterator[bytes]:
    """Yield a page in parts: the next one is sent when the client has taken the previous ones."""
    for start in range(0, len(page), _PART):
        yield page[start : start + _PART]


def _path(request: Request) -> str:
    """Return the path as the client spelled it."""
    return bytes(request.scope["raw_path"]).decode("ascii")


def _check(request: Request) -> None:
    """Check everything but the path and the query.

    Raises:
        PageError: for an invalid request.
    """
    if request.method not in ("GET", "HEAD"):
        raise PageError(HTTPStatus.METHOD_NOT_ALLOWED, explanation="Pages are read-only.")
    if request.scope["http_version"] not in ("1.0", "1.1"):
        raise PageError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    if len(request.headers) > _MAX_HEADERS:
        raise PageError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or _host(hosts[0]) not in _OUR_NAMES:
        explanation = (
            "This page is available on this machine only. Open it with the address in the terminal, at 127.0.0.1 or "
            "localhost."
        )
        raise PageError(HTTPStatus.FORBIDDEN, "Not available", explanation)
    path = _path(request)
    if len(path) + len(request.scope["query_string"]) >= MAX_ADDRESS:
        raise PageError(
            HTTPStatus.REQUEST_URI_TOO_LONG, "Too long", f"An address can have at most {MAX_ADDRESS:,} bytes."
        )
    if not path.startswith("/") or path.startswith("//"):
        raise PageError(HTTPStatus.BAD_REQUEST, "Invalid address", "An address begins with one slash.")


_HOST_HEADER = re.compile(r"([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


def _host(value: str) -> str:
    """Return the name in a Host header, without its port; empty if the header is invalid.

    >>> _host("LOCALHOST:80"), _host("[::1]:80"), _host("127.0.0.1.evil.example"), _host("a@localhost")
    ('localhost', '[::1]', '127.0.0.1.evil.example', '')
    """
    found = _HOST_HEADER.fullmatch(value.strip().lower())
    return found[1] if found else ""
