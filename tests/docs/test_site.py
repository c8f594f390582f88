"""`make docs`: the site builds without a warning, and nothing in it leads nowhere."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

import summarily
from summarily.metrics import METRICS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    shutil.rmtree(ROOT / "build" / "reference", ignore_errors=True)  # as in a fresh clone
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    # The theme advertises its successor where warnings go.
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr
    return place


def test_every_metric_model_and_study_has_a_page(site):
    for name in METRICS:
        assert (site / f"metrics/{name}.html").is_file()
    for pattern, folder in (("hub_cards/*/README.md", "models"), ("summarily/studies/*/STUDY.md", "studies")):
        documents = list(ROOT.glob(pattern))
        assert documents
        for document in documents:
            assert (site / folder / f"{document.parent.name}.html").is_file()
    assert "Eyal" in (site / "metrics/apes.html").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference(site):
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    anchors = set(re.findall(r'id="([\w.]+)"', text))
    missing = []
    for package in ("summarily", "summarily.metrics", "summarily.modeling"):
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and f"{value.__module__}.{name}" not in anchors:
                missing.append(f"{package}.{name}")
    assert not missing


def test_no_link_is_dead_and_nothing_is_fetched_from_elsewhere(site):
    dead = []
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for kind, target in re.findall(r'\b(href|src)="([^"]+)"', text):
            target = unquote(unescape(target)).partition("#")[0].partition("?")[0]
            if re.match(r"\w+:|//", target):
                assert kind == "href", f"{page.name} fetches {target}"
            # The page of errors stands at the root of a server.
            elif target and page.name != "404.html" and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(site)}: {target}")
    assert not dead


def test_the_citation_and_the_changelog_know_the_version():
    assert f"\nversion: {summarily.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert summarily.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_links_between_documents_lead_somewhere_in_the_repository():
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for document in documents:
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8")):
            assert "://" in target or (document.parent / target).exists(), f"{document.name}: {target}"
