"""The study of rewards is resumable, and its tables say what its runs stored."""

import argparse
import json

import pytest

from summarily.modeling.training.recipe import load_recipe
from summarily.studies.baselines import ROUGE
from summarily.studies.copying import learning_to_copy
from summarily.studies.self_critical import study
from summarily.support.errors import InputError
from tests.summarily.studies.small_study import SETTINGS, run_here, write_news

STAGES = ["sentences", "passages"]
TINY = [*SETTINGS, "self_critical.reward_workers=0"]


@pytest.fixture
def data(tmp_path):
    return write_news(tmp_path / "data")


@pytest.fixture
def small(monkeypatch):
    """Two rewards that need no weights, few steps, and runs in this process."""
    rouge, mean = study.REWARDS["rouge_l"], study.REWARDS["mean"]
    again = {"rouge_l": rouge, "wms": rouge._replace(title="again")}
    rewards = {**again, "mean": mean._replace(parts=tuple(again))}
    monkeypatch.setattr(study, "REWARDS", rewards)
    monkeypatch.setattr(study, "METRICS", {"rouge": ROUGE})
    monkeypatch.setattr(study, "COLUMNS", {"rouge1": "R-1", "rougeLsum": "R-Lsum"})
    monkeypatch.setattr(study, "PAPER", {"rouge_l": (37.46, 34.39)})
    return run_here(monkeypatch, study, learning_to_copy)


def options(tmp_path, data):
    parser = argparse.ArgumentParser()
    study.add_arguments(parser)
    settings = [argument for override in TINY for argument in ("--set", override)]
    arguments = [
        "--scale",
        "0.004",
        "--steps",
        "4",
        "--beams",
        "1",
        "2",
        "--output",
        str(tmp_path / "out"),
        "--data",
        data,
    ]
    return parser.parse_args([*arguments, *settings])


def test_the_study_runs_scores_and_goes_on(tmp_path, data, small, capsys):
    assert study.run(options(tmp_path, data)) == 0
    assert small == [*STAGES, *study.STAGES, study.CONTROL, "rouge_l", "wms", "mean", study.OPPOSITE]
    stored = json.loads((tmp_path / "out" / "study.json").read_text())
    assert list(stored["searches"]) == ["1", "2"]
    for search in stored["searches"].values():
        rows = search["rows"]
        assert list(rows) == ["lead 3", study.START, study.CONTROL, "rouge_l", "wms", "mean", study.OPPOSITE]
        assert set(rows["wms"]) >= {f"against_{study.START}", f"against_{study.CONTROL}"}
    assert stored["factors"]["rouge_l"] == 1.0 == stored["factors"]["wms"]
    assert stored["seconds"]["rouge_l"]["sample"] > 0
    table = (tmp_path / "out" / "study.md").read_text()
    assert "## Greedy summaries" in table and "## Summaries by 2 beams" in table
    assert "| mixed loss, their mean |" in table and "| their mean | " in table
    assert "| mixed loss, ROUGE-L |" in table and "(34.39)" in table and "rouge|mode:google" in table
    capsys.readouterr()
    assert study.run(options(tmp_path, data)) == 0
    assert len(small) == 9, "finished runs are not run again"


def test_a_start_can_be_given(tmp_path, data, small):
    given = options(tmp_path, data)
    learning_to_copy.train_start(tmp_path / "before", data, 1e-9, tuple(TINY), last="passages")
    given.start = str(tmp_path / "before" / "passages" / "hub")
    assert study.run(given) == 0
    assert small == [*STAGES, study.CONTROL, "rouge_l", "wms", "mean", study.OPPOSITE], (
        "the start was trained again"
    )
    given.start = str(tmp_path / "before" / "sentences" / "hub")
    with pytest.raises(InputError, match=r"began with another start .* by --output"):
        study.run(given)
    given.beams = [1, 0]
    with pytest.raises(InputError, match="--beams has 0"):
        study.run(given)
    given.beams = [1]
    given.start, given.output = str(tmp_path), str(tmp_path / "other")
    with pytest.raises(InputError, match=r"no model.safetensors; .* by --start"):
        study.run(given)


def test_every_run_differs_in_its_reward_alone(tmp_path):
    factors = dict.fromkeys(study.REWARDS, 2.0)
    cells = study.make_cells(tmp_path, factors, steps=8, rate=1e-4)
    recipes = {cell.name: load_recipe(cell.recipe, cell.overrides).to_dict() for cell in cells}
    control = recipes.pop(study.CONTROL)
    assert control["self_critical"]["rewards"] == []
    opposite = recipes.pop(study.OPPOSITE)
    assert opposite["self_critical"].pop("reward_weights") == [-2.0]
    assert opposite["self_critical"].items() <= recipes["rouge_l"]["self_critical"].items()
    for name, recipe in recipes.items():
        reward, learning = study.REWARDS[name], recipe["self_critical"]
        # Rising from the paper's 0.97, and sums over the tokens of a summary.
        assert (learning["rl_gamma"], learning["rl_gamma_end"], learning["loss_reduction"]) == (
            0.97,
            0.999,
            "sum",
        )
        if name == "mean":
            assert learning["rewards"] == ["rouge", "wms", "sms", "s_wms", "bertscore"]
            assert learning["reward_weights"] == [0.4] * 5
            assert (
                recipe["training"].pop("evaluate_every") == 8
            )  # no score chooses a step, so the last is kept
            recipe["training"]["evaluate_every"] = 2
        else:
            assert (learning["rewards"], learning["reward_weights"]) == ([reward.metric], [2.0])
            assert recipe["evaluation"]["select"] == reward.score
        for section in ("model", "data", "batch", "optimizer", "schedule", "training"):
            assert recipe[section] == control[section], section
