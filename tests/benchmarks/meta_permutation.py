"""Input-level Kendall permutation test against the `nlpstats` package, with the same swaps.

nlpstats draws from numpy's global generator and counts without the observed arrangement; given the same stream,
the resampled differences agree to rounding and so do the counts. Two metrics: one without ties, one with.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np

from summarily.metrics.meta_evaluation.significance import permutation_test

SYSTEMS, INPUTS = 16, 100  # the shape of SummEval


def simulated(ties: bool, systems: int = SYSTEMS, inputs: int = INPUTS) -> tuple[np.ndarray, ...]:
    """Two metrics and people's scores, rows are systems; people's scores have ties, as real ones do."""
    generator = np.random.default_rng(3)
    human = generator.normal(size=(systems, inputs))
    first, second = (
        human + generator.normal(size=human.shape),
        human + 1.2 * generator.normal(size=human.shape),
    )
    if ties:
        first = np.round(first, 0)
    return first, second, np.round(human, 0)


def flat(matrices: tuple[np.ndarray, ...]) -> tuple[list[np.ndarray], list[str], list[str]]:
    systems, inputs = matrices[0].shape
    return (
        [matrix.ravel() for matrix in matrices],
        [str(j) for _ in range(systems) for j in range(inputs)],
        [str(i) for i in range(systems) for _ in range(inputs)],
    )


def measure(ties: bool, ours_resamples: int = 2000, their_resamples: int = 20) -> tuple[float, float]:
    """CPU seconds per resample, ours and theirs, after checking that both compute the same."""
    from nlpstats.correlations import permutation_test as theirs

    matrices = simulated(ties)
    columns, inputs, systems = flat(matrices)
    np.random.seed(0)  # noqa: NPY002 (the generator that nlpstats draws from)
    start = time.process_time()
    peer = theirs(*matrices, "input", "kendall", "both", n_resamples=their_resamples)
    their_seconds = (time.process_time() - start) / their_resamples
    mine = permutation_test(
        *columns, inputs, systems, resamples=their_resamples, generator=np.random.RandomState(0)
    )
    assert np.allclose(mine.samples, peer.samples, atol=1e-12), "both must compute the same"
    start = time.process_time()
    permutation_test(*columns, inputs, systems, resamples=ours_resamples)
    return (time.process_time() - start) / ours_resamples, their_seconds


def main() -> None:
    for ties in (False, True):
        ours, peers = measure(ties)
        what = "with ties" if ties else "without ties"
        print(
            f"input-level Kendall permutation test {what}, times faster than nlpstats: {peers / ours:.0f} "
            f"({1e6 * ours:.0f} us against {1e3 * peers:.1f} ms a resample)"
        )


if __name__ == "__main__":
    main()
