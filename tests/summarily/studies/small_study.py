"""Studies of news at a size for tests: invented articles, a tiny model, and runs in this process."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from summarily.modeling.training.building import build_model
from summarily.modeling.training.corpora import load_corpus, texts
from summarily.modeling.training.recipe import load_recipe
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.modeling.training.train import train
from summarily.studies.copying import learning_to_copy
from summarily.studies.copying.news import ALL_NEWS

SIZES = [
    "model.config.hidden_size=16", "model.config.embedding_size=8",
    "tokenizer.vocabulary_size=60", "tokenizer.min_frequency=1",
]  # fmt: skip
SETTINGS = [
    "data.max_source_tokens=24", "data.max_target_tokens=10", "batch.tokens=300", "evaluation.tokens=300",
    "evaluation.validation_examples=4", "generation.max_new_tokens=8", "training.tensorboard=false",
]  # fmt: skip


def write_news(folder: Path) -> str:
    """Invented articles in the form of the three collections; returns the folder of the data."""
    news = folder / "news"
    news.mkdir(parents=True)
    for name, count in (("cnndm_articles", 80), ("bbc_news_summary", 8), ("reuters_train", 8)):
        with gzip.open(news / f"{name}.jsonl.gz", "wt") as file:
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
    return str(folder)


def blank(folder: Path, data: Path) -> Path:
    """A tiny model without word vectors."""
    recipe = load_recipe(learning_to_copy.RECIPE, [*SIZES, f"data.files.all={ALL_NEWS}"])
    tokenizer = train_tokenizer(texts(load_corpus(recipe.data, data)["train"]), recipe.tokenizer)
    build_model(recipe, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run_here(monkeypatch, *studies) -> list[str]:
    """Let the runs of studies be in this process, from the tiny model; returns a list that will name those started."""
    started: list[str] = []

    def in_this_process(cells, folder, data, jobs):
        for cell in cells:
            if not (folder / cell.name / "result.json").exists():
                started.append(cell.name)
                train(load_recipe(cell.recipe, cell.overrides), folder / cell.name, data=data)

    for study in studies:
        monkeypatch.setattr(study, "run_cells", in_this_process)
    monkeypatch.setattr(learning_to_copy, "make_blank", blank)
    return started
