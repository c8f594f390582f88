"""Our numbers in the shape of the thesis' tables, next to its own: `summarily meta thesis`.

The thesis (on long documents, 2020) ran large models on a GPU; ours are of the light preset. Its numbers are quoted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from summarily.metrics.meta_evaluation.agreement import analyse
from summarily.metrics.meta_evaluation.correlation import LEVELS, correlate
from summarily.metrics.meta_evaluation.corruption import summary_of
from summarily.metrics.meta_evaluation.paraphrase import analyse_pairs
from summarily.metrics.meta_evaluation.reports import Table, bracket, mean, number
from summarily.metrics.meta_evaluation.scores import Scored
from summarily.metrics.meta_evaluation.sweep import sweep_table

TABLE_6_1 = {
    "BERTScore roberta-large-mnli": (0.298, 0.337, 0.263),
    "BERTScore roberta-large": (0.285, 0.299, 0.254),
    "BERTScore bert-large-uncased": (0.227, 0.253, 0.198),
    "BERTScore roberta-base": (0.221, 0.243, 0.197),
    "BERTScore distilroberta-base": (0.174, 0.188, 0.154),
    "BARTScore bart-large-mnli": (0.308, 0.339, 0.273),
    "BARTScore bart-large": (0.183, 0.200, 0.162),
}
"""Spearman, Pearson, Kendall."""

TABLE_6_3 = {
    "bartscore": (0.308, 0.339, 0.273),
    "bertscore": (0.298, 0.337, 0.263),
    "bleurt": (0.246, 0.274, 0.216),
    "mover-2": (0.242, 0.282, 0.209),
    "mover-1": (0.236, 0.274, 0.203),
    "rouge1": (0.171, 0.216, 0.149),
    "rougeLsum": (0.162, 0.191, 0.145),
    "rouge2": (0.127, 0.133, 0.115),
}
"""By our names: the thesis' ROUGE-L is ROUGE-Lsum."""

TABLE_6_4 = {
    "bleurt": (0.492, 0.490, 0.416, 0.725, 0.617),
    "mover-2": (0.461, 0.455, 0.377, 0.690, 0.542),
    "mover-1": (0.460, 0.451, 0.375, 0.687, 0.532),
    "bertscore": (0.450, 0.450, 0.367, 0.688, 0.546),
    "bartscore": (0.448, 0.443, 0.366, 0.680, 0.525),
    "rougeLsum": (0.376, 0.365, 0.308, 0.651, 0.471),
    "rouge1": (0.370, 0.365, 0.303, 0.651, 0.459),
    "rouge2": (0.323, 0.270, 0.270, 0.630, 0.338),
}
"""Spearman, Pearson, Kendall, accuracy, F1."""

TABLE_6_5 = {
    "bartscore": (94.6, 98.0, 97.6),
    "bertscore": (92.9, 95.4, 97.8),
    "mover-1": (86.2, 84.7, 91.9),
    "mover-2": (83.2, 82.1, 87.7),
    "bleurt": (70.4, 82.2, 92.8),
    "rouge1": (78.2, 73.5, 0.0),
    "rouge2": (74.4, 65.7, 78.5),
    "rougeLsum": (77.0, 71.4, 53.8),
}
"""Dropping, mask-filling, permutation, on CNN/DailyMail."""

TABLE_6_6 = {
    "BART": (0.608, 0.318, 0.225, 0.286, -0.287, 0.442, 0.211, 0.410),
    "PEGASUS": (0.613, 0.310, 0.217, 0.282, -0.215, 0.433, 0.213, 0.403),
    "ProphetNet": (0.624, 0.320, 0.227, 0.289, -0.263, 0.442, 0.212, 0.411),
    "PGN": (0.554, 0.186, 0.117, 0.187, -0.340, 0.362, 0.156, 0.333),
}
COLUMNS_6_6 = ("bartscore", "bertscore", "mover-1", "mover-2", "bleurt", "rouge1", "rouge2", "rougeLsum")

TABLE_7_1 = {
    "bartscore": (82, 2.68),
    "bertscore": (47, 1.86),
    "bleurt": (122, 11.55),
    "mover-1": (201, 2.31),
    "mover-2": (220, 2.31),
    "rouge": (12, None),
}
"""Seconds per 1,000 summaries, gigabytes of GPU memory."""


