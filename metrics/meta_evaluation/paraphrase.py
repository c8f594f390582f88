"""Does a metric know a paraphrase? The Quora protocol: `summarily meta paraphrase`.

A pair of sentences is scored as prediction and reference; the score is correlated with the label, and a decision
boundary on the score alone, learnt on one half of the pairs, classifies the other half (the thesis' Table 6.4).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from summarily.metrics.base import Metric, make_examples
from summarily.metrics.meta_evaluation import reports
from summarily.metrics.meta_evaluation.correlation import COEFFICIENTS, coefficient
from summarily.metrics.meta_evaluation.human import _column, _number
from summarily.metrics.meta_evaluation.reports import Section, Table, bracket, number
from summarily.metrics.meta_evaluation.scores import Scored, ScoreStore, reported, significant
from summarily.metrics.meta_evaluation.significance import Bounds, bootstrap, interval
from summarily.metrics.resampling import mean_intervals
from summarily.support.errors import InputError
from summarily.support.folders import data_folder
from summarily.support.tables import read_table

FEWEST_PAIRS = 8
"""A boundary needs pairs of both kinds to learn on and to be tested on."""

NAMED = {
    "quora": ("paraphrase/quora_dev.jsonl.gz", "quora_dev", ("question1", "question2", "is_duplicate")),
    "stsb": ("paraphrase/stsb_dev.jsonl.gz", "stsb_dev", ("sentence1", "sentence2", "score")),
}
"""By name: the file in the data folder, what it is called, and its columns."""


@dataclass
class Pairs:
    """Pairs of sentences with a label (0 or 1) or a graded similarity."""

    name: str
    first: list[str]
    second: list[str]
    labels: list[float]
    dropped: int = 0


def read_pairs(
    data: str,
    folder: str | os.PathLike[str] | None = None,
    columns: Sequence[str] = ("question1", "question2", "is_duplicate"),
    limit: int | None = None,
    split: str = "validation",
    config: str | None = None,
) -> Pairs:
    """Pairs by name ("quora", "stsb"), from a table, or from a data set on the Hub; the first `limit` of them.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.csv"
        >>> _ = file.write_text("a,b,same\\n" + "yes,yes,1\\nyes,no,0\\n" * 4)
        >>> read_pairs(str(file), columns=("a", "b", "same")).labels[:3]
        [1.0, 0.0, 1.0]
    """
    name = Path(data).name
    if data in NAMED:
        file, name, columns = NAMED[data]
        data = str(data_folder(folder) / file)
    table = read_table(data, split, config)
    first, second, labels = (
        _column(table, column, what)
        for column, what in zip(columns, ("first", "second", "label"), strict=True)
    )
    result = Pairs(name, [], [], [])
    for row, (a, b, label) in enumerate(zip(first, second, labels, strict=True)):
        if len(result.labels) == limit:
            break
        value = _number(name, row, columns[2], label, None)
        if value is None or a is None or b is None:
            result.dropped += 1
            continue
        result.first.append(a)
        result.second.append(b)
        result.labels.append(value)
    if len(result.labels) < FEWEST_PAIRS:
        raise InputError(
            f"{name} has {len(result.labels)} labelled pairs; at least {FEWEST_PAIRS} are needed."
        )
    return result


def score_pairs(
    pairs: Pairs, metrics: Mapping[str, Metric], store: ScoreStore | None = None, progress: bool | None = None
) -> Scored:
    """Score every pair, the first sentence as the prediction and the second as the reference."""
    scores = (store or ScoreStore()).score(metrics, make_examples(pairs.first, pairs.second), progress)
    n = len(pairs.labels)
    read = f"{pairs.name}: {n} pairs" + (
        f"; left out: {pairs.dropped} without a label" if pairs.dropped else ""
    )
    return Scored(
        pairs.name,
        {"label": significant(pairs.labels)},
        {label: significant(column) for label, column in reported(scores).items()},
        list(range(n)),
        [0] * n,
        ["pairs"],
        {label: str(score.signature) for label, score in scores.items()},
        {"read": read},
    )


@dataclass(frozen=True)
class Paraphrase:
    """How well one metric tells paraphrases from other pairs."""

    label: str
    n: int
    missing: int
    correlations: dict[str, float]
    bounds: Bounds
    """Of Spearman's rho, over pairs."""
    accuracy: float
    accuracy_bounds: tuple[float, float]
    f1: float
    boundary: float


