"""A proxy before an object store that now and then answers 500 or 503, dawdles, or cuts the line half-way."""

import http.client
import random
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KINDS = ("500", "503", "slow", "cut")
_SLOW_SECONDS = 1.5


class FaultyProxy:
    """Passes requests on to 127.0.0.1:`port`, one in `one_in` of them with a fault.

    Attributes:
        url: where clients send their requests.
        injected: faults so far, by kind.
    """

    def __init__(self, port: int, seed: int, one_in: int) -> None:
        self.injected: Counter[str] = Counter()
        chance, lock = random.Random(seed), threading.Lock()

        def fault() -> str | None:
            with lock:
                kind = chance.choice(KINDS) if chance.randrange(one_in) == 0 else None
                if kind:
                    self.injected[kind] += 1
                return kind

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self) -> None:
                body = self._body()
                kind = fault()
                if kind in ("500", "503"):
                    self._answer(int(kind), [], b"<Error><Code>InternalError</Code></Error>")
                    return
                if kind == "slow":
                    time.sleep(_SLOW_SECONDS)
                store = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                try:
                    store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                    for name, value in self.headers.items():
                        if name.lower() not in ("transfer-encoding", "content-length", "expect"):
                            store.putheader(name, value)
                    store.putheader("Content-Length", str(len(body)))
                    store.endheaders(body)
                    answer = store.getresponse()
                    content, headers = answer.read(), answer.getheaders()
                except OSError:
                    self.close_connection = True
                    return
                finally:
                    store.close()
                self._answer(answer.status, headers, content, cut=kind == "cut")

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

            def _body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                while self.rfile.readline().strip():  # trailers
                    pass
                return body

            def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, cut: bool = False) -> None:
                self.send_response_only(status)
                length = str(len(content))
                for name, value in headers:
                    if name.lower() == "content-length":
                        length = value  # of a HEAD, the object's
                    elif name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if cut else content)
                if cut:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
