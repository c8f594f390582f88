"""Where the time of a step goes, without a trace in the run."""

from __future__ import annotations

import pytest

from summarily.cli import main
from summarily.modeling.training import profiling
from summarily.modeling.training.profiling import profile
from summarily.modeling.training.tasks.summary import SummaryTask
from summarily.support.errors import RecipeError

from .test_train import toml

PARTS = ["data", "forward", "backward", "optimizer", "rest", "evaluation", "checkpoint"]


class Clock:
    """Time passes where a test says so: on a busy machine everything may take long."""

    now = 0.0

    def __call__(self):
        return self.now


CLOCK = Clock()


class SlowTask(SummaryTask):
    """Each part takes a time of its own."""

    def begin_step(self, step):
        CLOCK.now += 0.25
        super().begin_step(step)

    def collate(self, rows):
        CLOCK.now += 0.5
        return super().collate(rows)

    def loss(self, model, batch):
        CLOCK.now += 2
        return super().loss(model, batch)

    def evaluate(self, model, split):
        begun = CLOCK.now
        found = super().evaluate(model, split)
        CLOCK.now = begun + 40
        return found


def test_the_time_of_each_part_is_found_where_it_was_spent(tiny, data, monkeypatch):
    monkeypatch.setattr(profiling, "_now", CLOCK)
    training = {"max_steps": 4, "evaluate_every": 10, "checkpoint_every": 5, "precision": "fp32"}
    recipe = tiny(training=training, batch={"micro_tokens": 128})  # a step is one pass
    found = profile(recipe, data, steps=2, task=SlowTask)
    assert list(found.seconds) == PARTS and found.steps == 2
    assert found.seconds == {
        "data": 0.5, "forward": 2, "backward": 0, "optimizer": 0, "rest": 0.25, "evaluation": 4, "checkpoint": 0,
    }  # fmt: skip
    assert found.once == {"evaluation": 40, "checkpoint": 0}
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
