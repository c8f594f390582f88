"""A pointer-generator that has learned to copy, stage by stage: where the studies start from.

First single sentences, then the first two of a few, then the first of a longer passage. (Highlights themselves, or
sentences chosen from all over the article, of 1,300 articles, teach a model of this size to hedge: it forgets how to
copy.)
"""

from __future__ import annotations

from pathlib import Path

from summarily.studies.copying.news import ALL_NEWS, LEADS, PASSAGES, SENTENCES, prepare_pairs
from summarily.studies.runner import Cell, run_cells

RECIPE = "apeso_news"
STEPS = {"sentences": 1200, "passages": 600, "leads": 600}
"""Optimizer steps of the stages."""
STAGES = {
    # the file to learn from, and how
    "sentences": (
        SENTENCES,
        "data.max_source_tokens=30",
        "data.max_target_tokens=30",
        "batch.tokens=2160",
        "evaluation.select=loss",
        "training.evaluate_every=400",
    ),
    "passages": (
        PASSAGES,
        "data.max_source_tokens=75",
        "data.max_target_tokens=60",
        "batch.tokens=2160",
        "evaluation.select=loss",
        "schedule.learning_rate=6e-4",
        "training.evaluate_every=300",
    ),
    "leads": (
        LEADS,
        "schedule.learning_rate=6e-4",
        "training.evaluate_every=300",
        "evaluation.select=loss",
    ),
}
GLANCE = ("data.limits.validation=200", "data.limits.test=16")
"""Of the stages, what is enough to see that they learn."""


def make_blank(folder: Path, data: Path, vectors: str = "glove-6b-50d") -> Path:
    """A new model with its tokenizer, whose words start at their GloVe vectors, unless it is there."""
    from summarily.modeling.training.building import build_model, load_vectors
    from summarily.modeling.training.corpora import load_corpus, texts
    from summarily.modeling.training.recipe import load_recipe
    from summarily.modeling.training.tokenizers import train_tokenizer
    from summarily.support.files import is_complete, write_folder

    if is_complete(folder):
        return folder
    import torch

    recipe = load_recipe(RECIPE, [f"data.files.all={ALL_NEWS}"])
    tokenizer = train_tokenizer(texts(load_corpus(recipe.data, data)["train"]), recipe.tokenizer)
    torch.manual_seed(recipe.training.seed)
    model = build_model(recipe, tokenizer)
    load_vectors(model, tokenizer, vectors)

    def write(partial: Path) -> None:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)

    write_folder(folder, write)
    return folder


def scaled(steps: int, scale: float) -> int:
    """So many steps, but at least one."""
    return max(1, round(scale * steps))


def cell(name: str, model: Path, steps: int, *overrides: str, recipe: str = RECIPE) -> Cell:
    """A run that goes on from the model in a folder."""
    here = (f"model.name={model}", "model.config={}", "tokenizer.kind=pretrained")
    return Cell(name, recipe, (*here, f"training.max_steps={steps}", *overrides))


def train_start(
    folder: Path,
    data: str | None,
    scale: float = 1.0,
    overrides: tuple[str, ...] = (),
    jobs: int = 2,
    last: str = "leads",
) -> Path:
    """The pointer-generator that learned to copy, in the stages up to `last`; returns where it is.

    `scale` multiplies the steps of every stage; finished stages are not run again.
    """
    prepare_pairs(folder / "data", data)
    files = str(folder / "data")
    model = make_blank(folder / "blank", folder / "data")
    for name, (file, *settings) in STAGES.items():
        steps = scaled(STEPS[name], scale)
        stage = cell(name, model, steps, f"data.files.all={file}", *GLANCE, *settings, *overrides)
        run_cells([stage], folder, files, jobs)
        model = folder / name / "hub"
        if name == last:
            break
    return model
