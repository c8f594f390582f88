"""Spaces as a reader meets them: each served by `summarily demo` in a process of its own, in headless Chromium."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PATIENCE = 90.0
"""Seconds until something must have happened, on a machine with other work to do."""
START = 300.0
"""Seconds until a Space must have started: it imports torch, transformers and gradio."""


@dataclass
class Served:
    """A running Space: where, and the folders that it may and may not write to."""

    name: str
    url: str
    temporary: Path
    home: Path
    log: Path


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def serve(name: str, folder: Path) -> Iterator[Served]:
    """`summarily demo NAME` with an empty home and working folder."""
    home, temporary, log = folder / "home", folder / "tmp", folder / "log"
    home.mkdir()
    temporary.mkdir()
    port = _free_port()
    environment = {
        **os.environ,
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "HF_HOME": str(temporary / "hf"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("GRADIO_TEMP_DIR", None)
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "summarily", "demo", name, "--port", str(port)],
            cwd=home,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://127.0.0.1:{port}/"
            _wait_for(url, process, log)
            yield Served(name, url, temporary, home, log)
        finally:
            process.terminate()
            process.wait(20)


def _wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.3)
    pytest.fail(f"the Space did not start:\n{log.read_text()}")


@pytest.fixture(scope="module")
def space(request, tmp_path_factory) -> Iterator[Served]:
    """The Space that a test module names as `SPACE`."""
    with serve(request.module.SPACE, tmp_path_factory.mktemp("space")) as served:
        yield served
        # Weights that are converted or merged once are kept for the next start; of visitors' texts nothing is.
        kept = served.home / ".cache" / "summarily"
        left = [
            str(path.relative_to(served.home))
            for path in served.home.rglob("*")
            if path not in (kept.parent, kept) and not path.is_relative_to(kept)
        ]
        assert not left, f"{served.name} wrote outside its temporary folder: {left}"


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason='pip install "summarily[browser]"')
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.fail("Chromium is not installed; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # A container's root has no sandbox; the pages are our own.
        browser = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Watched:
    """What a page did that a reader's browser should not see."""

    def __init__(self, page, url: str):
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith((url, "data:", "blob:")) else self.foreign.append(request.url)
            ),
        )


@pytest.fixture
def page(chromium, space):
    """The Space, loaded."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.watched = Watched(page, space.url)
    page.goto(space.url)
    page.get_by_role("heading", level=1).wait_for()
    yield page
    content = page.content()
    assert "Traceback" not in content and "site-packages" not in content
    assert str(space.temporary) not in page.inner_text("body")
    context.close()


@pytest.fixture
def phone(chromium, space):
    """The Space on a phone."""
    context = chromium.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(space.url)
    page.get_by_role("heading", level=1).wait_for()
    yield page
    context.close()


def message(page) -> str:
    """The sentence of the error that the page shows."""
    toast = page.get_by_test_id("toast-text").last
    toast.wait_for()
    text = toast.inner_text()
    assert not re.search(r"Traceback|File \"|/tmp|/home|/usr", text), text
    return text


def covered(page) -> list[str]:
    """The parts of a page that an overlay says "Error" about."""
    return page.evaluate(
        """() => [...document.querySelectorAll('[data-testid=status-tracker]')]
          .filter(e => e.offsetParent !== null && e.offsetHeight > 0 && /Error/.test(e.innerText))
          .map(e => e.parentElement.outerHTML.slice(0, 120))"""
    )


def download(page, selector: str) -> str:
    """The content of the file behind a download button."""
    with page.expect_download() as waiting:
        page.locator(selector).click()
    return Path(waiting.value.path()).read_text(encoding="utf-8")


def choose(page, label: str, option: str) -> None:
    """Pick an option of a drop-down by keyboard, as a reader without a mouse does."""
    box = page.get_by_label(label, exact=True)
    box.click()
    page.get_by_role("option", name=option, exact=True).click()


def take_picture(page, name: str, first: str = "main", last: str = "main") -> None:
    """Keep what stands from one element to another where PICTURES says, for the documents and, in the dark too, to be
    looked at; otherwise do nothing."""
    folder = os.environ.get("PICTURES")
    if not folder:
        return
    top, bottom = page.locator(first).first.bounding_box(), page.locator(last).first.bounding_box()
    width = page.viewport_size["width"]
    margin = 8 if width > 500 else 0
    left = max(min(top["x"], bottom["x"]) - margin, 0)
    clip = {
        "x": left,
        "y": max(top["y"] + page.evaluate("scrollY") - margin, 0),
        "width": min(width - left, max(top["width"], bottom["width"]) + 2 * margin),
        "height": bottom["y"] + bottom["height"] - top["y"] + 2 * margin,
    }
    for scheme, ending in (("dark", "_dark"), ("light", "")):
        page.emulate_media(color_scheme=scheme)
        path = Path(folder) / f"{name}{ending}.png"
        page.screenshot(path=str(path), full_page=True, clip=clip, animations="disabled")


UNNAMED = """() => [...document.querySelectorAll('input, textarea, button, select, [role=slider], svg[role=img]')]
  .filter(e => e.offsetParent !== null || e instanceof SVGElement)
  .filter(e => !(e.getAttribute('aria-hidden') || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.getAttribute('title')
    || (e.labels && e.labels.length) || (e.innerText || '').trim()))
  .map(e => e.outerHTML.slice(0, 160))"""


def check_page(page) -> None:
    """No console error, no request to another site, a name for everything that can be used."""
    assert not page.watched.foreign
    assert not page.watched.errors
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate("document.documentElement.lang") == "en"


def check_phone(phone) -> None:
    """Nothing is cut off: the page is as wide as the screen, and what is wider scrolls in its own box."""
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    cut = phone.evaluate(
        """() => [...document.querySelectorAll('main *')]
          .filter(e => e.getBoundingClientRect().right > 392 && e.offsetParent !== null
            && !e.closest('.scroll') && !e.closest('[role=tablist], .tab-container, .overflow-menu'))
          .map(e => e.outerHTML.slice(0, 120))"""
    )
    assert cut == []
