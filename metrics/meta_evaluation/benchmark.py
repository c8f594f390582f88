"""Several systems' outputs under every metric: `summarily meta benchmark` (the thesis' Table 6.6)."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from summarily.metrics.base import Metric, make_examples
from summarily.metrics.meta_evaluation import reports
from summarily.metrics.meta_evaluation.human import _column
from summarily.metrics.meta_evaluation.reports import Section, Table, mean, number, p_value
from summarily.metrics.meta_evaluation.scores import ScoreStore, reported, significant
from summarily.metrics.resampling import holm, mean_intervals, paired_test
from summarily.support import tables
from summarily.support.errors import InputError
from summarily.support.folders import data_folder
from summarily.support.tables import read_table, some_names


@dataclass
class Outputs:
    """What several systems wrote for the same references."""

    name: str
    references: list[Any]
    systems: dict[str, list[str]]


def read_systems(
    data: str,
    folder: str | os.PathLike[str] | None = None,
    systems: Sequence[str] = (),
    reference: str = "reference",
    limit: int | None = None,
    split: str = "test",
) -> Outputs:
    """Outputs of several systems: "xsum", a table with one column per system or one column `outputs` of objects,
    or a data set on the Hub; the first `limit` rows.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "systems.csv"
        >>> _ = file.write_text("reference,A,B\\na cat,a cat,a dog\\n")
        >>> read_systems(str(file), systems=["A", "B"]).systems["B"]
        ['a dog']
    """
    name = Path(data).name
    if data == "xsum":
        name, data = "xsum_outputs", str(data_folder(folder) / "news/xsum_outputs.jsonl.gz")
    table = read_table(data, split)
    references = _column(table, reference, "reference")[:limit]
    if "outputs" in table and not systems:
        outputs = table["outputs"]
        if not outputs or not all(isinstance(row, Mapping) for row in outputs):
            raise InputError(f"{data}: the column 'outputs' holds no objects with a text per system.")
        table = tables.Table(outputs[0], lambda key: [row.get(key) for row in outputs])
        systems = list(table)
    if len(systems) < 2:
        raise InputError(f"name at least two systems with --systems; the columns are: {some_names(table)}.")
    found = {system: _column(table, system, "system")[:limit] for system in systems}
    return Outputs(name, references, found)


def benchmark(
    outputs: Outputs,
    metrics: Mapping[str, Metric],
    store: ScoreStore | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Mean, standard deviation and interval of every system under every metric, and tests of all pairs.

    p-values are of paired permutation tests, corrected by Holm for the number of pairs.
    """
    texts = [text for column in outputs.systems.values() for text in column]
    examples = make_examples(texts, list(outputs.references) * len(outputs.systems))
    scores = (store or ScoreStore()).score(metrics, examples, progress)
    n = len(outputs.references)
    result: dict[str, Any] = {}
    for label, column in reported(scores).items():
        by_system = dict(zip(outputs.systems, np.split(column, len(outputs.systems)), strict=True))
        result[label] = {"systems": _describe(by_system), "pairs": _pairs(by_system)}
    return {
        "name": outputs.name,
        "n": n,
        "metrics": result,
        "signatures": {label: str(score.signature) for label, score in scores.items()},
    }


def _describe(by_system: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    found = {}
    for system, column in by_system.items():
        values = column[~np.isnan(column)]
        low, high = mean_intervals({"mean": values})["mean"] if len(values) > 1 else (math.nan, math.nan)
        numbers = significant([values.mean(), values.std(), low, high])
        quantiles = significant(np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]))
        found[system] = {
            **dict(zip(("mean", "deviation", "low", "high"), numbers, strict=True)),
            "quantiles": quantiles,
            "n": len(values),
        }
    return found


def _pairs(by_system: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for first, second in itertools.combinations(by_system, 2):
        a, b = by_system[first], by_system[second]
        kept = ~np.isnan(a) & ~np.isnan(b)
        test = paired_test(a[kept], b[kept], resamples=2000) if kept.sum() > 1 else None
        found.append(
            {
                "first": first,
                "second": second,
                "difference": significant([test.difference])[0] if test else math.nan,
                "p": test.p_permutation if test else math.nan,
            }
        )
    corrected = holm([1.0 if math.isnan(pair["p"]) else pair["p"] for pair in found])
    return [{**pair, "p_holm": p} for pair, p in zip(found, corrected, strict=True)]


def benchmark_table(result: Mapping[str, Any]) -> Table:
    """In the shape of the thesis' Table 6.6: means, standard deviations in brackets, and each metric's order."""
    systems = list(next(iter(result["metrics"].values()))["systems"])
    rows = []
    for label, found in result["metrics"].items():
        by_system = found["systems"]
        best = max(systems, key=lambda system: by_system[system]["mean"])
        cells = [
            f"{mean(by_system[s]['mean'])} ({mean(by_system[s]['deviation'])})" + ("*" if s == best else "")
            for s in systems
        ]
        unsure = sum(pair["p_holm"] > 0.05 for pair in found["pairs"])
        rows.append([label, *cells, str(unsure)])
    note = (
        f"{result['n']} references; mean (standard deviation); * the best. The last column counts the pairs of systems "
        "that the metric does not tell apart (paired permutation test, Holm, 5%)."
    )
    return Table(f"{result['name']}: systems", ["metric", *systems, "pairs not told apart"], rows, note)


def pairs_table(result: Mapping[str, Any]) -> Table:
    """Every pair of systems under every metric."""
    rows = [
        [
            label,
            f"{pair['first']} - {pair['second']}",
            number(pair["difference"], 4, sign=True),
            p_value(pair["p_holm"]),
        ]
        for label, found in result["metrics"].items()
        for pair in found["pairs"]
    ]
    return Table(
        f"{result['name']}: pairs", ["metric", "pair", "difference", "p (Holm)"], rows, numbers_from=2
    )


def section(result: Mapping[str, Any], plots: bool) -> Section:
    """The part of a report about systems."""
    found = Section(f"Systems: {result['name']}", tables=[benchmark_table(result)])
    if plots:
        found.tables.append(pairs_table(result))
        groups = {
            label: {system: numbers["quantiles"] for system, numbers in one["systems"].items()}
            for label, one in result["metrics"].items()
        }
        shown = [label for label in ("rouge1", "bertscore", "mover-2", "sms contextual") if label in groups]
        shown = shown or list(groups)[:4]
        found.figures.append(
            (
                "Scores by system: median, quartiles, 5% and 95%",
                reports.boxes({label: groups[label] for label in shown}),
            )
        )
    return found
