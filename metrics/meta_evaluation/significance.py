"""Is one metric's correlation with people higher than another's, and how sure is either?

Williams' test for pooled correlations, permutation tests at every level, and bootstrap intervals over inputs,
systems or both (Deutsch, Dror and Roth 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from summarily.metrics.meta_evaluation.correlation import (
    Layout,
    check_names,
    coefficient,
    weighted_coefficients,
)
from summarily.support.errors import InputError

RESAMPLINGS = ("inputs", "systems", "both")
FEWEST_SYSTEMS = 8
"""With fewer systems than this, resampling them says more about the draw than about the systems."""
_CELLS_AT_ONCE = 2_000_000


def williams(
    r_first: float, r_second: float, r_between: float, n: int, alternative: str = "greater"
) -> float:
    """The p-value of Williams' test for two correlations that share the human score.

    Args:
        r_first: correlation of the first metric with people.
        r_second: correlation of the second metric with people.
        r_between: correlation of the two metrics with each other.
        n: number of summaries.
        alternative: "greater" (the first correlates higher) or "two-sided".

    The formula is that of Graham and Baldwin (2014). Signs are kept: a metric that correlates negatively is
    worse, not better. Undefined where a correlation is.

    Example:
        >>> round(williams(0.5, 0.3, 0.6, 100), 3)
        0.007
    """
    from scipy.stats import t as student

    if alternative not in ("greater", "two-sided"):
        raise ValueError(f"alternative is {alternative!r}; expected 'greater' or 'two-sided'.")
    if n < 4:
        raise ValueError(f"Williams' test needs at least 4 summaries, got {n}.")
    if math.isnan(r_first + r_second + r_between):
        return float("nan")
    if r_first == r_second:
        return 0.5 if alternative == "greater" else 1.0
    determinant = 1 - r_first**2 - r_second**2 - r_between**2 + 2 * r_first * r_second * r_between
    average = (r_first + r_second) / 2
    denominator = 2 * max(determinant, 0.0) * (n - 1) / (n - 3) + average**2 * (1 - r_between) ** 3
    if denominator <= 0:
        raise ValueError(f"the correlations {r_first}, {r_second}, {r_between} cannot occur together.")
    statistic = (r_first - r_second) * math.sqrt((n - 1) * (1 + r_between) / denominator)
    upper = float(student.sf(statistic, n - 3))
    return upper if alternative == "greater" else 2 * min(upper, 1 - upper)


# --- permutation tests --------------------------------------------------------------------------------------


class PermutationTest(NamedTuple):
    """The observed difference of two correlations, the p-value, and what it was counted from."""

    difference: float
    p: float
    as_extreme: int
    resamples: int
    samples: np.ndarray


def permutation_test(
    first: ArrayLike,
    second: ArrayLike,
    human: ArrayLike,
    inputs: Sequence[Any],
    systems: Sequence[Any],
    level: str = "input",
    name: str = "kendall",
    swap: str = "both",
    alternative: str = "two-sided",
    resamples: int = 9999,
    generator: Any = 0,
) -> PermutationTest:
    """Does the first metric correlate higher with people than the second?

    Both are standardised, then their scores are swapped for randomly chosen inputs, systems, or both at once
    (Deutsch et al. 2021). The observed arrangement counts, so that no p-value is zero and the test is exact.

    Args:
        swap: "inputs", "systems" or "both".
        alternative: "two-sided", or "greater" for the first correlating higher.
        generator: a seed, a `numpy.random.Generator`, or a `RandomState`.

    Example:
        >>> people = [1, 2, 3, 4, 5, 6, 7, 8]
        >>> noise = [3, 1, 2, 2, 1, 3, 1, 2]
        >>> test = permutation_test(people, noise, people, list("aabbccdd"), list("xyxyxyxy"), "pooled")
        >>> test.p < 0.1, test.difference > 0
        (True, True)
    """
    check_names(level, name)
    if swap not in RESAMPLINGS:
        raise ValueError(f"swap is {swap!r}; expected one of {', '.join(RESAMPLINGS)}.")
    if alternative not in ("two-sided", "greater"):
        raise ValueError(f"alternative is {alternative!r}; expected 'greater' or 'two-sided'.")
    x, y, z = (_standardised(values) for values in (first, second, human))
    layout = Layout(inputs, systems)
    if isinstance(generator, int):
        generator = np.random.default_rng(generator)
    mine, others = _of_stack(np.stack([x, y]), z, layout, level, name)
    observed = mine - others
    rows = max(1, _CELLS_AT_ONCE // (len(x) * (1 if level != "input" else layout.grid.shape[1])))
    samples = np.concatenate(
        [
            _swapped_differences(x, y, z, layout, level, name, signs)
            for signs in _swaps(layout, swap, resamples, rows, generator)
        ]
    )
    # Ties in exact arithmetic must count as ties in floating point too.
    reach = (abs(observed) if alternative == "two-sided" else observed) - 1e-12
    far = np.abs(samples) if alternative == "two-sided" else samples
    as_extreme = int((far >= reach).sum())
    p = (as_extreme + 1) / (resamples + 1) if not math.isnan(observed) else float("nan")
    return PermutationTest(float(observed), p, as_extreme, resamples, samples)


def _standardised(values: ArrayLike) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    spread = array.std()
    return (array - array.mean()) / spread if spread > 0 else array - array.mean()


def _swaps(
    layout: Layout, swap: str, resamples: int, at_once: int, generator: Any
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of signs: -1 where a system (`[resamples, systems]`) or an input is swapped."""
    m = layout.n_systems if swap != "inputs" else 0
    n = layout.n_inputs if swap != "systems" else 0
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        signs = np.where(generator.random((size, m + n)) > 0.5, -1.0, 1.0)
        yield (
            signs[:, :m] if m else np.ones((size, layout.n_systems)),
            signs[:, m:] if n else np.ones((size, layout.n_inputs)),
        )


