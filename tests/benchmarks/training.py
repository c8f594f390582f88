"""A training step of the recipes `news` and `long`: as they train now, and as the same texts were trained before.

    python -m tests.benchmarks.training [--recipes news,long] [--articles 8] [--papers 1] [--repeats 3] [--threads 1]

before: every weight trained, float32, T5's dropout, the head at every place of the padded targets, articles as they come.
stock: as the recipe says (an adapter, bfloat16 where the CPU has it, no dropout, articles by length, the head only where
there is a label), with the layers of transformers as they are. now: with ours in their place. Articles and
targets have the lengths of CNN/DailyMail (400 source tokens; targets of 30 to 128), papers those of the recipe (4,096; 200).
CPU seconds of forward, backward and update, medians, taking turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from transformers import AutoTokenizer

from summarily.modeling.training.building import build_model, build_optimizer, place_of
from summarily.modeling.training.collators import IGNORED_LABEL, SummaryCollator
from summarily.modeling.training.objective import summary_loss
from summarily.modeling.training.recipe import AdapterSection, Recipe, load_recipe
from summarily.support.tables import format_table
from tests.benchmarks.timing import in_turn

Batches = list[dict[str, torch.Tensor]]


def batches(recipe: str, articles: int, papers: int, bucketed: bool) -> Batches:
    """Two batches of articles, the same whether they come by length or not; or papers, one at a time. Random words."""
    generator = torch.Generator().manual_seed(0)

    def words(count: int) -> list[int]:
        return torch.randint(10, 30000, (count,), generator=generator).tolist()

    collate = SummaryCollator(pad_token_id=0)
    if recipe == "long":
        return [collate([{"input_ids": words(4096), "labels": words(200)}]) for _ in range(papers)]
    lengths = torch.randint(30, 128, (2 * articles,), generator=generator).tolist()
    rows = [{"input_ids": words(400), "labels": words(length)} for length in lengths]
    if bucketed:
        rows.sort(key=lambda row: len(row["labels"]))
    return [collate(rows[:articles]), collate(rows[articles:])]


def as_before(recipe: Recipe) -> Recipe:
    """The recipe with every weight trained in float32, and T5's own dropout."""
    config = {name: value for name, value in recipe.model.config.items() if name != "dropout_rate"}
    return replace(
        recipe,
        model=replace(recipe.model, config=config),
        adapter=AdapterSection(),
        training=replace(recipe.training, precision="fp32"),
    )


@contextmanager
def stock_layers() -> Iterator[None]:
    """Inside, models are built of the layers of transformers."""
    with patch("summarily.modeling.modeling_sparse_t5.fuse_gelu", lambda model: None):
        yield


def trainer(recipe: Recipe, data: Batches, whole_head: bool = False) -> Callable[[], None]:
    """A function that takes one step on each batch."""
    model: Any = build_model(recipe, AutoTokenizer.from_pretrained(place_of(recipe.model.name)))
    optimizer = build_optimizer(model, recipe.optimizer)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    model.train()
    lower = recipe.training.precision == "bf16"

    def step() -> None:
        for batch in data:
            with torch.autocast("cpu", torch.bfloat16, enabled=lower):
                if whole_head:
                    loss = model(**batch).loss * (batch["labels"] != IGNORED_LABEL).sum()
                else:
                    loss = summary_loss(model, batch, recipe.training)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return step


def compare(name: str, articles: int, papers: int, repeats: int) -> None:
    recipe = load_recipe(name)
    by_length, as_they_come = (batches(name, articles, papers, bucketed) for bucketed in (True, False))
    with stock_layers():
        before = trainer(as_before(recipe), as_they_come, whole_head=True)
        stock = trainer(recipe, by_length)
    steps = {"before": before, "stock": stock, "now": trainer(recipe, by_length)}
    seconds = dict(zip(steps, in_turn(list(steps.values()), repeats), strict=True))
    tokens = sum(
        int(batch["attention_mask"].sum() + (batch["labels"] != IGNORED_LABEL).sum()) for batch in by_length
    )
    rows = [
        [way, f"{taken:.2f}", f"{tokens / taken:,.0f}", f"{seconds['before'] / taken:.2f}"]
        for way, taken in seconds.items()
    ]
    print(format_table([name, "CPU seconds", "tokens a CPU second", "times as fast"], rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipes", default="news,long")
    parser.add_argument("--articles", type=int, default=8)
    parser.add_argument("--papers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.recipes.split(","):
        compare(name, options.articles, options.papers, options.repeats)


if __name__ == "__main__":
    main()
