"""Peak memory of scoring with an encoder does not grow with the corpus.

Each size is scored in a process of its own. Memory is what the process has resident beyond what it had before
scoring, with the model loaded and the texts made. The first layer alone is used: states are as large as those
of any other layer, and come sooner.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys

SIZES = (10_000, 30_000, 100_000)
ALLOWED_GROWTH = 64 * 2**20
"""Bytes between the last two sizes; the scores themselves take 100 bytes per pair."""


def pairs(number: int) -> tuple[list[str], list[str]]:
    """Short pairs of random words; no two alike, so that nothing is encoded once for several."""
    from summarily.support.sample import load_sample

    words = sorted({word for row in load_sample() for word in row["source"].split()})
    chosen = random.Random(0)
    texts = [f"{row} {' '.join(chosen.choices(words, k=6))}" for row in range(2 * number)]
    return texts[:number], texts[number:]


def measure(number: int) -> dict[str, float]:
    import torch

    from summarily.metrics import load
    from summarily.metrics.cost import Meter

    torch.set_num_threads(1)
    metric = load("bertscore", layer=1, device="cpu")
    metric.compute(["a warm up"], ["of the model"])
    predictions, references = pairs(number)
    with Meter() as meter:
        metric.compute(predictions, references)
    return {"pairs": number, "peak": meter.peak_memory, "seconds": meter.seconds}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    results = []
    for size in options.sizes:
        command = [sys.executable, "-m", "tests.benchmarks.encoder_memory", "--measure", str(size)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        results.append(json.loads(output.splitlines()[-1]))
        last = results[-1]
        print(f"encoder memory: {size:,} pairs, peak {last['peak'] / 2**20:.0f} MB ({last['seconds']:.0f} s)")
    if len(results) > 1:
        growth = results[-1]["peak"] - results[-2]["peak"]
        pairs_more = results[-1]["pairs"] - results[-2]["pairs"]
        print(f"encoder memory: {pairs_more:,} more pairs grow the peak by {growth / 2**20:.0f} MB")
        assert growth < ALLOWED_GROWTH, results


if __name__ == "__main__":
    main()
