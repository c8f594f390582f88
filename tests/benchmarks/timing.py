"""Timing two ways of doing the same thing side by side, in one process."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Ratio(NamedTuple):
    """Median CPU seconds of both, and how many times faster ours is."""

    ours_seconds: float
    theirs_seconds: float
    ratio: float


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int = 5) -> Ratio:
    """Run both in turn, after one unmeasured run of each, and compare the medians of their CPU time.

    They alternate so that a machine that slows down slows both. The garbage collector is off while the
    clock runs and empties between runs.

    Example:
        >>> ratio(lambda: sum(range(10)), lambda: sum(range(200_000))).ratio > 1
        True
    """
    mine, peers = in_turn([ours, theirs], repeats)
    return Ratio(mine, peers, peers / mine)


def in_turn(runs: Sequence[Callable[[], Any]], repeats: int = 5) -> list[float]:
    """The median CPU seconds of each, as in `ratio`.

    Example:
        >>> len(in_turn([lambda: 1, lambda: 2, lambda: 3]))
        3
    """
    for run in runs:
        run()
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, taken in zip(runs, seconds, strict=True):
            taken.append(_cpu_seconds(run))
    return [statistics.median(taken) for taken in seconds]


def _cpu_seconds(run: Callable[[], Any]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        run()
        return time.process_time() - start
    finally:
        gc.enable()
