"""Timing two ways of doing the same thing side by side, in one process."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
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
    seconds: tuple[list[float], list[float]] = ([], [])
    for run in (ours, theirs):
        run()
    for _ in range(repeats):
        for run, taken in zip((ours, theirs), seconds, strict=True):
            taken.append(_cpu_seconds(run))
    mine, peers = map(statistics.median, seconds)
    return Ratio(mine, peers, peers / mine)


def _cpu_seconds(run: Callable[[], Any]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        run()
        return time.process_time() - start
    finally:
        gc.enable()
