"""A training step of the news summarizer: as the recipe trains now, and as the same batch was trained before.

    python -m tests.benchmarks.training [--articles 8] [--repeats 3]

Before: every weight trained, float32, the head at every place of the padded targets. Now: an adapter, bfloat16 where
the CPU has it, the head only where there is a label. Articles and targets have the lengths of CNN/DailyMail (400 source
tokens; targets of 30 to 128, bucketed by length now, as they come before). CPU seconds of forward, backward and update,
medians, taking turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch

from summarily.modeling.training.building import add_adapter, build_optimizer, place_of
from summarily.modeling.training.collators import IGNORED_LABEL, SummaryCollator
from summarily.modeling.training.objective import summary_loss
from summarily.modeling.training.recipe import AdapterSection, OptimizerSection, TrainingSection
from summarily.support.shipped import quiet_about_tying
from summarily.support.tables import format_table
from tests.benchmarks.timing import ratio


def batches(articles: int, bucketed: bool) -> list[dict[str, torch.Tensor]]:
    """Two batches of random words; the same articles whether they come by length or not."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(30, 128, (2 * articles,), generator=generator).tolist()
    rows = [
        {
            "input_ids": torch.randint(10, 30000, (400,), generator=generator).tolist(),
            "labels": torch.randint(10, 30000, (length,), generator=generator).tolist(),
        }
        for length in lengths
    ]
    if bucketed:
        rows.sort(key=lambda row: len(row["labels"]))
    collate = SummaryCollator(pad_token_id=0)
    return [collate(rows[:articles]), collate(rows[articles:])]


def trainer(adapter: bool, articles: int) -> tuple[Callable[[], None], int]:
    """A function that takes one step on each batch, and the tokens it reads, padding not counted."""
    from transformers import AutoModelForSeq2SeqLM

    with quiet_about_tying():
        model: Any = AutoModelForSeq2SeqLM.from_pretrained(place_of("flan-t5-small"))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout) and adapter:
            module.p = 0.0
    if adapter:
        add_adapter(model, AdapterSection(rank=32))
    optimizer = build_optimizer(model, OptimizerSection())
    data = batches(articles, bucketed=adapter)
    model.train()

    def step() -> None:
        for batch in data:
            with torch.autocast("cpu", torch.bfloat16, enabled=adapter):
                if adapter:
                    loss = summary_loss(model, batch, TrainingSection())
                else:
                    loss = model(**batch).loss * (batch["labels"] != IGNORED_LABEL).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    tokens = sum(
        int(batch["attention_mask"].sum() + (batch["labels"] != IGNORED_LABEL).sum()) for batch in data
    )
    return step, tokens


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--articles", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    (now, tokens), (before, _) = (trainer(adapter, options.articles) for adapter in (True, False))
    result = ratio(now, before, options.repeats)
    rows = [
        ["before", f"{result.theirs_seconds:.2f}", f"{tokens / result.theirs_seconds:,.0f}"],
        ["now", f"{result.ours_seconds:.2f}", f"{tokens / result.ours_seconds:,.0f}"],
    ]
    print(format_table(["step", "CPU seconds", "tokens a CPU second"], rows))
    print(f"{result.ratio:.1f} times the tokens a second")


if __name__ == "__main__":
    main()
