"""Is one metric's correlation with people higher than another's?"""

from __future__ import annotations

import math


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
    worse, not better.

    Example:
        >>> round(williams(0.5, 0.3, 0.6, 100), 3)
        0.007
    """
    from scipy.stats import t as student

    if alternative not in ("greater", "two-sided"):
        raise ValueError(f"alternative is {alternative!r}; expected 'greater' or 'two-sided'.")
    if n < 4:
        raise ValueError(f"Williams' test needs at least 4 summaries, got {n}.")
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
