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

from summarily.metrics import vectors
from summarily.metrics.transport import emd, euclidean
from tests.benchmarks.timing import Ratio, ratio

Problem = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def problems(size: int, count: int) -> list[tuple[Problem, Problem]]:
    """Transport between `size` words each, with idf-like masses: as it is, and padded to one square."""
    random = np.random.default_rng(size)
    table = vectors.load()
    made = []
    for _ in range(count):
        points = table.take(random.choice(20_000, 2 * size, replace=False))
        masses = random.uniform(1, 8, 2 * size)
        first, second = masses[:size] / masses[:size].sum(), masses[size:] / masses[size:].sum()
        nothing = np.zeros(size)
        square = euclidean(points, points)
        plain = first, second, np.ascontiguousarray(square[:size, size:])
        made.append((plain, (np.append(first, nothing), np.append(nothing, second), square)))
    return made


def measure(size: int, count: int, backend: str) -> Ratio:
    pairs = problems(size, count)
    for plain, square in pairs[:3]:
        # pyemd's C++ solver rounds masses and distances to whole numbers.
        assert abs(emd(*plain) - pyemd(*square, backend=backend)) < 1e-4
    return ratio(
        lambda: [emd(*plain) for plain, _ in pairs],
        lambda: [pyemd(*square, backend=backend) for _, square in pairs],
    )


def main() -> None:
    for backend in ("cpp", "pot"):
        for size, count in ((20, 40), (50, 10), (100, 3)):
            result = measure(size, count, backend)
            print(f"transport, {size} points a side, times faster than pyemd ({backend}): {result.ratio:.1f}")


if __name__ == "__main__":
    main()
