"""Which texts go through a model together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
_PASS = 1 / 64
"""What a pass costs beside its tokens, as a part of a full one: 32 tokens of MiniLM on a CPU."""


def batches(items: Iterable[Item], length: Callable[[Item], int], token_budget: int) -> Iterator[list[Item]]:
    """Items in batches of no more than `token_budget` padded tokens, longest first, cut where it costs least.

    Every item of a batch is padded to the first. Few large batches are padded a lot and many small ones are many
    passes: of all ways to cut the sorted items the one with the fewest padded tokens and passes is taken.

    Example:
        >>> list(batches([9, 50, 10, 48, 10], int, 2048))
        [[50, 48], [10, 10, 9]]
    """
    order = sorted(items, key=length, reverse=True)
    lengths = [max(1, length(item)) for item in order]
    costs, starts = [0.0], [0]  # of the first n items: the least cost, and where the last batch of it begins
    for end in range(1, len(order) + 1):
        best, begin = math.inf, end - 1
        for start in range(end - 1, -1, -1):
            tokens = (end - start) * lengths[start]
            if tokens > token_budget and start < end - 1:  # a text that is longer than all goes alone
                break
            if (cost := costs[start] + tokens) < best:
                best, begin = cost, start
        costs.append(best + _PASS * token_budget)
        starts.append(begin)
    cuts = [len(order)]
    while cuts[-1]:
        cuts.append(starts[cuts[-1]])
    cuts.reverse()
    for start, end in itertools.pairwise(cuts):
        yield order[start:end]
