"""Every Space is a folder that the Hub can run, and a name for `summarily demo`."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

import summarily.spaces
from summarily.cli import main
from summarily.metrics import METRICS
from summarily.spaces import SPACES, build

ROOT = Path(summarily.spaces.__path__[0])


def test_the_list_is_the_tree():
    assert set(SPACES) == {path.parent.name for path in ROOT.glob("*/app.py")}


@pytest.mark.parametrize("name", SPACES)
def test_the_folder_is_a_space(name):
    card = (ROOT / name / "README.md").read_text(encoding="utf-8")
    front = dict(
        line.split(": ", 1) for line in card.split("---\n")[1].splitlines() if re.match(r"\w+: ", line)
    )
    assert front["sdk"] == "gradio" and front["app_file"] == "app.py"
    assert len(front["short_description"]) <= 60  # the Hub's limit
    assert (ROOT / name / "requirements.txt").read_text().startswith("summarily[demo")
    assert f'launch("{name}")' in (ROOT / name / "app.py").read_text()
    assert f"summarily demo {name}" in card


def test_cards_name_the_gradio_that_is_tested():
    version = importlib.metadata.version("gradio")
    cards = [
        ROOT.glob("*/README.md"),
        *(Path(summarily.metrics.__path__[0]).glob(f"{name}/README.md") for name in METRICS),
    ]
    for card in (card for found in cards for card in found):
        assert f"sdk_version: {version}\n" in card.read_text(encoding="utf-8"), card


@pytest.mark.parametrize("name", SPACES)
def test_it_builds(name):
    pytest.importorskip("gradio")
    app = build(name)
    assert app.title.endswith("Summarily")
    endpoints = {fn.api_name for fn in app.fns.values()}
    assert endpoints & {"score", "summarize", "draw"} or name == "judge"


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_space(name):
    pytest.importorskip("gradio")
    assert build(name).title.startswith(name)


def test_an_unknown_name_is_guessed(capsys):
    assert main(["demo", "scorecrad"]) == 2
    assert "did you mean 'scorecard'?" in capsys.readouterr().err
