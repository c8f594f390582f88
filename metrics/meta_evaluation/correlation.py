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


def check_names(level: str, name: str) -> None:
    if level not in LEVELS:
        raise ValueError(f"there is no level {level!r}; expected one of {', '.join(LEVELS)}.")
    if name not in COEFFICIENTS:
        raise ValueError(f"there is no coefficient {name!r}; expected one of {', '.join(COEFFICIENTS)}.")


def coefficient(name: str, x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's r, Spearman's rho or Kendall's tau-b; NaN where one side is constant or there are under two.

    Example:
        >>> round(coefficient("spearman", [1, 2, 3], [1, 3, 2]), 6)
        0.5
    """
    from scipy import stats

    check_names("pooled", name)
    functions = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(functions[name](x, y).statistic)


def correlate(
    scores: ArrayLike,
    human: ArrayLike,
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
    check_names(level, name)
    x, y = np.asarray(scores, dtype=float), np.asarray(human, dtype=float)
    if len(x) != len(y):
        raise ValueError(f"there are {len(x)} scores but {len(y)} human judgements.")
    if level == "pooled":
        value = coefficient(name, x, y)
        return Correlation(value, len(x), int(np.isnan(value)))
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


def partial(xy: ArrayLike, xz: ArrayLike, yz: ArrayLike) -> np.ndarray:
    """The correlation of x and y with z held fixed, from the three correlations; of arrays, one by one.

    Mean correlations over articles are taken as they are: the mean of correlation matrices is one too. NaN where z
    decides x or y.

    Example:
        >>> round(float(partial(0.5, 0.6, 0.4)), 3), round(float(partial(0.24, 0.6, 0.4)), 3)
        (0.355, 0.0)
    """
    xy, xz, yz = (np.asarray(value, dtype=float) for value in (xy, xz, yz))
    left = (1 - xz**2) * (1 - yz**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(left > 1e-12, (xy - xz * yz) / np.sqrt(np.maximum(left, 0)), np.nan)


# --- many weightings of the same points at once -------------------------------------------------------------


def weighted_coefficients(name: str, x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of groups of points under many weightings; a weight of 2 counts a point twice.

    Resampling with replacement is a weighting by counts, so a bootstrap needs no sorting of its own: ranks and
    concordances of weighted points are products with matrices of comparisons that are made once.

    Args:
        x, y: `[groups, points]`.
        weights: `[groups, weightings, points]`, zero for a point that is absent.

    Returns:
        `[groups, weightings]`, NaN where undefined.

    Example:
        >>> points = np.array([[1.0, 2.0, 3.0]])
        >>> weighted_coefficients("kendall", points, points, np.ones((1, 1, 3)))
        array([[1.]])
    """
    if name == "kendall":
        return _weighted_kendall(x, y, weights)
    if name == "spearman":
        return _weighted_pearson(_weighted_ranks(x, weights), _weighted_ranks(y, weights), weights)
    return _weighted_pearson(x[:, None, :], y[:, None, :], weights)


def _weighted_ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Ranks (from zero, ties in the middle) among the weighted points: `[groups, weightings, points]`."""
    if values.shape[0] == 1:  # one large group: sorted once, ranks are sums of the weights before
        order = np.argsort(values[0], kind="stable")
        _, place, size = np.unique(values[0][order], return_inverse=True, return_counts=True)
        ends = np.cumsum(size)
        total = np.concatenate([np.zeros((weights.shape[1], 1)), np.cumsum(weights[0][:, order], axis=1)], 1)
        middle = (total[:, ends] + total[:, ends - size]) / 2
        ranks = np.empty_like(weights[0])
        ranks[:, order] = middle[:, place]
        return ranks[None]
    below = (values[:, :, None] < values[:, None, :]) + 0.5 * (values[:, :, None] == values[:, None, :])
    return weights @ below


def _weighted_pearson(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    total = weights.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        dx = x - ((weights * x).sum(-1) / total)[..., None]
        dy = y - ((weights * y).sum(-1) / total)[..., None]
        xx, yy = (weights * dx * dx).sum(-1), (weights * dy * dy).sum(-1)
        # What a constant leaves behind is rounding, relative to the values themselves.
        floor_x = 1e-24 * (weights * x * x).sum(-1)
        floor_y = 1e-24 * (weights * y * y).sum(-1)
        value = (weights * dx * dy).sum(-1) / np.sqrt(xx * yy)
    return np.where((xx > floor_x) & (yy > floor_y), value, np.nan)


def _weighted_kendall(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    sign_x = np.sign(x[:, :, None] - x[:, None, :])
    sign_y = np.sign(y[:, :, None] - y[:, None, :])

    def over_pairs(matrix: np.ndarray) -> np.ndarray:
        return ((weights @ matrix) * weights).sum(-1)

    with np.errstate(invalid="ignore", divide="ignore"):
        untied = np.sqrt(over_pairs(np.abs(sign_x)) * over_pairs(np.abs(sign_y)))
        return np.where(untied > 0, over_pairs(sign_x * sign_y) / untied, np.nan)


class Layout:
    """Which rows are of one input and which of one system, as arrays."""

    def __init__(self, inputs: Sequence[str], systems: Sequence[str]):
        self.n_inputs, self.inputs = _numbered(inputs)
        self.n_systems, self.systems = _numbered(systems)
        rows: list[list[int]] = [[] for _ in range(self.n_inputs)]
        for row, number in enumerate(self.inputs):
            rows[number].append(row)
        widest = max(map(len, rows))
        self.grid = np.array([own + [0] * (widest - len(own)) for own in rows])
        """`[inputs, widest]`: the rows of each input; where `present` is zero, there is none."""
        self.present = np.array([[1.0] * len(own) + [0.0] * (widest - len(own)) for own in rows])

    def of_system(self) -> np.ndarray:
        """`[rows, systems]`: one where the row is of the system."""
        return np.eye(self.n_systems)[self.systems]


def _numbered(keys: Sequence[str]) -> tuple[int, np.ndarray]:
    """Keys as numbers in the order they first appear."""
    numbers: dict[str, int] = {}
    found = np.array([numbers.setdefault(key, len(numbers)) for key in keys])
    return len(numbers), found
