"""The command `summarily train-reader`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from summarily.commands.train import add_run_options

DESCRIPTION = """\
Train a reader of cloze questions, for APES; run the same command again to go on after a stop.
The questions are made from the articles of the data folder if their file is not there."""


def add_parser(commands: Any) -> None:
    """Add `summarily train-reader`."""
    parser = commands.add_parser(
        "train-reader",
        help="train a reader of cloze questions, for APES",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_options(parser, "cloze_reader, cross_reader or a .toml file")
    parser.add_argument("--corpus", default="runs/cloze.jsonl.gz", help="questions (default: %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from summarily.modeling.training.reading import train_reader
    from summarily.modeling.training.recipe import load_recipe

    recipe = load_recipe(options.recipe, options.set)
    output = Path(options.output or Path("runs") / Path(options.recipe).stem)
    result = train_reader(recipe, output, options.corpus, options.data, options.resume)
    print(f"{result.status} ({result.reason}) at step {result.step} after {result.minutes:.1f} minutes")
    for key, value in result.scores.items():
        print(f"  {key:<36}{value:8.2f}")
    return 0 if result.status == "finished" else 1
