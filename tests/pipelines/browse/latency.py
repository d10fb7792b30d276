"""Times the pages of a running `spanmarker browse`."""

import re
import time
import urllib.error
import urllib.request
from pathlib import Path

PAGES = {
    "first page": "",
    "texts of a search": "?q=baba",
    "texts of a label": "?label=language",
    "all texts": "?count=1",
    "mentions": "mentions",
    "search, common": "mentions?q=baba",
    "search, rare": "mentions?q=zzqx",
    "search, whole": "mentions?q=lansupizer&match=whole",
    "label": "mentions?label=language",
    "label and least score": "mentions?label=language&least=0.9",
    "search and count": "mentions?q=baba&count=1",
    "highest score first": "mentions?sort=score-down",
    "A to Z": "mentions?sort=text-up",
    "documents": "documents",
    "a document's id": "documents?q=doc-00007-000123&match=whole",
    "rejects": "rejects",
}


def read(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:  # what takes too long has a page, too
        return error.read()


def timed(url: str) -> list[float]:
    """Return the seconds to the last byte of a page, three times."""
    found = []
    for _ in range(3):
        began = time.perf_counter()
        read(url)
        found.append(time.perf_counter() - began)
    return found


def measured(url: str) -> dict[str, list[float]]:
    """Return the seconds of each page, and of the first document that the mentions lead to."""
    link = re.search(r'href="/(document\?[^"#]*)', read(f"{url}mentions").decode())
    pages = PAGES | ({"a document": link[1].replace("&amp;", "&")} if link else {})
    return {name: timed(url + path) for name, path in pages.items()}


def peak_bytes(process: int) -> int:
    """Return the most memory that a process has held (Linux)."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
