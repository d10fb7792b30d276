"""A real headless browser: what a page says on its console, what it asks the network for, and how it is laid out."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PHONE, DESK = 360, 1200


@dataclass
class Visit:
    """A page that is open."""

    page: object  # playwright's
    url: str
    errors: list[str] = field(default_factory=list)  # of the console: scripts, and what the policy refused
    requests: list[str] = field(default_factory=list)  # to anywhere but the page's own origin


@contextmanager
def running() -> Iterator[object]:
    """Yield a headless Chromium; skip where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield launched
        launched.close()


@contextmanager
def opened(browser, where: str | Path, *, width: int = DESK, dark: bool = False) -> Iterator[Visit]:
    """Open a file or a URL in a window of its own."""
    url = where.resolve().as_uri() if isinstance(where, Path) else where
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    page = context.new_page()
    visit = Visit(page, url)
    origin = url.split("/", 3)[2]
    page.on("console", lambda message: visit.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: visit.errors.append(str(error)))

    def asked(request):
        scheme, _, rest = request.url.partition(":")
        own = scheme == "data" or request.url == url or (origin and rest.startswith(f"//{origin}/"))
        if not own:
            visit.requests.append(request.url)

    page.on("request", asked)
    try:
        page.goto(url)
        yield visit
    finally:
        context.close()


#: A function that returns the lowest contrast of text and what is behind it, with the text, as the browser draws them.
_CONTRAST = (Path(__file__).parent / "contrast.js").read_text("utf-8").partition("\n")[2]


def assert_sound(visit: Visit) -> None:
    """No errors, no requests to elsewhere, nothing that is wider than the window, and all text legible (WCAG 2 AA)."""
    least, text = visit.page.evaluate(_CONTRAST)
    assert least >= 4.5, f"contrast {least:.1f}: {text!r}"
    assert visit.errors == []
    assert visit.requests == []
    wide = visit.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1], f"the page is {wide[0]} pixels wide in a window of {wide[1]}"