def thesis_tables(results: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """The tables for which there are results, after an overview of every set of judgements."""
    tables = [overview(results["human"], level) for level in LEVELS] if results.get("human") else []
    for scored in results.get("sweep", {}).values():
        tables.append(table_6_1(scored))
    if "chaganty_dev" in results.get("human", {}):
        tables.append(table_6_3(results["human"]["chaganty_dev"]))
    for scored in results.get("paraphrase", {}).values():
        tables.append(table_6_4(scored))
    for result in results.get("corruption", {}).values():
        tables.append(table_6_5(result))
    for result in results.get("benchmark", {}).values():
        tables.append(table_6_6(result))
    for result in results.get("profile", {}).values():
        tables.append(table_7_1(result))
    return tables


def overview(human: Mapping[str, Scored], level: str) -> Table:
    """Spearman correlations of every metric with every question of every set, at one level."""
    asked = [(scored, question) for scored in human.values() for question in scored.human]
    labels = list(dict.fromkeys(label for scored in human.values() for label in scored.columns))
    rows = []
    for label in labels:
        cells = []
        for scored, question in asked:
            column = np.array(scored.columns.get(label, [np.nan] * len(scored)))
            kept = np.flatnonzero(~np.isnan(column))
            value = correlate(
                column[kept],
                np.array(scored.human[question])[kept],
                level,
                "spearman",
                [str(scored.inputs[row]) for row in kept],
                [str(scored.systems[row]) for row in kept],
            ).value
            cells.append(number(value))
        rows.append([label, *cells])
    header = ["metric", *(f"{scored.name} {question}" for scored, question in asked)]
    return Table(f"Spearman correlation with people, {level} level", header, rows)


def _quoted(values: Sequence[float | None] | None, count: int, digits: int = 3) -> list[str]:
    return [""] * count if values is None else [number(value, digits) for value in values]


def table_6_1(scored: Scored) -> Table:
    ours = sweep_table(scored)
    rows = [
        *ours.rows,
        *([f"thesis: {name}", number(a), "", number(b), number(c)] for name, (a, b, c) in TABLE_6_1.items()),
    ]
    return Table("Table 6.1: encoders and layers of BERTScore, by article", ours.header, rows, ours.note)


def table_6_3(scored: Scored) -> Table:
    study = analyse(scored, permutations=99)
    rows = sorted(study.rows, key=lambda row: -row.values["input"]["spearman"])
    cells = [
        [
            row.label,
            number(row.values["input"]["spearman"]),
            bracket(*row.bounds["input"][:2]),
            number(row.values["input"]["pearson"]),
            number(row.values["input"]["kendall"]),
            *_quoted(TABLE_6_3.get(row.label), 3),
        ]
        for row in rows
    ]
    header = ["metric", "rho", "95%", "r", "tau", "thesis rho", "r", "tau"]
    return Table("Table 6.3: correlation with people on CNN/DailyMail, by article", header, cells)


def table_6_4(scored: Scored) -> Table:
    rows = sorted(analyse_pairs(scored), key=lambda row: -row.correlations["spearman"])
    cells = [
        [
            row.label,
            *(number(row.correlations[name]) for name in ("spearman", "pearson", "kendall")),
            number(row.accuracy),
            number(row.f1),
            *_quoted(TABLE_6_4.get(row.label), 5),
        ]
        for row in rows
    ]
    header = ["metric", "rho", "r", "tau", "accuracy", "F1", "thesis rho", "r", "tau", "accuracy", "F1"]
    return Table("Table 6.4: Quora question pairs", header, cells)


def table_6_5(result: Mapping[str, Any]) -> Table:
    kinds = ("drop", "refill", "swap")
    rows = []
    for label, found in result["metrics"].items():
        summaries = [summary_of(found[kind]) for kind in kinds]
        rows.append(
            [
                label,
                *(f"{number(s['accuracy'], 1)} ({number(s['ties'], 1)})" for s in summaries),
                *_quoted(TABLE_6_5.get(label), 3, 1),
            ]
        )
    header = ["metric", "drop %", "refill %", "swap %", "thesis drop %", "mask-filling %", "permutation %"]
    return Table(
        "Table 6.5: clean summaries scored above damaged ones (in brackets: ties, which lose)", header, rows
    )


def table_6_6(result: Mapping[str, Any]) -> Table:
    columns = [name for name in COLUMNS_6_6 if name in result["metrics"]]
    columns += [name for name in result["metrics"] if name not in columns]
    rows = []
    for system in next(iter(result["metrics"].values()))["systems"]:
        cells = [result["metrics"][name]["systems"][system] for name in columns]
        rows.append([system, *(f"{mean(cell['mean'])} ({mean(cell['deviation'])})" for cell in cells)])
    for system, values in TABLE_6_6.items():
        known = dict(zip(COLUMNS_6_6, values, strict=True))
        rows.append(
            [
                f"thesis (CNN/DM): {system}",
                *(number(known.get(name)) if name in known else "" for name in columns),
            ]
        )
    return Table("Table 6.6: mean (standard deviation) by system", ["system", *columns], rows)


def table_7_1(result: Mapping[str, Any]) -> Table:
    rows = []
    for label, cost in result["metrics"].items():
        quoted = TABLE_7_1.get(label)
        rows.append(
            [
                label,
                number(cost["cpu_seconds_per_1000"], 1),
                number(cost["peak_memory"] / 2**30, 2),
                *(["", ""] if quoted is None else [str(quoted[0]), number(quoted[1], 2)]),
            ]
        )
    header = ["metric", "CPU seconds per 1,000", "memory (GB)", "thesis seconds", "thesis GPU memory (GB)"]
    return Table("Table 7.1: cost", header, rows)
