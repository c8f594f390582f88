"""Resampling over examples: confidence intervals of means, and tests of the difference of two systems.

All functions are deterministic (a private generator with a fixed seed) and take optional weights, so that
pooled scores such as APES, a ratio of sums, are handled like means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from summarily.support.errors import InputError

RESAMPLES = 2000
# Fewer examples than this say too little about their own distribution: Student's t is used instead.
FEWEST_FOR_BOOTSTRAP = 10
_CELLS_AT_ONCE = 4_000_000


def _counts(n: int, resamples: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Blocks of rows; a row says how often each of n examples is drawn in one resample."""
    rows = max(1, min(resamples, _CELLS_AT_ONCE // n))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        draws = generator.integers(0, n, size=(size, n))
        draws += np.arange(size)[:, None] * n
        yield np.bincount(draws.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)


def _check(confidence: float, n: int) -> None:
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}; expected a number between 0 and 1, such as 0.95.")
    if n < 2:
        raise InputError(f"a confidence interval needs at least 2 examples, got {n}.")


def mean_intervals(
    columns: Mapping[str, Sequence[float] | np.ndarray],
    confidence: float = 0.95,
    weights: Sequence[float] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Studentised (bootstrap-t) intervals of the mean of each column, or of its weighted mean.

    The percentile bootstrap is too narrow for skewed scores; dividing each resampled deviation by its own
    standard error corrects the skew (Efron and Tibshirani 1993, chapter 12). All columns share their resamples.

    Example:
        >>> low, high = mean_intervals({"rouge1": [0.1, 0.2, 0.3, 0.4] * 5})["rouge1"]
        >>> bool(low < 0.25 < high)
        True
    """
    values = np.array(list(columns.values()), dtype=np.float64).T  # [examples, columns]
    n = len(values)
    _check(confidence, n)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if not w.any():
        return dict.fromkeys(columns, (0.0, 0.0))
    mean = w @ values / w.sum()
    # Standard error of a ratio of sums, linearised; for equal weights it is the usual one.
    error = np.sqrt((w**2) @ (values - mean) ** 2) / w.sum()
    low, high = studentised_bounds(
        mean, error, n, confidence, lambda: _studentised_deviations(values - mean, w, resamples, seed, error)
    )
    return {key: (float(low[i]), float(high[i])) for i, key in enumerate(columns)}


def studentised_bounds(
    mean: np.ndarray, error: np.ndarray, n: int, confidence: float, deviations: Callable[[], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the intervals of several means with their standard errors, from resampled deviations divided by
    their own errors, `[resamples, means]`; by Student's t where the examples are too few to resample."""
    if n < FEWEST_FOR_BOOTSTRAP:
        from scipy.stats import t as student

        half = student.ppf(0.5 + confidence / 2, n - 1) * error * np.sqrt(n / (n - 1))
        low, high = mean - half, mean + half
    else:
        tails = np.quantile(deviations(), [0.5 + confidence / 2, 0.5 - confidence / 2], axis=0)
        low, high = mean - tails[0] * error, mean - tails[1] * error
    # A column that does not vary has no uncertainty to show.
    constant = error <= 1e-12 * np.maximum(1.0, np.abs(mean))
    return np.where(constant, mean, low), np.where(constant, mean, high)


def _studentised_deviations(
    centred: np.ndarray, w: np.ndarray, resamples: int, seed: int, error: np.ndarray
) -> np.ndarray:
    blocks = []
    stacked = moments(centred, w)
    for counts in _counts(len(w), resamples, np.random.default_rng(seed)):
        blocks.append(deviations_of(counts @ stacked, error))
    return np.vstack(blocks)


def moments(values: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What has to be added up over examples, `[examples, 3 columns + 2]`, for a weighted mean and its error."""
    w2 = (w**2)[:, None]
    return np.hstack([w[:, None] * values, w2 * values, w2 * values**2, w[:, None], w2])


def mean_and_error(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted means of each row of sums of `moments`, and the linearised standard error of each."""
    k = (sums.shape[1] - 2) // 3
    total = np.where(sums[:, -2:-1] > 0, sums[:, -2:-1], np.nan)
    mean = sums[:, :k] / total
    variance = sums[:, 2 * k : 3 * k] - 2 * mean * sums[:, k : 2 * k] + mean**2 * sums[:, -1:]
    return mean, np.sqrt(np.maximum(variance, 0)) / total


def deviations_of(sums: np.ndarray, error: np.ndarray, centre: np.ndarray | float = 0.0) -> np.ndarray:
    """How far the mean of each resample is from the centre, in its own errors."""
    # Resamples that miss every unusual example have almost no error of their own; a floor keeps them finite.
    floor = 0.05 * error
    mean, own = mean_and_error(sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num((mean - centre) / np.maximum(own, floor), nan=0.0)


class PairedTest(NamedTuple):
    """Two systems on the same examples: the difference of their means and how sure it is."""

    difference: float
    low: float
    high: float
    p_bootstrap: float | None
    """None with fewer than ten examples, which cannot stand in for the texts that were not seen."""
    p_permutation: float


def paired_test(
    a: Sequence[float],
    b: Sequence[float],
    confidence: float = 0.95,
    weights: Sequence[float] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> PairedTest:
    """Mean of `a` minus mean of `b`, its interval, and two-sided paired bootstrap and permutation p-values.

    The bootstrap centres the resampled differences at zero and counts those at least as far out as the
    observed one; the permutation test swaps the two systems' scores example by example. Both count the
    observed arrangement itself, so no p-value is zero.

    Example:
        >>> paired_test([0.5, 0.6, 0.7, 0.8] * 5, [0.1, 0.2, 0.3, 0.4] * 5).p_permutation < 0.001
        True
    """
    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    n = len(difference)
    _check(confidence, n)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if not w.any():
        return PairedTest(0.0, 0.0, 0.0, 1.0, 1.0)
    share = w / w.sum()
    observed = float(share @ difference)
    generator = np.random.default_rng(seed)
    # Ties in exact arithmetic must count as ties in floating point too.
    reach = abs(observed) - 1e-12
    as_far_bootstrap = as_far_permutation = 0
    for counts in _counts(n, resamples, generator):
        drawn = counts @ w
        resampled = np.divide(
            counts @ (w * difference), drawn, out=np.full(len(drawn), observed), where=drawn > 0
        )
        as_far_bootstrap += int((np.abs(resampled - observed) >= reach).sum())
        signs = generator.integers(0, 2, size=counts.shape) * 2.0 - 1.0
        as_far_permutation += int((np.abs(signs @ (share * difference)) >= reach).sum())
    low, high = mean_intervals({"difference": difference}, confidence, weights, seed=seed)["difference"]
    return PairedTest(
        observed,
        low,
        high,
        (as_far_bootstrap + 1) / (resamples + 1) if n >= FEWEST_FOR_BOOTSTRAP else None,
        (as_far_permutation + 1) / (resamples + 1),
    )


def too_few(n: int, paired: bool = False) -> str | None:
    """What to say about a result of n examples if they are too few to lean on.

    Example:
        >>> too_few(2)
        'Only 2 examples: too few to know how much texts differ, so the intervals are wide and may leave the range of the score. Score at least 10.'
        >>> too_few(10) is None
        True
    """
    if n >= FEWEST_FOR_BOOTSTRAP:
        return None
    begin = f"Only {n} examples: too few to know how much texts differ, so the intervals are wide and may leave the range of the score"
    if not paired:
        return f"{begin}. Score at least {FEWEST_FOR_BOOTSTRAP}."
    return (
        f"{begin}, there is no bootstrap p-value, and the permutation test cannot go below p = {2 / 2**n:.3g}: the signs "
        f"of {n} differences have only {2**n} arrangements. Compare at least {FEWEST_FOR_BOOTSTRAP}."
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: p-values adjusted for how many comparisons were made.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted
