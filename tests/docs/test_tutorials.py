"""The tutorials run: each in a folder of its own, Python and commands one after the other, as a reader would type them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from summarily.cli import main

TUTORIALS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.md"))
# What a reader would see at the end of each.
SHOWN = {
    "book": "4 summaries written to summaries.jsonl",
    "decide": "Holm",
    "fine-tune": "eval_rouge1",
    "find-your-metric": "Trust ",
    "publish": "spaces/scorecard",
    "reward": "reward_greedy",
}


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(python|bash)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs_from_top_to_bottom(tutorial, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": tutorial.stem}
    for language, block in blocks(tutorial.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, str(tutorial), "exec"), names)
            continue
        for line in block.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "summarily"
            assert main(arguments) == 0, f"{line} failed: {capsys.readouterr().err}"
    assert SHOWN[tutorial.stem] in capsys.readouterr().out


def test_every_tutorial_shows_something_to_run():
    assert {path.stem for path in TUTORIALS} == set(SHOWN)
    for path in TUTORIALS:
        assert blocks(path.read_text(encoding="utf-8"))
