"""Scoring on Ray with one and with two workers, on this machine: how much faster two are while they work.

python -m tests.benchmarks.workers [--rows 256] [--metric bertscore]

A worker's speed is its windows by the time from the beginning of its first to the end of its last, so that starting Ray and
loading models do not count, and waiting for rows does. The same by CPU seconds says what two cost each other on a machine
that has other work too. Texts are long (150 tokens each), and every worker has one thread; it takes about two minutes on two cores.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet

from summarily.metrics import on_ray
from summarily.support import cluster
from tests.benchmarks.streaming import write

WINDOW = 32
_worker = on_ray._worker


def clocked(log: str, **options: Any) -> Callable[[int, list[Any]], bytes]:
    """A worker that writes down when it worked on a window, and the CPU seconds that it took."""
    work = _worker(**options)

    def at_work(first: int, rows: list[Any]) -> bytes:
        start, cpu = time.time(), time.process_time()
        result = work(first, rows)
        told = json.dumps([start, time.time(), time.process_time() - cpu])
        with (Path(log) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(told + "\n")
        return result

    return at_work


def speeds(folder: Path, table: Path, metric: str, workers: int) -> tuple[float, float]:
    """Windows that the workers do in a second, and in a CPU second of each."""
    log = folder / f"log-{workers}"
    log.mkdir()
    on_ray._worker = functools.partial(clocked, str(log))  # type: ignore[assignment]
    output = folder / f"workers-{workers}.parquet"
    on_ray.score_on_ray(str(table), metric, output=output, window=WINDOW, workers=workers)
    wall = cpu = 0.0
    told = []
    for file in sorted(log.iterdir()):
        spans = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        wall += len(spans) / (max(end for _, end, _ in spans) - min(start for start, _, _ in spans))
        cpu += len(spans) / sum(seconds for _, _, seconds in spans)
        told.append(f"{len(spans)} windows in {sum(seconds for _, _, seconds in spans):.1f} CPU s")
    print(f"{workers} at work: {'; '.join(told)}; {60 * wall:.1f} windows a minute", flush=True)
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--metric", default="bertscore")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, cluster._started(None, 2):
        folder = Path(name)
        table = folder / "rows.parquet"
        write(table, options.rows)
        runs = [speeds(folder, table, options.metric, workers) for workers in (1, 2)]
        one, two = (pyarrow.parquet.read_table(folder / f"workers-{workers}.parquet") for workers in (1, 2))
        assert two.equals(one), "the numbers are those of one worker"
    wall, cpu = (many / alone for alone, many in zip(*runs, strict=True))
    print(
        f"{options.metric} on Ray: two workers are {wall:.2f} times as fast as one on {options.rows:,} pairs; "
        f"{cpu:.2f} times by CPU seconds; equal numbers"
    )


if __name__ == "__main__":
    main()
