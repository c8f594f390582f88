"""Correlation of a metric with human judgements, at three levels.

`pooled` takes every summary with its own score; `system` averages each system first; `input` correlates over
the systems of one article and averages over articles. The level changes the number a lot: name it always.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

LEVELS = ("pooled", "input", "system")
COEFFICIENTS = ("pearson", "spearman", "kendall")


class Correlation(NamedTuple):
    """A coefficient, the number of points (of articles, at input level) it rests on, and how many rows
    were left out because a constant made them undefined."""

    value: float
    n: int
    undefined: int


def coefficient(name: str, x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's r, Spearman's rho or Kendall's tau-b; NaN where one side is constant or there are under two.

    Example:
        >>> round(coefficient("spearman", [1, 2, 3], [1, 3, 2]), 6)
        0.5
    """
    from scipy import stats

    functions = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
    if name not in functions:
        raise ValueError(f"there is no coefficient {name!r}; expected one of {', '.join(COEFFICIENTS)}.")
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(functions[name](x, y).statistic)


def correlate(
    scores: Sequence[float],
    human: Sequence[float],
    level: str = "pooled",
    name: str = "spearman",
    inputs: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
) -> Correlation:
    """Correlate a metric's scores with people's, one row per summary.

    Args:
        scores: the metric, one value per summary.
        human: people's judgement of the same summary.
        level: "pooled", "input" (needs `inputs`) or "system" (needs `systems`).
        name: "pearson", "spearman" or "kendall".
        inputs: which article each summary is of.
        systems: which system wrote it.

    Example:
        >>> correlate([0.1, 0.4, 0.3], [1, 3, 2]).value
        1.0
    """
    x, y = np.asarray(scores, dtype=float), np.asarray(human, dtype=float)
    if len(x) != len(y):
        raise ValueError(f"there are {len(x)} scores but {len(y)} human judgements.")
    if level == "pooled":
        value = coefficient(name, x, y)
        return Correlation(value, len(x), int(np.isnan(value)))
    if level not in LEVELS:
        raise ValueError(f"there is no level {level!r}; expected one of {', '.join(LEVELS)}.")
    keys = inputs if level == "input" else systems
    if keys is None:
        raise ValueError(f"level {level!r} needs to know the {level} of each summary; pass {level}s=.")
    groups: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    if level == "system":
        means = [(x[rows].mean(), y[rows].mean()) for rows in groups.values()]
        value = coefficient(name, [m[0] for m in means], [m[1] for m in means])
        return Correlation(value, len(means), int(np.isnan(value)))
    values = [coefficient(name, x[rows], y[rows]) for rows in groups.values()]
    defined = [value for value in values if not np.isnan(value)]
    return Correlation(
        float(np.mean(defined)) if defined else float("nan"), len(defined), len(values) - len(defined)
    )
