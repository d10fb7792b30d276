"""A bucket of any number of objects, as S3's ListObjectsV2 tells of it. None of them is held."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape


class EndlessBucket:
    """Objects `in/0000000.txt` and on, in key order, 1,000 a page; `requests` counts the pages."""

    def __init__(self, count: int) -> None:
        bucket = self
        self.requests = 0

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                query = parse_qs(urlsplit(self.path).query)
                bucket.requests += 1
                start = int(query.get("continuation-token", ["0"])[0])
                there = count if query["prefix"] == ["in/"] else 0
                end = min(start + int(query["max-keys"][0]), there)
                objects = "".join(
                    f"<Contents><Key>in/{number:07}.txt</Key><Size>{number}</Size></Contents>"
                    for number in range(start, end)
                )
                more = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < there else ""
                xml = (
                    '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                    f"<Prefix>{escape(query['prefix'][0])}</Prefix><IsTruncated>{str(bool(more)).lower()}"
                    f"</IsTruncated>{more}{objects}</ListBucketResult>"
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(xml)))
                self.end_headers()
                self.wfile.write(xml)

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
