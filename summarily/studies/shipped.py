"""The table of models: what each shipped summarizer reads, its ROUGE beside the first sentences, its time and its size.

Each is scored on the first test rows of its own kind of text: news on CNN/DailyMail, papers on PubMed, headlines on first
paragraphs. What was written is kept: a study that is stopped goes on where it was. The table is that of the README.

    summarily study models --data FOLDER
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from summarily.studies import report
from summarily.studies.baselines import KEYS, lead, rouge_of


class Task(NamedTuple):
    """What a model is for: what it reads, the recipe whose test rows it is scored on, and the sentences of its baseline."""

    reads: str
    recipe: str
    rows: str
    sentences: int = 3


NEWS = Task("articles of English news", "news", "CNN/DailyMail")
PAPERS = Task("papers", "long", "PubMed", 8)
TASKS = {
    "news": NEWS,
    "pointer-generator": NEWS,
    "apeso": NEWS,
    "long": PAPERS,
    "long-red": PAPERS,
    "headlines": Task("a paragraph of English news", "headlines", "first paragraphs of CNN/DailyMail", 1),
}


def held_out_rows(task: Task, data: str | None, count: int) -> tuple[list[str], list[list[str]]]:
    """The first test rows of a task: sources without any prefix, and references."""
    from summarily.modeling.training.corpora import load_corpus
    from summarily.modeling.training.recipe import load_recipe

    section = load_recipe(task.recipe).data
    held_out = section.files["validation"]  # the training files are not needed
    changes = ["data.prefix=", "data.also=[]", f"data.files.train={held_out}", f"data.limits.test={count}"]
    changes += [
        "data.limits.train=1",
        "data.limits.validation=1",
        "data.min_copied=0.0",
        "data.copied_words=none",
    ]
    rows = load_corpus(load_recipe(task.recipe, changes).data, data)["test"]
    return list(rows["source"]), list(rows["references"])


def measure(name: str, task: Task, data: str | None, count: int) -> dict[str, Any]:
    """What a model writes, one text at a time on one thread, with the CPU seconds that it takes, beside the baseline."""
    import torch

    from summarily.modeling.generation.summarizer import Summarizer

    sources, references = held_out_rows(task, data, count)
    summarizer = Summarizer(name, device="cpu")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that long texts are cut is what the table says
            summarizer(sources[0])  # what is done once
            start = time.process_time()
            texts = [summarizer(source) for source in sources]
            seconds = (time.process_time() - start) / len(sources)
    finally:
        torch.set_num_threads(threads)
    ours, first = (
        rouge_of(some, references).mean
        for some in (texts, [lead(source, task.sentences) for source in sources])
    )
    return {
        "rows": len(sources),
        "limit": summarizer.source_limit,
        "ours": [ours[key] for key in KEYS],
        "lead": [first[key] for key in KEYS],
        "seconds": seconds,
    }


def megabytes(name: str) -> float:
    """The size of a shipped model's folder.

    Example:
        >>> 1 < megabytes("headlines") < 25
        True
    """
    from summarily.support.shipped import folder

    return sum(file.stat().st_size for file in Path(folder(name)).rglob("*") if file.is_file()) / 1e6


def line(name: str, task: Task, found: Mapping[str, Any], size: float) -> list[str]:
    """A row of the table.

    Example:
        >>> found = {"rows": 100, "limit": 512, "ours": [0.38, 0.16, 0.353], "lead": [0.396, 0.17, 0.36], "seconds": 4.41}
        >>> line("news", NEWS, found, 10.3)[1:4]
        ['articles of English news, 512 tokens', '38.0 / 16.0 / 35.3', '39.6 / 17.0 / 36.0 (lead-3)']
    """
    limit = "any length" if found["limit"] is None else f"{found['limit']:,} tokens"
    ours, first = (" / ".join(f"{100 * value:.1f}" for value in found[key]) for key in ("ours", "lead"))
    return [
        f"[`{name}`](hub_cards/{name}/README.md)",
        f"{task.reads}, {limit}",
        ours,
        f"{first} (lead-{task.sentences})",
        f"{found['rows']} of {task.rows}",
        f"{found['seconds']:.1f}",
        f"{size:.0f}",
    ]


HEAD = ["model", "reads", "ROUGE-1/2/Lsum", "the first sentences", "test texts", "CPU seconds a text", "MB"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    parser.add_argument("--output", default="runs/study-models", help="default: %(default)s")
    parser.add_argument("--texts", type=int, default=100, help="of each test split (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(TASKS), metavar="MODEL", help="only these")


def run(options: argparse.Namespace) -> int:
    """Measure what is not measured yet, and print the table."""
    from summarily.support.shipped import summarizers

    folder, rows = Path(options.output), []
    for name in [name for name in summarizers() if not options.only or name in options.only]:
        task = TASKS[name]
        make = functools.partial(measure, name, task, options.data, options.texts)
        found = report.kept(folder / f"{name}-{options.texts}.json", make)
        rows.append(line(name, task, found, megabytes(name)))
    print("\n".join(report.table(HEAD, rows)))
    return 0
