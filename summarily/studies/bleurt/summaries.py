"""Our small BLEURT learns from judgements of summaries: which of two summaries of an article people found better.

Three sets of judgements are at hand. For each, a model learns from the duels of the two others (and from sentences, so
that it does not forget them), and is measured on the third, which it has never seen, beside BERTScore's recall and BLEURT
before. Then one learns from all three. All runs go on where they were stopped.

    summarily study bleurt-summaries --data FOLDER
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from summarily.studies.report import kept, with_interval
from summarily.support.files import write_atomically
from summarily.support.folders import data_folder

if TYPE_CHECKING:
    from summarily.metrics.meta_evaluation.human import Judgements

RECIPE = "bleurt_summaries"
SETS = {"chaganty": "overall", "summeval": "relevance", "realsumm": "litepyramid_recall"}
"""The sets of judgements, and what people were asked."""
DUELS = 30
VALIDATION = 10
"""One article in so many is held out of training."""
PEER = "BERTScore recall"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", default="runs/study-bleurt-summaries", help="default: %(default)s")
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    parser.add_argument(
        "--start",
        default="bleurt-light",
        help="the model to go on from (default: %(default)s, the shipped one)",
    )
    parser.add_argument(
        "--duels", type=int, default=DUELS, help="duels of an article at most (default: %(default)s)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="for every run"
    )


def run(options: argparse.Namespace) -> int:
    """Train and measure, or go on; then write `STUDY.md`."""
    from summarily.support.weights import resolve

    data, folder = data_folder(options.data), Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    start = _folder_of(options.start)
    judged = {name: _judgements(name, data) for name in SETS}
    for held_out, judgements in judged.items():
        others = {name: without(own, judgements) for name, own in judged.items() if name != held_out}
        model = _train(folder, f"without-{held_out}", others, start, data, options)
        if model is None:
            print("stopped; run the same command to go on")
            return 1
        kept(folder / f"measured-{held_out}.json", partial(measured, judgements, start, model))
        kept(folder / f"sentences-{held_out}.json", partial(sentences, data, start, model))
    if _train(folder, "all", judged, start, data, options) is None:
        print("stopped; run the same command to go on")
        return 1
    text = report(folder)
    write_atomically(folder / "STUDY.md", text)
    print(text)
    print(f"written to {folder}: STUDY.md, the numbers behind it, and the model of all sets in all/hub")
    print(f"it went on from {resolve(start).identity}")
    return 0


def _folder_of(name: str) -> str:
    from summarily.support.shipped import folder

    return name if Path(name).is_dir() else str(folder(name))


def _judgements(name: str, data: Path) -> Judgements:
    """A set with the first reference of each summary."""
    from summarily.metrics.meta_evaluation.human import read_judgements

    judgements = read_judgements(name, SETS[name], data)
    judgements.references = [references[:1] for references in judgements.references]
    return judgements


# --- duels --------------------------------------------------------------------------------------------------


def duels(judgements: Judgements, most: int, seed: int = 0) -> list[dict[str, str]]:
    """Pairs of summaries of one article that people judged differently, at most so many of an article, by chance.

    Example:
        >>> from summarily.metrics.meta_evaluation.human import Judgements
        >>> mine = Judgements("mine", "overall", ["bad", "good"], [["r"], ["r"]], [1.0, 2.0], ["a", "a"], ["s", "t"])
        >>> [(row["better"], row["worse"]) for row in duels(mine, 5)]
        [('good', 'bad')]
    """
    by_article: dict[str, list[int]] = defaultdict(list)
    for row, article in enumerate(judgements.inputs):
        by_article[article].append(row)
    found = []
    for number, (article, rows) in enumerate(sorted(by_article.items())):
        human, texts = judgements.human, judgements.summaries
        pairs = [
            (a, b) if human[a] > human[b] else (b, a)
            for a, b in itertools.combinations(rows, 2)
            if human[a] != human[b] and texts[a] != texts[b]
        ]
        chosen = random.Random(f"{seed} {article}").sample(pairs, min(most, len(pairs)))
        split = "validation" if number % VALIDATION == 0 else "train"
        found += [
            {
                "reference": judgements.references[better][0],
                "better": texts[better],
                "worse": texts[worse],
                "split": split,
            }
            for better, worse in chosen
        ]
    return found


def without(judgements: Judgements, held_out: Judgements) -> Judgements:
    """The judgements of articles that the other set has not got: sets are drawn from the same newspapers.

    An article is known by the letters of its first reference, for some sets mask digits or lower the case.

    Example:
        >>> from summarily.metrics.meta_evaluation.human import Judgements
        >>> mine = Judgements("mine", "overall", ["a", "b"], [["Snow 1."], ["Rain."]], [1.0, 2.0], ["x", "y"], ["s", "s"])
        >>> other = Judgements("other", "overall", ["c"], [["snow #"]], [1.0], ["z"], ["s"])
        >>> without(mine, other).summaries
        ['b']
    """
    seen = {_letters(references[0]) for references in held_out.references}
    left = dataclasses.replace(
        judgements, summaries=[], references=[], human=[], inputs=[], systems=[], source_texts=[]
    )
    for row, references in enumerate(judgements.references):
        if _letters(references[0]) not in seen:
            left.add(
                judgements.summaries[row],
                references,
                judgements.human[row],
                judgements.inputs[row],
                judgements.systems[row],
            )
    return left


def _letters(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


def _train(
    folder: Path,
    name: str,
    sets: dict[str, Judgements],
    start: str,
    data: Path,
    options: argparse.Namespace,
) -> Path | None:
    """The model that learned from some sets, or None if the run was stopped."""
    from summarily.modeling.training.recipe import load_recipe
    from summarily.modeling.training.train import train

    file = (folder / f"duels-{name}.jsonl").resolve()
    if not file.is_file():
        rows = [row for judgements in sets.values() for row in duels(judgements, options.duels)]
        write_atomically(file, "".join(json.dumps(row) + "\n" for row in rows))
    recipe = load_recipe(RECIPE, [f"model.name={start}", *options.set])
    given = recipe.to_dict()
    for source in given["rating"]["pairs"]:
        if source["worse"] is not None:
            source["file"] = str(file)
    result = train(type(recipe).from_dict(given), folder / name, data=data)
    print(f"{name}: {result.status} after {result.step} steps, {result.best_score:.1f} won", flush=True)
    return folder / name / "hub" if result.status == "finished" else None


# --- measures -----------------------------------------------------------------------------------------------


def measured(judgements: Judgements, before: str, after: Path) -> dict[str, list[float]]:
    """Spearman's correlation with people over the summaries of each article, of three metrics.

    Articles without an order of their own, or that a metric scores alike, are left out of all three.
    """
    from summarily.metrics import load

    bertscore = load("bertscore").compute(judgements.summaries, judgements.references)
    scores = {"before": _scores(judgements, before), "after": _scores(judgements, after)}
    return by_article(judgements, {**scores, PEER: bertscore.per_example["bertscore_recall"]})


def by_article(judgements: Judgements, scores: dict[str, Sequence[float]]) -> dict[str, list[float]]:
    """See `measured`."""
    from summarily.metrics.meta_evaluation.correlation import coefficient

    rows: dict[str, list[int]] = defaultdict(list)
    for row, article in enumerate(judgements.inputs):
        rows[article].append(row)
    found: dict[str, list[float]] = {name: [] for name in scores}
    for own in rows.values():
        human = [judgements.human[row] for row in own]
        values = {
            name: coefficient("spearman", [column[row] for row in own], human)
            for name, column in scores.items()
        }
        if not any(math.isnan(value) for value in values.values()):
            for name, value in values.items():
                found[name].append(value)
    return found


def _scores(judgements: Judgements, model: str | Path) -> Sequence[float]:
    from summarily.metrics import load

    score = load("bleurt", model=str(model)).compute(judgements.summaries, judgements.references)
    return score.per_example["bleurt"]


def sentences(data: Path, before: str, after: Path) -> dict[str, float]:
    """Spearman's correlation with people on the pairs of sentences of STS-B's development split."""
    from summarily.metrics import load
    from summarily.metrics.meta_evaluation.correlation import coefficient
    from summarily.metrics.meta_evaluation.paraphrase import read_pairs

    pairs = read_pairs("stsb", data)
    found = {}
    for name, model in (("before", before), ("after", str(after))):
        score = load("bleurt", model=model).compute(pairs.second, pairs.first)
        found[name] = coefficient("spearman", score.per_example["bleurt"], pairs.labels)
    return found


# --- the report ---------------------------------------------------------------------------------------------


def report(folder: Path) -> str:
    """All that is stored, as Markdown."""
    from summarily.metrics.meta_evaluation.reports import Table
    from summarily.metrics.resampling import mean_intervals, paired_test
    from summarily.support.inputs import read_json

    rows, lines = [], []
    for name, question in SETS.items():
        own: dict[str, Any] = read_json(folder / f"measured-{name}.json")
        on_sentences = read_json(folder / f"sentences-{name}.json")
        intervals = mean_intervals(own)
        cells = [
            with_interval(sum(own[key]) / len(own[key]), intervals[key], ".3f")
            for key in ("before", "after", PEER)
        ]
        change = on_sentences["after"] - on_sentences["before"]
        rows.append([f"{name}, {question}", *cells, f"{on_sentences['after']:.3f} ({change:+.3f})"])
        test = paired_test(own["after"], own[PEER])
        lines.append(
            f"- {name}: {test.difference:+.3f} to {PEER} ({test.low:+.3f} to {test.high:+.3f}), permutation "
            f"p = {test.p_permutation:.4f}, {len(own['after'])} articles"
        )
    header = ["held out", "BLEURT before", "learned from the two others", PEER, "STS-B"]
    return "\n\n".join(
        [
            "# BLEURT on summaries",
            "Written by `summarily study bleurt-summaries --data FOLDER`. Mean Spearman correlation with people over the "
            "summaries of one article, first reference, with 95% intervals by bootstrap over articles; on STS-B over all "
            "pairs.",
            Table("", header, rows).markdown(),
            "\n".join(lines) + "\n",
        ]
    )
