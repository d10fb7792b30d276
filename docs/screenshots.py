"""Makes the pictures in docs/images: tags English documents of the sample corpus and takes screenshots of its pages.

    python docs/screenshots.py

It needs the development tools (`make setup`) and Chromium. The pictures show the pages as they are, 1280 pixels wide
and in light colours.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH = 1280
SPANMARKER = (sys.executable, "-m", "pipelines.cli")


def main() -> None:
    """Write the pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_corpus(work / "corpus")
        subprocess.run(
            [*SPANMARKER, "tag", "--input", "corpus/*.jsonl", "--output", "demo-out"],
            cwd=work,
            env=environment(),
            check=True,
        )
        with page() as visit, browsing(work) as url:
            take(visit, (work / "demo-out" / "report.html").as_uri(), "run-report", ".sample li:nth-child(4)")
            take(visit, url, "browse", "tbody tr:nth-child(10)")


def write_corpus(folder: Path) -> None:
    """Write the speeches and the English articles of the sample corpus: fonts of other scripts are often missing.

    Args:
        folder: folder to create.
    """
    demo = ROOT / "infra" / "demo"
    folder.mkdir()
    shutil.copy(demo / "speeches.jsonl", folder)
    articles = pq.read_table(demo / "wikipedia.parquet", columns=["id", "text"]).to_pylist()
    english = "".join(json.dumps(row) + "\n" for row in articles if row["id"].startswith("xquad-en-"))
    (folder / "wikipedia.jsonl").write_text(english, encoding="utf-8")


@contextmanager
def browsing(work: Path) -> Iterator[str]:
    """Run `spanmarker browse`; yield its URL.

    Args:
        work: folder with the output and the corpus.
    """
    command = [*SPANMARKER, "browse", "demo-out", "--sources", "corpus", "--no-open", "--port", "0"]
    with subprocess.Popen(command, cwd=work, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        words = (word for line in process.stdout for word in line.split())
        yield next(word for word in words if word.startswith("http://"))
        process.send_signal(signal.SIGINT)


@contextmanager
def page() -> Iterator[Page]:
    """Yield a page of a headless Chromium."""
    options: dict[str, Any] = {"executable_path": shutil.which("chromium") or shutil.which("google-chrome")}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(args=["--no-sandbox", "--disable-gpu"], **options)
        yield browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        browser.close()


def take(visit: Page, url: str, name: str, last: str) -> None:
    """Write a picture of the top of a page.

    Args:
        visit: the browser's page.
        url: address of the page to open.
        name: name of the picture.
        last: selector of the last element in the picture.
    """
    visit.goto(url)
    box = visit.locator(last).first.bounding_box()
    assert box, last
    size = {"x": 0, "y": 0, "width": WIDTH, "height": round(box["y"] + box["height"]) + 1}
    visit.screenshot(path=IMAGES / f"{name}.png", full_page=True, clip=size)
    print(f"docs/images/{name}.png: {(IMAGES / f'{name}.png').stat().st_size:,} bytes")


def environment() -> dict[str, str]:
    """Return the environment of commands that run in another folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    main()
