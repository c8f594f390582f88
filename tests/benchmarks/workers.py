"""Scoring on Ray with one and with two workers, on this machine: how much faster two are.

python -m tests.benchmarks.workers [--rows 2000] [--metric bertscore]

A second, small run of each is taken off, so that starting Ray and loading models does not count.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.benchmarks.streaming import write


def seconds(folder: Path, rows: int, metric: str, workers: int) -> float:
    """The wall time of a run, from its start to its end."""
    from summarily.metrics.on_ray import score_on_ray

    table, output = folder / f"{rows}.parquet", folder / f"{rows}-{workers}.scores.parquet"
    if not table.exists():
        write(table, rows)
    start = time.perf_counter()
    score_on_ray(str(table), metric, confidence=None, output=output, window=64, workers=workers)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--metric", default="bertscore")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        taken = {}
        for workers in (1, 2):
            start = seconds(Path(name), 128, options.metric, workers)
            taken[workers] = seconds(Path(name), options.rows, options.metric, workers) - start
    print(
        f"{options.metric} on Ray: two workers are {taken[1] / taken[2]:.2f} times as fast as one on {options.rows:,} pairs "
        f"({taken[2]:.1f} s, {taken[1]:.1f} s)"
    )


if __name__ == "__main__":
    main()
