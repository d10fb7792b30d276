"""HTTP as a browser, an attacker's page and a broken client speak it."""

import contextlib
import http.client
import socket
import threading
import time
from urllib.parse import quote, urlsplit

import pytest

from pipelines.browse import connection as connection_module
from pipelines.browse import server as module
from pipelines.browse.error_pages import PageError
from pipelines.browse.server import Server
from pipelines.errors import PipelineError
from tests.support.hostile import STRINGS

SAFE = {
    "Content-Type": "text/html; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def ask(url, path="/", method="GET", **headers):
    """Return (status, headers, body)."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def raw(url, request: bytes) -> bytes:
    """Return all that the server says to these bytes."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port), timeout=20) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        parts = []
        while block := client.recv(65536):
            parts.append(block)
    return b"".join(parts)


def assert_safe(headers):
    assert {name: headers.get(name) for name in SAFE} == SAFE
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "form-action 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "Set-Cookie" not in headers
    assert "Location" not in headers


@pytest.mark.parametrize("path", ["/", "/mentions", "/documents", "/rejects"])
def test_pages_are_answered_with_headers_that_forbid_the_rest(hostile_url, path):
    status, headers, body = ask(hostile_url, path)
    assert status == 200
    assert_safe(headers)
    assert int(headers["Content-Length"]) == len(body)
    status, head, nothing = ask(hostile_url, path, "HEAD")
    assert (status, nothing) == (200, b"")
    assert head["Content-Length"] == headers["Content-Length"]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "127.0.0.1:x"]
)
def test_another_name_of_this_machine_is_refused(hostile_url, host):
    status, headers, body = ask(hostile_url, Host=host)
    assert status == 403
    assert_safe(headers)
    assert b"<script>alert" not in body


@pytest.mark.parametrize("host", ["localhost", "LocalHost:80", "127.0.0.1:9", "[::1]:80"])
def test_this_machine_by_its_own_names_is_answered(hostile_url, host):
    assert ask(hostile_url, Host=host)[0] == 200


def test_no_host_or_two_are_refused(hostile_url):
    assert raw(hostile_url, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 403")
    two = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert raw(hostile_url, two).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "LOOK"])
def test_other_methods_are_refused(hostile_url, method):
    status, headers, _ = ask(hostile_url, "/", method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"
    assert_safe(headers)


TRAVERSALS = [
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "//etc/passwd",
    "/static/../../etc/passwd",
    "/etc/passwd",
    "/document/../../../etc/passwd",
    "/document?shard=../../etc/passwd&row=0",
    "/document?shard=/etc/passwd&hit=0",
    "/document?shard=..%2F..%2Fetc%2Fpasswd%00&row=0",
    "/mentions?after=../../etc/passwd:0",
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_out(hostile_url, path):
    status, headers, body = ask(hostile_url, path)
    assert status in (400, 404)
    assert_safe(headers)
    assert b"root:" not in body


BAD = [
    ("/document", 404),
    ("/document?shard=hostile-00000-0000000000000000&row=0", 404),
    ("/document?shard={shard}", 400),
    ("/document?shard={shard}&row=0&hit=0", 400),
    ("/document?shard={shard}&row=x", 400),
    ("/document?shard={shard}&row=-1", 400),
    ("/document?shard={shard}&row=999999", 404),
    ("/document?shard={shard}&row=99999999999999999999", 400),
    ("/document?shard={shard}&hit=999999", 404),
    ("/document?shard={shard}&row=0&part=2", 404),
    ("/document?shard={shard}&row=0&part=0", 404),
    ("/?least=2", 400),
    ("/?least=nan", 400),
    ("/?most=one", 400),
    ("/mentions?least=2", 400),
    ("/mentions?sort=count", 400),
    ("/download?as=xlsx", 400),
    ("/download?what=secrets", 400),
    ("/?page=x", 400),
    ("/?sort=score;drop", 400),
    ("/?match=regex", 400),
    ("/?q=a&q=b", 400),
    ("/mentions?after={shard}:-2", 400),
    ("/mentions?after={shard}:x", 400),
    ("/mentions?after={shard}", 400),
    ("/?" + "&".join(f"a{n}=1" for n in range(30)), 400),
    ("/?q=" + "x" * 1001, 400),
    ("/?q=" + "x" * 9000, 414),
    ("/nothing", 404),
    ("/documents/", 404),
]


@pytest.mark.parametrize(("path", "expected"), BAD)
def test_what_is_asked_wrongly_is_told(hostile_url, hostile_site, path, expected):
    shard = hostile_site.live.now().names[0]
    status, headers, body = ask(hostile_url, path.replace("{shard}", shard))
    assert status == expected
    assert_safe(headers)
    assert b"<h1>" in body


@pytest.mark.parametrize("text", STRINGS)
def test_any_text_may_be_searched_for(hostile_url, text):
    for path in (
        "/?count=1&q=",
        "/?label=",
        "/mentions?count=1&q=",
        "/download?what=mentions&q=",
        "/documents?q=",
        "/documents?status=",
        "/rejects?q=",
        "/rejects?code=",
    ):
        address = path + quote(text)
        status, headers, body = ask(hostile_url, address)
        assert status == (400 if len(text) > 1000 and "q=" in path else 414 if len(address) > 8192 else 200)
        if not (path.startswith("/download") and status == 200):  # A file is no page: browsers save it.
            assert_safe(headers)
            assert b"<script>alert" not in body
    assert ask(hostile_url, "/?q=%ff%fe%00%0d%0aX:1")[0] == 200


def test_what_is_no_request_ends_the_connection(hostile_url):
    for request in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"\r\n",
        b"",
    ):
        answer = raw(hostile_url, request)
        assert not answer.startswith(b"HTTP/1.1 200")
        assert b"Traceback" not in answer
    assert ask(hostile_url)[0] == 200
    # What follows a request is no second one.
    once = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n"
    assert raw(hostile_url, once + once).count(b"HTTP/1.1 200") == 1


@contextlib.contextmanager
def serve(answer):
    def error_page(error: PageError) -> bytes:
        return f"{error.title}: {error.explanation}".encode()

    with Server(0, answer, error_page) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()


def test_faults_are_told_without_what_is_inside(capfd):
    def answer(path, query):
        if path == "/coded":
            raise PipelineError("browse.not_tagged", path="/out")
        raise ValueError("secret")

    with serve(answer) as server:
        status, headers, body = ask(server.url)
        assert status == 500
        assert_safe(headers)
        assert b"secret" not in body
        assert b"terminal" in body
        assert b"[browse.not_tagged] /out" in ask(server.url, "/coded")[2]
    assert "ValueError: secret" in capfd.readouterr().err


def test_too_many_requests_at_once_are_turned_away(monkeypatch):
    monkeypatch.setattr(module, "_MOST_REQUESTS", 2)
    held, begun = threading.Event(), threading.Semaphore(0)

    def answer(path, query):
        begun.release()
        held.wait(20)
        return b"done"

    with serve(answer) as server:
        threads = [threading.Thread(target=ask, args=(server.url,)) for _ in range(2)]
        for thread in threads:
            thread.start()
            assert begun.acquire(timeout=20)
        assert ask(server.url)[0] == 503
        held.set()
        for thread in threads:
            thread.join()
        assert ask(server.url)[2] == b"done"


def test_hundreds_of_requests_at_once_are_all_answered(hostile_url):
    statuses = []
    addresses = ("/", "/mentions", "/documents", "/?q=a", "/mentions?q=b")
    threads = [
        threading.Thread(target=lambda path=path: statuses.append(ask(hostile_url, path)[0])) for path in addresses * 50
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * len(threads)


@contextlib.contextmanager
def connected(url, count):
    where = urlsplit(url)
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((where.hostname, where.port), timeout=20))
            for _ in range(count)
        ]


