"""One score out of one for each reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from summarily.metrics.base import weighted_mean
from summarily.metrics.options import one_of

RULES = ("max", "best", "mean")


def combined(
    rows: Sequence[Sequence[float]], rule: str, main: Callable[[Any], Any] = itemgetter(0)
) -> tuple[float, ...]:
    """The values of an example out of those for each of its references, a row each.

    Args:
        rule: "max" of each value, as bert_score has it; "best": the values of the reference whose `main` is highest,
            the first of equals; or the "mean" of each.

    Example:
        >>> combined([(0.4, 0.6), (0.5, 0.3)], "max")
        (0.5, 0.6)
        >>> combined([(0.4, 0.6), (0.5, 0.3)], "best")
        (0.5, 0.3)
    """
    one_of("multi_reference", rule, RULES)
    if rule == "best":
        return tuple(rows[best(rows, main)])
    take = max if rule == "max" else weighted_mean
    return tuple(take(column) for column in zip(*rows, strict=True))


def best(rows: Sequence[Any], main: Callable[[Any], Any] = itemgetter(0)) -> int:
    """The number of the row whose `main` is highest, the first of equals.

    Example:
        >>> best([(0.1,), (0.5,), (0.5,)])
        1
    """
    return max(range(len(rows)), key=lambda row: main(rows[row]))


def over_references(scores: Sequence[float], rule: str) -> float:
    """As `combined`, for one value.

    Example:
        >>> over_references([0.25, 0.75], "mean")
        0.5
    """
    return combined([(score,) for score in scores], rule)[0]
