"""A small HTTP server that answers the calls of the Hugging Face Hub's API that bundles need, repositories in memory.

It speaks to the real `huggingface_hub` client: making a repository or a branch, uploading (small files in the commit,
weights through Git LFS), telling of a revision, giving files.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

TOKEN = "hf_test"


class Hub(ThreadingHTTPServer):
    """Attributes: `commits`, of each repository: name of a commit or branch -> path -> content; `asked`, all calls;
    `private`, repositories made so; `messages` of commits."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.commits: dict[str, dict[str, dict[str, bytes]]] = {}
        self.large: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.private: set[str] = set()
        self.messages: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def commit(self, repository: str, changed: dict[str, bytes], branch: str = "main") -> str:
        commits = self.commits.setdefault(repository, {})
        files = commits.get(branch, commits.get("main", {})) | changed
        parts = [f"{path} {hashlib.sha256(content).hexdigest()}" for path, content in sorted(files.items())]
        name = hashlib.sha1("\n".join(parts).encode()).hexdigest()
        commits |= {name: files, branch: files}
        return name


@contextmanager
def running() -> Iterator[Hub]:
    """A hub on loopback."""
    with Hub() as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            hub.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *values: object) -> None:
        pass

    def answer(self, body: object = b"", status: int = 200, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def asked(self) -> tuple[str, bytes]:
        path = urlsplit(self.path).path
        self.server.asked.append(f"{self.command} {path}")
        return path, self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_POST(self) -> None:
        path, body = self.asked()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer({"error": "Invalid username or password."}, 401)
        if path == "/api/repos/create":
            values = json.loads(body)
            name = "/".join(filter(None, (values.get("organization"), values["name"])))
            new = name not in self.server.commits
            self.server.commits.setdefault(name, {})
            if values.get("private") or values.get("visibility") == "private":
                self.server.private.add(name)
            return self.answer({"url": f"{self.server.url}/{name}", "id": name}, 200 if new else 409)
        if found := re.fullmatch(r"/api/models/(.+)/branch/([^/]+)", path):
            commits = self.server.commits[found[1]]
            new = found[2] not in commits
            commits.setdefault(found[2], commits.get("main", {}))
            return self.answer({}, 200 if new else 409)
        if path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if found := re.fullmatch(r"/api/models/(.+)/preupload/[^/]+", path):
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(body)["files"]
            ]
            return self.answer({"files": modes})
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = [
                {**one, "actions": {"upload": {"href": f"{self.server.url}/large/{one['oid']}"}}}
                for one in json.loads(body)["objects"]
            ]
            return self.answer({"transfer": "basic", "objects": objects})
        if found := re.fullmatch(r"/api/models/(.+)/commit/([^/]+)", path):
            files = {}
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "header":
                    self.server.messages.append(value["summary"])
                elif line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    files[value["path"]] = self.server.large[value["oid"]]
            name = self.server.commit(found[1], files, found[2])
            return self.answer(
                {"success": True, "commitOid": name, "commitUrl": f"{self.server.url}/{found[1]}/commit/{name}"}
            )
        return self.answer({"error": path}, 404)

    def do_PUT(self) -> None:
        path, body = self.asked()
        self.server.large[path.removeprefix("/large/")] = body
        self.answer()

    def do_GET(self) -> None:
        path, _ = self.asked()
        if path == "/api/whoami-v2":
            return self.answer({"name": "owner", "type": "user"})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(?:revision|tree)/([^/]+))?", path):
            name, revision = found[1], found[2] or "main"
            files = self.server.commits.get(name, {}).get(revision)
            if files is None:
                code = "RevisionNotFound" if name in self.server.commits else "RepoNotFound"
                return self.answer({"error": code}, 404, X_Error_Code=code, X_Error_Message=code)
            if "/tree/" in path:
                return self.answer([{"type": "file", "path": p, "size": len(c), "oid": "0"} for p, c in files.items()])
            siblings = [{"rfilename": path} for path in files]
            return self.answer({"id": name, "sha": self.sha(name, revision), "siblings": siblings})
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            content = self.server.commits.get(found[1], {}).get(found[2], {}).get(found[3])
            if content is None:
                return self.answer(b"", 404, X_Error_Code="EntryNotFound", X_Repo_Commit=self.sha(found[1], found[2]))
            etag = hashlib.sha256(content).hexdigest()
            return self.answer(content, ETag=f'"{etag}"', X_Repo_Commit=self.sha(found[1], found[2]))
        return self.answer({"error": path}, 404)

    do_HEAD = do_GET

    def sha(self, repository: str, revision: str) -> str:
        commits = self.server.commits[repository]
        return next(name for name, files in commits.items() if files is commits[revision] and len(name) == 40)
