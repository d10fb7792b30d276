"""Listings of large folders take pages, not memory."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipelines.storage import names_in
from pipelines.storage.globs import Pattern
from tests.services.servers.endless import EndlessBucket
from tests.services.servers.seaweed import client

pytestmark = pytest.mark.timeout(600)

#: Lists a folder both ways and tells what it saw and the most memory that it held, in bytes. (What getrusage says
#: begins with that of the process which started it.)
_LIST = """
import json, re, sys
from pipelines.storage.globs import Pattern
from pipelines.storage import sizes_in, use_options
use_options([f's3.client_kwargs={{"endpoint_url": "{sys.argv[1]}"}}', "s3.key=x", "s3.secret=y"])
count = total = 0
for name, size in sizes_in("s3://bucket/in", ".txt"):
    count, total = count + 1, total + size
last, ordered = "", True
for found in Pattern("s3://bucket/in/*.txt").find():
    ordered, last = ordered and last < found.path, found.path
    count += 1
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
print(json.dumps({"count": count, "total": total, "ordered": ordered, "last": last, "peak": peak}))
"""


def listed(count):
    bucket = EndlessBucket(count)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _LIST, bucket.url], capture_output=True, text=True, timeout=500, check=True
        )
    finally:
        bucket.close()
    found = json.loads(done.stdout)
    assert found["count"] == 2 * count
    assert found["total"] == sum(range(count))
    assert found["ordered"]
    assert found["last"] == f"s3://bucket/in/{count - 1:07}.txt"
    return found["peak"], bucket.requests


def test_a_hundred_thousand_objects_are_listed_in_the_memory_of_some_thousand(record_property):
    few, _ = listed(10_000)
    many, requests = listed(100_000)
    record_property("peak_bytes", f"{few:,} for 10,000 objects, {many:,} for 100,000")
    print(f"peak {few:,} bytes for 10,000 objects, {many:,} for 100,000")
    assert requests <= 2 * 100 + 2
    assert many - few < 8 << 20


def test_pages_of_a_real_store(s3_server, s3):
    """Folders and files whose names sort otherwise as keys than as names, over several pages."""
    fs, path = client(s3_server), s3.removeprefix("s3://")
    names = [f"a-{number:04}.txt" for number in range(1100)]
    names += [f"a/{number:04}.txt" for number in range(1050)]
    names += ["a.b/x.txt", "a", "a+b.txt", "b/x.txt"]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: fs.pipe_file(f"{path}/in/{name}", b"x"), names))
    found = [found.path.removeprefix(f"{s3}/in/") for found in Pattern(f"{s3}/in/**/*").find()]
    assert found == sorted(names, key=lambda name: name.split("/"))
    assert sorted(names_in(f"{s3}/in/a", ".txt")) == [f"{number:04}" for number in range(1050)]
