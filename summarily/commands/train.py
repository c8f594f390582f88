"""`summarily train RECIPE`: train, resume, evaluate and package a model."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

DESCRIPTION = """\
Train the model a recipe describes; run the same command again to go on after a stop.
With several processes: accelerate launch --multi_gpu --num_processes N -m summarily train RECIPE
(the same without a GPU: N CPU processes)."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the `train` command to a parser's subparsers."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "train",
        help="train from a recipe: a summarizer, a denoiser, a reader or a BLEURT",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", help="a recipe of this package by name, or a .toml file")
    parser.add_argument(
        "--set", metavar="SECTION.KEY=VALUE", action="append", default=[], help="change a value of the recipe"
    )
    parser.add_argument("--output", metavar="DIR", help="what the run writes (default: runs/RECIPE)")
    parser.add_argument("--data", metavar="DIR", help="the folder of local files (default: $SUMMARILY_DATA)")
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="go on with the run in the output folder; --no-resume moves it aside and starts afresh",
    )
    parser.add_argument(
        "--profile",
        metavar="STEPS",
        nargs="?",
        const=5,
        type=int,
        help="only say where the time of a step goes, by a few of them (default: 5); no run is read or written",
    )
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code: 128 + the signal's number if a signal stopped the run."""
    from summarily.modeling.training.recipe import load_recipe

    recipe = load_recipe(args.recipe, args.set)

    from summarily.support.progress import say

    say("loading the libraries")
    import datasets
    import transformers

    from summarily.modeling.training.train import train

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
        transformers.utils.logging.disable_progress_bar()
    if args.profile is not None:
        return _profile(recipe, args)
    output = Path(args.output or Path("runs") / Path(args.recipe).stem)
    result = train(recipe, output, data=args.data, resume=args.resume)
    from accelerate import PartialState

    if PartialState().is_main_process:
        _report(result, output)
    return 0 if result.status == "finished" else 128 + signal.Signals[result.reason]


def _profile(recipe: Any, args: argparse.Namespace) -> int:
    from accelerate import PartialState

    from summarily.modeling.training.profiling import profile

    measured = profile(recipe, args.data, args.profile)
    if PartialState().is_main_process:
        print("\n".join(measured.lines()))
    return 0


def _report(result: Any, output: Path) -> None:
    if result.status == "interrupted":
        print(f"Stopped by {result.reason} at step {result.step}; the same command goes on from there.")
        return
    print(f"Finished ({result.reason}) at step {result.step} after {result.minutes:.1f} minutes.")
    for key, value in result.scores.items():
        print(f"  {key:<24}{value:10.4f}")
    for text in result.signatures.values():
        print(f"  {text}")
    print(f"Ready for the Hub: {output / 'hub'}")