def _swapped_differences(
    x: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    layout: Layout,
    level: str,
    name: str,
    signs: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    of_systems, of_inputs = signs
    if level == "input" and name == "kendall":
        return _swapped_kendall(x, y, z, layout, of_systems, of_inputs)
    keep = of_systems[:, layout.systems] * of_inputs[:, layout.inputs] > 0
    return _of_stack(np.where(keep, x, y), z, layout, level, name) - _of_stack(
        np.where(keep, y, x), z, layout, level, name
    )


def _of_stack(stack: np.ndarray, z: np.ndarray, layout: Layout, level: str, name: str) -> np.ndarray:
    """The correlation of each of many score columns `[resamples, rows]` with people's."""
    n = len(stack)
    if level == "pooled":
        if name == "kendall":
            return np.array([coefficient(name, row, z) for row in stack])
        ones = np.ones((n, 1, stack.shape[1]))
        if name == "spearman":
            from scipy.stats import rankdata

            stack, z = rankdata(stack, axis=1), rankdata(z)
        return weighted_coefficients("pearson", stack, np.broadcast_to(z, stack.shape), ones)[:, 0]
    if level == "system":
        share = layout.of_system() / layout.of_system().sum(0)
        means, z_means = stack @ share, np.broadcast_to(z @ share, (n, share.shape[1]))
        return weighted_coefficients(name, means, z_means, np.ones((n, 1, share.shape[1])))[:, 0]
    width = layout.grid.shape[1]
    each = weighted_coefficients(
        name,
        stack[:, layout.grid].reshape(-1, width),
        np.tile(z[layout.grid], (n, 1)),
        np.tile(layout.present[:, None, :], (n, 1, 1)),
    )
    return _mean_of_defined(each.reshape(n, -1), np.ones((n, layout.n_inputs)))


def _mean_of_defined(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mean of each row, `[rows, inputs]`, over the inputs where the correlation is defined."""
    defined = ~np.isnan(values)
    total = (weights * defined).sum(1)
    with np.errstate(invalid="ignore"):
        return np.where(total > 0, (np.where(defined, values, 0) * weights).sum(1) / total, np.nan)


def _swapped_kendall(
    x: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    layout: Layout,
    of_systems: np.ndarray,
    of_inputs: np.ndarray,
) -> np.ndarray:
    """Input-level tau-b of the swapped first metric minus that of the swapped second, per resample.

    With s = +1 where a summary keeps its scores and -1 where they are swapped, the sign of a pair (i, k) is
    a + b s_i + c s_k + d s_i s_k, and the other metric has -s in its place: the constant and the quadratic part
    cancel in the difference of the concordances, which is linear in s. Only ties need the quadratic form.
    """
    grid, present = layout.grid, layout.present
    both = present[:, :, None] * present[:, None, :]
    sign_z = np.sign(z[grid][:, :, None] - z[grid][:, None, :]) * both
    first, second = x[grid], y[grid]
    # signs[a][b] compares column a of summary i with column b of summary k.
    signs = [
        [np.sign(a[:, :, None] - b[:, None, :]) * both for b in (first, second)] for a in (first, second)
    ]
    swapped = of_systems[:, layout.systems[grid]] * of_inputs[:, :, None]  # [resamples, inputs, widest]
    untied_z = np.abs(sign_z).sum((1, 2))
    distinct = both * (1 - np.eye(grid.shape[1]))
    if all((np.abs(cell) * distinct == distinct).all() for line in signs for cell in line):
        pairs = distinct.sum((1, 2))
        usable = untied_z > 0
        if not usable.any():
            return np.full(len(swapped), np.nan)
        scale = np.where(usable, 1 / np.sqrt(np.maximum(untied_z * pairs, 1)), 0) / usable.sum()
        linear = 2 * _linear(signs, sign_z * distinct) * scale[:, None]
        return np.einsum("rnk,nk->r", swapped, linear)
    s = np.ascontiguousarray(swapped.transpose(1, 0, 2))  # [inputs, resamples, widest]
    means = []
    for sign in (1.0, -1.0):
        concordance = _quadratic(signs, sign_z * distinct, sign * s)
        untied = _quadratic([[np.abs(cell) for cell in line] for line in signs], distinct, sign * s)
        with np.errstate(invalid="ignore", divide="ignore"):
            tau = np.where(
                untied * untied_z[:, None] > 0.5, concordance / np.sqrt(untied * untied_z[:, None]), np.nan
            )
        means.append(_mean_of_defined(tau.T, np.ones(tau.T.shape)))
    return means[0] - means[1]


def _parts(signs: list[list[np.ndarray]], weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """The coefficients a, b, c, d of 1, s_i, s_k and s_i s_k, each times `weight`."""
    (xx, xy), (yx, yy) = signs
    return (
        (xx + xy + yx + yy) / 4 * weight,
        (xx + xy - yx - yy) / 4 * weight,
        (xx - xy + yx - yy) / 4 * weight,
        (xx - xy - yx + yy) / 4 * weight,
    )


def _linear(signs: list[list[np.ndarray]], weight: np.ndarray) -> np.ndarray:
    _, b, c, _ = _parts(signs, weight)
    return b.sum(2) + c.sum(1)


def _quadratic(signs: list[list[np.ndarray]], weight: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Sums over the pairs of each input, for every resample: `[inputs, resamples]`."""
    a, _, _, d = _parts(signs, weight)
    return a.sum((1, 2))[:, None] + (s @ _linear(signs, weight)[:, :, None])[:, :, 0] + ((s @ d) * s).sum(-1)


# --- bootstrap intervals ------------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """A percentile interval of a correlation, and how many resamples were defined."""

    low: float
    high: float
    defined: int


def resampling_for(n_systems: int) -> str:
    """ "both" where there are enough systems to resample, else "inputs".

    Example:
        >>> resampling_for(16), resampling_for(4)
        ('both', 'inputs')
    """
    return "both" if n_systems >= FEWEST_SYSTEMS else "inputs"


def bootstrap(
    columns: Sequence[ArrayLike],
    human: ArrayLike,
    inputs: Sequence[str],
    systems: Sequence[str],
    level: str = "input",
    name: str = "spearman",
    resample: str = "inputs",
    resamples: int = 1000,
    seed: int = 0,
) -> np.ndarray:
    """Resampled correlations of several metrics, `[metrics, resamples]`, all with the same draws.

    Draws are of inputs, systems or both with replacement. As the metrics share them, a difference of two rows is
    the resampled difference of two metrics. Where a metric has no score (NaN) the summary is absent for it alone.

    Example:
        >>> people = [1, 2, 3, 4, 5, 6]
        >>> draws = bootstrap([[1, 2, 3, 4, 6, 5]], people, list("abcdef"), list("xxxxxx"), "pooled")
        >>> bool(interval(draws[0]).low > 0)
        True
    """
    check_names(level, name)
    if resample not in RESAMPLINGS:
        raise InputError(f"resample is {resample!r}; expected one of {', '.join(RESAMPLINGS)}.")
    layout, z = Layout(inputs, systems), np.asarray(human, dtype=float)
    generator = np.random.default_rng(seed)
    of_inputs = _draws(layout.n_inputs, resamples, generator, resample != "systems")
    of_systems = _draws(layout.n_systems, resamples, generator, resample != "inputs")
    at_once = max(1, _CELLS_AT_ONCE // len(z))
    found = np.empty((len(columns), resamples))
    for number, column in enumerate(columns):
        x = np.asarray(column, dtype=float)
        for start in range(0, resamples, at_once):
            block = slice(start, start + at_once)
            found[number, block] = _weighted(x, z, layout, level, name, of_inputs[block], of_systems[block])
    return found


def _draws(n: int, resamples: int, generator: np.random.Generator, wanted: bool) -> np.ndarray:
    """How often each of n is drawn, `[resamples, n]`; once each if they are not resampled."""
    if not wanted:
        return np.ones((resamples, n))
    return generator.multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)


def _weighted(
    x: np.ndarray,
    z: np.ndarray,
    layout: Layout,
    level: str,
    name: str,
    of_inputs: np.ndarray,
    of_systems: np.ndarray,
) -> np.ndarray:
    scored = ~np.isnan(x)
    x = np.where(scored, x, 0.0)
    if level == "pooled":
        weights = of_inputs[:, layout.inputs] * of_systems[:, layout.systems] * scored
        return weighted_coefficients(name, x[None], z[None], weights[None])[0]
    if level == "system":
        weights = of_inputs[:, layout.inputs] * scored
        member = layout.of_system()
        total = weights @ member
        seen = np.maximum(total, 1e-300)
        x_means, z_means = (weights * x) @ member / seen, (weights * z) @ member / seen
        drawn = of_systems * (total > 0)
        return weighted_coefficients(name, x_means, z_means, drawn[:, None, :])[:, 0]
    present = layout.present * scored[layout.grid]
    weights = of_systems[:, layout.systems[layout.grid]].transpose(1, 0, 2) * present[:, None, :]
    each = weighted_coefficients(name, x[layout.grid], z[layout.grid], weights)
    return _mean_of_defined(each.T, of_inputs)


def interval(resampled: np.ndarray, confidence: float = 0.95) -> Bounds:
    """The percentile interval of resampled values; NaN if fewer than half of them are defined.

    Example:
        >>> interval(np.arange(101.0), 0.5)
        Bounds(low=25.0, high=75.0, defined=101)
    """
    defined = resampled[~np.isnan(resampled)]
    if len(defined) < len(resampled) / 2:
        return Bounds(float("nan"), float("nan"), len(defined))
    low, high = np.quantile(defined, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return Bounds(float(low), float(high), len(defined))