def answered_soon(url):
    began = time.monotonic()
    assert ask(url)[0] == 200
    assert time.monotonic() - began < 2


REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("count", [40, 300])
@pytest.mark.parametrize("said", [b"", b"GET / HT", REQUEST[:-2]])
def test_clients_that_say_nothing_or_half_keep_nobody_out(count, said):
    with serve(lambda path, query: b"page") as server, connected(server.url, count) as clients:
        for client in clients:
            with contextlib.suppress(OSError):  # Of more than there is room for, the first ones are closed.
                client.sendall(said)
        for _ in range(3):
            answered_soon(server.url)


def test_clients_that_say_a_byte_at_a_time_keep_nobody_out():
    with serve(lambda path, query: b"page") as server, connected(server.url, 40) as clients:
        for byte in REQUEST[:20]:
            for client in clients:
                client.sendall(bytes([byte]))
            answered_soon(server.url)


def test_clients_that_take_no_response_keep_nobody_out():
    # More than the buffers of both sockets hold: the rest of each response stays in the server.
    pages = {"/": b"page", "/large": bytes(16_000_000)}
    large = REQUEST.replace(b" / ", b" /large ")
    with serve(lambda path, query: pages[path]) as server, connected(server.url, 40) as clients:
        for client in clients:
            client.sendall(large)
        for _ in range(3):
            answered_soon(server.url)


@pytest.mark.parametrize("trickle", [False, True])
def test_a_request_has_to_come_in_time(monkeypatch, trickle):
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 0.5)
    with serve(lambda path, query: b"page") as server, connected(server.url, 1) as (client,):
        client.settimeout(0.05)
        began = time.monotonic()
        while time.monotonic() - began < 20:
            try:
                if trickle:
                    client.sendall(b"G")
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 0.4 < time.monotonic() - began < 5


def test_a_response_has_to_be_taken_in_time(monkeypatch):
    monkeypatch.setattr(connection_module, "RESPONSE_SECONDS", 0.5)
    size = 50_000_000
    with serve(lambda path, query: bytes(size)) as server, connected(server.url, 1) as (client,):
        client.sendall(REQUEST)
        time.sleep(2)
        taken = 0
        with contextlib.suppress(OSError):
            while block := client.recv(1 << 20):
                taken += len(block)
        assert taken < size


def test_a_response_may_take_its_time_to_be_made(monkeypatch):
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 0.2)

    def answer(path, query):
        time.sleep(1)
        return b"done"

    with serve(answer) as server:
        assert ask(server.url)[2] == b"done"


def test_it_listens_on_this_machine_only(hostile_url):
    with serve(lambda path, query: b"") as server:
        assert server._socket.getsockname()[0] == "127.0.0.1"


def test_a_port_in_use_is_told():
    with serve(lambda path, query: b"") as server:
        with pytest.raises(PipelineError) as caught:
            Server(server.port, lambda path, query: b"", lambda error: b"")
        assert caught.value.code == "browse.port_unusable"
        assert str(server.port) in str(caught.value)
