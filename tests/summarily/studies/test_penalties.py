"""The grid search: every point once, whatever happens between."""

import json

import datasets
import pytest
import torch

from summarily.cli import main
from summarily.modeling.training.building import build_model
from summarily.modeling.training.corpora import encode
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.studies.penalties import (
    Point,
    Tuning,
    has_entities,
    make_grid,
    ordered,
    table,
)
from summarily.support.errors import InputError
from tests.modeling.training.conftest import make_pairs, tiny_recipe


@pytest.fixture(scope="module")
def parts():
    datasets.disable_progress_bars()
    recipe = tiny_recipe()
    pairs = make_pairs(6)
    tokenizer = train_tokenizer([row["text"] for row in pairs] * 3, recipe.tokenizer)
    torch.manual_seed(0)
    model = build_model(recipe, tokenizer)
    rows = datasets.Dataset.from_list(
        [
            {"id": str(i), "source": row["text"], "target": row["title"], "references": [row["title"]]}
            for i, row in enumerate(pairs)
        ]
    )
    yield model, tokenizer, encode(rows, tokenizer, recipe.data)
    datasets.enable_progress_bars()


def tuning(parts, folder, **options):
    return Tuning(*parts, folder, search={"num_beams": 2, "max_new_tokens": 4}, tokens=256, **options)


def test_a_stopped_search_goes_on(parts, tmp_path, monkeypatch):
    grid = make_grid([0.2, 0.9], [0.0, 5.0], [0.0])
    scored = []
    real = Tuning.score

    def stopped(self, point):
        if len(scored) == 2:
            raise KeyboardInterrupt
        scored.append(point)
        return real(self, point)

    monkeypatch.setattr(Tuning, "score", stopped)
    with pytest.raises(KeyboardInterrupt):
        tuning(parts, tmp_path).run(grid)
    with (tmp_path / "points.jsonl").open("a") as file:
        file.write('{"point": [0.9, 0.')  # the line a kill has cut

    def counted(self, point):
        scored.append(point)
        return real(self, point)

    monkeypatch.setattr(Tuning, "score", counted)
    points = tuning(parts, tmp_path).run(grid)
    assert sorted(scored) == grid and list(points) == grid
    assert len((tmp_path / "points.jsonl").read_text().splitlines()) == 4
    again = tuning(parts, tmp_path).run(grid)
    assert again == points and len(scored) == 4
    assert {"rouge1", "rougeL", "words"} <= points[grid[0]].keys()
    with pytest.raises(InputError, match="other metrics"):
        tuning(parts, tmp_path, metrics=["rouge", "wms"])


def test_penalties_reach_the_search(parts, tmp_path, monkeypatch):
    seen = []
    model = parts[0]
    real = model.generate

    def remember(**options):
        seen.append((options["alpha"], options["beta"], options["gamma"], options["num_beams"]))
        return real(**options)

    monkeypatch.setattr(model, "generate", remember)
    tuning(parts, tmp_path).run([Point(0.9, 2.0, 0.0)])
    assert set(seen) == {(0.9, 2.0, 0.0, 2)}


def test_the_best_point_is_marked_and_ties_go_to_smaller_penalties():
    points = {
        Point(0.9, 0.5, 0.0): {"rougeL": 0.25, "words": 9.0},
        Point(0.9, 0.0, 0.0): {"rougeL": 0.25, "words": 8.0},
        Point(0.2, 0.0, 0.0): {"rougeL": 0.1, "words": 8.0},
    }
    assert ordered(points, "rougeL")[0] == Point(0.9, 0.0, 0.0)
    lines = table(points, "rougeL").splitlines()
    assert lines[2].split() == ["0.9", "0", "0", "0.2500", "8.0000", "best"]
    assert "best" not in "".join(lines[3:])
    with pytest.raises(InputError, match="--select is 'apes'"):
        ordered(points, "apes")


def test_where_less_is_better_the_point_with_the_least_is_chosen(parts, tmp_path):
    search = tuning(parts, tmp_path, metrics=["vert"])
    near, far = Point(0.9, 0.5, 0.0), Point(0.2, 0.0, 0.0)
    lines = [
        {"point": near, "scores": {"vert_distance": 1.0}},
        {"point": far, "scores": {"vert_distance": 2.0}},
    ]
    search.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert ordered(search.points(), "vert_distance")[0] == near


def test_the_command(parts, tmp_path, capsys):
    model, tokenizer, _ = parts
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    for split in ("train", "validation", "test"):
        lines = (json.dumps(row) for row in make_pairs(6, seed=len(split)))
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(
        '[model]\nname = "bart"\n[data]\nsource = "text"\ntarget = "title"\nmax_source_tokens = 24\n'
        'max_target_tokens = 8\n[data.files]\ntrain = "train.jsonl"\nvalidation = "validation.jsonl"\n'
        'test = "test.jsonl"\n[training]\nmax_steps = 1\n'
    )
    command = ["tune-penalties", str(tmp_path / "model"), "--recipe", str(recipe), "--data", str(tmp_path)]
    command += ["--alpha", "0.2", "0.9", "--beta", "0", "--beams", "2", "--max-tokens", "4", "--limit", "3"]
    assert main([*command, "--output", str(tmp_path / "grid"), "--stepwise"]) == 0
    assert json.loads((tmp_path / "grid" / "settings.json").read_text())["search"]["stepwise"] == []
    printed = capsys.readouterr().out
    assert "predicts no entities: gamma stays 0" in printed and "best" in printed
    assert (tmp_path / "grid" / "table.txt").read_text().count("\n") == 4
    assert not has_entities(model)
