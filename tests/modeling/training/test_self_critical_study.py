"""The study of rewards is resumable, and its tables say what its runs stored."""

import argparse
import gzip
import json

import pytest

from summarily.metrics.base import InputError
from summarily.modeling.apeso import study as apeso
from summarily.modeling.training import self_critical_study as study
from summarily.modeling.training.building import build_model
from summarily.modeling.training.corpora import load_corpus, texts
from summarily.modeling.training.recipe import load_recipe
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.modeling.training.train import train

STAGES = ["sentences", "passages"]
SIZES = [
    "model.config.hidden_size=16",
    "model.config.embedding_size=8",
    "tokenizer.vocabulary_size=60",
    "tokenizer.min_frequency=1",
]
TINY = [
    "data.max_source_tokens=24", "data.max_target_tokens=10", "batch.tokens=300",
    "evaluation.tokens=300", "evaluation.validation_examples=4", "generation.max_new_tokens=8",
    "training.tensorboard=false", "self_critical.reward_workers=0",
]  # fmt: skip


@pytest.fixture
def data(tmp_path):
    """Invented articles in the form of the three collections."""
    folder = tmp_path / "data" / "news"
    folder.mkdir(parents=True)
    for name, count in (("cnndm_articles", 80), ("bbc_news_summary", 8), ("reuters_train", 8)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            for i in range(count):
                who, what = ("Oslo", "Bergen", "Lima", "Quito")[i % 4], ("bank", "port", "mill")[i % 3]
                text = (
                    f"The {what} of {who} opened hall {i}. It rained. Nobody came on day {i}. All went home."
                )
                short = f"The {what} of {who} opened ."
                row = {
                    "id": f"{name}{i}",
                    "article": text,
                    "highlights": [short, "It rained ."],
                    "body": text,
                }
                row |= {"extractive_summary": short, "first_paragraph": short}
                file.write(json.dumps(row) + "\n")
    return str(tmp_path / "data")


def blank(folder, data):
    """A tiny model without word vectors."""
    recipe = load_recipe(apeso.RECIPE, [*SIZES, f"data.files.all={apeso.ALL_NEWS}"])
    tokenizer = train_tokenizer(texts(load_corpus(recipe.data, data)["train"]), recipe.tokenizer)
    build_model(recipe, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def small(monkeypatch):
    """Two rewards that need no weights, few steps, and runs in this process."""
    rouge = study.REWARDS["rouge_l"]
    monkeypatch.setattr(study, "REWARDS", {"rouge_l": rouge, "wms": rouge._replace(title="again")})
    monkeypatch.setattr(study, "METRICS", ("rouge",))
    monkeypatch.setattr(study, "COLUMNS", {"rouge1": "R-1", "rougeL": "R-L"})
    monkeypatch.setattr(study, "PAPER", {"rouge_l": (37.46, 34.39)})
    started = []

    def in_this_process(cells, folder, data, jobs):
        for cell in cells:
            if not (folder / cell.name / "result.json").exists():
                started.append(cell.name)
                train(load_recipe(cell.recipe, cell.overrides), folder / cell.name, data=data)

    monkeypatch.setattr(study, "run_cells", in_this_process)
    monkeypatch.setattr(apeso, "run_cells", in_this_process)
    monkeypatch.setattr(apeso, "make_blank", blank)
    return started


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
        "2",
        "--output",
        str(tmp_path / "out"),
        "--data",
        data,
    ]
    return parser.parse_args([*arguments, *settings])


def test_the_study_runs_scores_and_goes_on(tmp_path, data, small, capsys):
    assert study.run(options(tmp_path, data)) == 0
    assert small == [*STAGES, study.CONTROL, "rouge_l", "wms"]
    stored = json.loads((tmp_path / "out" / "study.json").read_text())
    assert list(stored["rows"]) == ["lead 3", study.START, study.CONTROL, "rouge_l", "wms"]
    assert set(stored["rows"]["wms"]) >= {f"against_{study.START}", f"against_{study.CONTROL}"}
    assert stored["factors"]["rouge_l"] == 1.0 == stored["factors"]["wms"]
    assert stored["seconds"]["rouge_l"]["sample"] > 0
    table = (tmp_path / "out" / "study.md").read_text()
    assert "| mixed loss, ROUGE-L |" in table and "(34.39)" in table and "rouge|mode:google" in table
    capsys.readouterr()
    assert study.run(options(tmp_path, data)) == 0
    assert len(small) == 5, "finished runs are not run again"


def test_a_start_can_be_given(tmp_path, data, small):
    given = options(tmp_path, data)
    steps = dict.fromkeys(apeso.STEPS, 1)
    apeso.train_start(tmp_path / "before", data, steps, tuple(TINY), last="passages")
    given.start = str(tmp_path / "before" / "passages" / "hub")
    assert study.run(given) == 0
    assert small == [*STAGES, study.CONTROL, "rouge_l", "wms"], "the start was trained again"
    given.start = str(tmp_path / "before" / "sentences" / "hub")
    with pytest.raises(InputError, match=r"began with another start .* by --output"):
        study.run(given)
    given.start, given.output = str(tmp_path), str(tmp_path / "other")
    with pytest.raises(InputError, match=r"no model.safetensors; .* by --start"):
        study.run(given)


def test_every_run_differs_in_its_reward_alone(tmp_path):
    factors = dict.fromkeys(study.REWARDS, 2.0)
    cells = study.make_cells(tmp_path, factors, steps=8, rate=1e-4)
    recipes = {cell.name: load_recipe(cell.recipe, cell.overrides).to_dict() for cell in cells}
    control = recipes.pop(study.CONTROL)
    assert control["self_critical"]["rewards"] == []
    for name, recipe in recipes.items():
        reward = study.REWARDS[name]
        assert recipe["self_critical"]["rewards"] == [reward.metric]
        assert recipe["self_critical"]["reward_weights"] == [2.0]
        assert recipe["evaluation"]["select"] == reward.score
        for section in ("model", "data", "batch", "optimizer", "schedule", "training"):
            assert recipe[section] == control[section], section