def boundary(scores: np.ndarray, labels: np.ndarray) -> float:
    """The threshold with the highest accuracy; at or above it is a paraphrase.

    Example:
        >>> boundary(np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 0, 1, 1]))
        0.5
    """
    order = np.argsort(scores, kind="stable")
    values, positive = scores[order], labels[order] > 0.5
    # Right if those before are 0 and those from here on are 1; a boundary lies only between distinct values.
    right = np.concatenate([[0], np.cumsum(~positive)]) + np.concatenate(
        [np.cumsum(positive[::-1])[::-1], [0]]
    )
    possible = np.concatenate([[True], np.diff(values) > 0, [True]])
    place = int(np.argmax(np.where(possible, right, -1)))
    if place == 0:
        return -math.inf
    if place == len(values):
        return math.inf
    return float((values[place - 1] + values[place]) / 2)


def analyse_pairs(scored: Scored, resamples: int = 1000, seed: int = 0) -> list[Paraphrase]:
    """Correlation with the label, and accuracy and F1 of a boundary learnt on a random half."""
    labels = np.array(scored.human["label"])
    binary = set(np.unique(labels)) <= {0.0, 1.0}
    train = np.zeros(len(labels), dtype=bool)
    train[np.random.default_rng(seed).permutation(len(labels))[: len(labels) // 2]] = True
    return [
        _paraphrase(label, np.array(column), labels, train, binary, resamples)
        for label, column in scored.columns.items()
    ]


def _paraphrase(
    label: str, column: np.ndarray, labels: np.ndarray, train: np.ndarray, binary: bool, resamples: int
) -> Paraphrase:
    kept = ~np.isnan(column)
    x, y, learn = column[kept], labels[kept], train[kept]
    rows = [str(row) for row in range(len(x))]
    correlations = {name: coefficient(name, x, y) for name in COEFFICIENTS}
    bounds = Bounds(math.nan, math.nan, 0)
    if not math.isnan(correlations["spearman"]):
        draws = bootstrap([x], y, rows, ["pairs"] * len(x), "pooled", "spearman", "inputs", resamples)
        bounds = interval(draws[0])
    accuracy, f1, cut, around = math.nan, math.nan, math.nan, (math.nan, math.nan)
    if binary and learn.any() and (~learn).sum() > 1:
        cut = boundary(x[learn], y[learn])
        said, true = x[~learn] >= cut, y[~learn] > 0.5
        correct = (said == true).astype(float)
        accuracy = float(correct.mean())
        around = mean_intervals({"accuracy": correct})["accuracy"]
        found = int((said & true).sum())
        f1 = 2 * found / max(1, int(said.sum() + true.sum()))
    return Paraphrase(label, len(x), len(column) - len(x), correlations, bounds, accuracy, around, f1, cut)


def paraphrase_table(name: str, rows: Sequence[Paraphrase]) -> Table:
    """In the shape of the thesis' Table 6.4, with intervals."""
    cells = [
        [
            row.label,
            *(number(row.correlations[each]) for each in ("spearman", "pearson", "kendall")),
            bracket(*row.bounds[:2]),
            number(row.accuracy),
            bracket(*row.accuracy_bounds),
            number(row.f1),
            str(row.missing),
        ]
        for row in rows
    ]
    return Table(
        f"{name}: correlation with the label, and a decision boundary learnt on half",
        ["metric", "rho", "r", "tau", "rho 95%", "accuracy", "95%", "F1", "missing"],
        cells,
    )


def section(scored: Scored, rows: Sequence[Paraphrase], plots: bool) -> Section:
    """The part of a report about paraphrases."""
    result = Section(f"Paraphrases: {scored.name}", [scored.notes.get("read", "")])
    result.tables = [paraphrase_table(scored.name, rows)]
    if plots:
        result.figures.append(
            (
                "Spearman correlation with the label, 95% intervals over pairs",
                reports.bars(
                    {row.label: row.correlations["spearman"] for row in rows},
                    {row.label: row.bounds[:2] for row in rows},
                    "spearman with the label",
                ),
            )
        )
        result.figures.append(("Distribution of each metric's scores", reports.distributions(scored.columns)))
    return result
