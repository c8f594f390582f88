"""The transport step, distances given, against pyemd, which movers call with padded (L + L) squares.

pyemd's own solver is its C++ one (`backend="cpp"`), the only one before version 1.1; since then its default is
POT, whose solver is ours too.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from pyemd import emd as pyemd

from summarily.metrics.transport import emd, euclidean
from summarily.support import vectors
from tests.benchmarks.timing import Ratio, ratio

Problem = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def problems(shortest: int, longest: int, count: int) -> list[tuple[Problem, Problem]]:
    """Pairs of a batch, with idf-like masses: as they are, and padded to the longest on each side."""
    random = np.random.default_rng(longest)
    table = vectors.load()
    made = []
    for _ in range(count):
        points = table.take(random.choice(20_000, 2 * longest, replace=False))
        masses = random.uniform(1, 8, 2 * longest)
        sizes = random.integers(shortest, longest + 1, 2)
        masses[sizes[0] : longest] = masses[longest + sizes[1] :] = 0
        first, second = (side / side.sum() for side in (masses[:longest], masses[longest:]))
        nothing = np.zeros(longest)
        square = euclidean(points, points)
        between = square[: sizes[0], longest : longest + sizes[1]]
        plain = first[: sizes[0]], second[: sizes[1]], np.ascontiguousarray(between)
        made.append((plain, (np.append(first, nothing), np.append(nothing, second), square)))
    return made


def measure(shortest: int, longest: int, count: int, backend: str) -> Ratio:
    pairs = problems(shortest, longest, count)
    for plain, square in pairs[:3]:
        # pyemd's C++ solver rounds masses and distances to whole numbers.
        assert abs(emd(*plain) - pyemd(*square, backend=backend)) < 1e-4
    return ratio(
        lambda: [emd(*plain) for plain, _ in pairs],
        lambda: [pyemd(*square, backend=backend) for _, square in pairs],
    )


def main() -> None:
    for backend in ("cpp", "pot"):
        for shortest, longest, count in ((5, 25, 32), (10, 60, 16), (20, 100, 8), (100, 100, 3)):
            result = measure(shortest, longest, count, backend)
            print(
                f"transport, texts of {shortest} to {longest} tokens padded to {longest}, times faster than pyemd "
                f"({backend}): {result.ratio:.1f}"
            )


if __name__ == "__main__":
    main()
