"""Where the time of a step goes, without a trace in the run."""

from __future__ import annotations

import time

import pytest

from summarily.cli import main
from summarily.modeling.training.profiling import profile
from summarily.modeling.training.tasks.summary import SummaryTask
from summarily.support.errors import RecipeError

from .test_train import toml

PARTS = ["data", "forward", "backward", "optimizer", "rest", "evaluation", "checkpoint"]


class SlowTask(SummaryTask):
    """Each part takes a time of its own."""

    def collate(self, rows):
        time.sleep(0.02)
        return super().collate(rows)

    def loss(self, model, batch):
        time.sleep(0.05)
        return super().loss(model, batch)

    def evaluate(self, model, split):
        time.sleep(0.3)
        return super().evaluate(model, split)


def test_the_time_of_each_part_is_found_where_it_was_spent(tiny, data):
    recipe = tiny(training={"max_steps": 4, "evaluate_every": 10, "checkpoint_every": 5, "precision": "fp32"})
    found = profile(recipe, data, steps=2, task=SlowTask)
    assert list(found.seconds) == PARTS and found.steps == 2
    assert 0.02 <= found.seconds["data"] < found.seconds["forward"] and found.seconds["forward"] >= 0.05
    assert found.once["evaluation"] >= 0.3
    assert found.seconds["evaluation"] == pytest.approx(found.once["evaluation"] / 10)
    assert found.seconds["checkpoint"] == pytest.approx(found.once["checkpoint"] / 5)
    assert 0 <= found.padding < 1 and found.tokens > 0
    names = [operation.name for operation in found.operations]
    assert any("addmm" in name or "linear" in name for name in names)
    assert found.operations == sorted(found.operations, key=lambda operation: -operation.seconds)


def test_the_command_prints_a_table_and_writes_nothing(tiny, data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(toml(tiny()))
    before = sorted(tmp_path.rglob("*"))
    assert main(["train", "mine.toml", "--data", str(data), "--profile", "1"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{part} " in said for part in PARTS) and "tokens a second" in said and "aten::" in said
    assert sorted(tmp_path.rglob("*")) == before, "no run folder"


def test_no_steps_cannot_be_timed(tiny, data):
    with pytest.raises(RecipeError, match="at least 1"):
        profile(tiny(), data, steps=0)
