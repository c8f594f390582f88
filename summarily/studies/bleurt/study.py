"""Our small BLEURT, trained by the recipe of the original at the scale of a CPU.

Stage 1 learns what other metrics say about passages and their perturbed versions, stage 2 what people say about pairs of
sentences; the summary judgements that metrics are compared on are never read. Both are ordinary runs that go on where
they were stopped.

    summarily study bleurt --data FOLDER
    summarily meta paraphrase stsb --metrics "rouge, bleurt(model=runs/study-bleurt/ratings/hub)"
"""

from __future__ import annotations

import argparse
from pathlib import Path

from summarily.support.errors import InputError
from summarily.support.folders import data_folder

PAIRS = 3300


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", default="runs/study-bleurt", help="default: %(default)s")
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    parser.add_argument(
        "--pairs",
        type=int,
        default=PAIRS,
        help="pairs of passages to make for stage 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="RECIPE:SECTION.KEY=VALUE",
        help="change a value of bleurt_signals or bleurt_ratings",
    )


def run(options: argparse.Namespace) -> int:
    """Train or go on."""
    from summarily.studies.bleurt.training import train_bleurt

    data, output = data_folder(options.data), Path(options.output)
    overrides: dict[str, list[str]] = {}
    for entry in options.set:
        recipe, colon, change = entry.partition(":")
        if not colon:
            raise InputError(
                f"--set {entry}: expected bleurt_signals:... or bleurt_ratings:section.key=value."
            )
        overrides.setdefault(recipe, []).append(change)
    folder = train_bleurt(data, output, options.pairs, overrides)
    if folder is None:
        print("stopped; run the same command to go on")
        return 1
    print(f"written to {folder}")
    return 0
