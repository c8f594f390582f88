"""The command `summarily convert`."""

from __future__ import annotations

import argparse
from typing import Any

from summarily.support.errors import SummarilyError, first_line

DESCRIPTION = """\
Convert a model, with its tokenizer, into a new folder:
  summarily convert bart-to-led facebook/bart-large-cnn led-cnn --max-length 4096 --window 512
  summarily convert bart-to-red facebook/bart-large-cnn red-cnn --thesis
  summarily convert t5-to-led google/flan-t5-base led-t5 --window 512
  summarily convert t5-to-red google/flan-t5-base red-t5
  summarily convert led allenai/led-base-16384 led-base      transformers' LED to ours, or ours to transformers'
  summarily convert pointer-generator-to-apeso RUN/hub apeso  a new entity layer on a trained pointer-generator"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the `convert` command to a parser's subparsers."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "convert",
        help="BART or T5 to LED or RED, pointer-generator to APESO, LED to transformers' and back",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(title="conversions", required=True, metavar="KIND", dest="kind")
    for kind, text in (
        ("bart-to-led", "widen a BART: sliding-window attention in the encoder"),
        ("bart-to-red", "widen a BART: the Reformer's attention in the encoder"),
        ("t5-to-led", "sliding-window attention in the encoder of a T5"),
        ("t5-to-red", "the Reformer's attention in the encoder of a T5"),
        ("led", "transformers' LED to ours, or ours to transformers'"),
        ("pointer-generator-to-apeso", "a new entity layer on a trained pointer-generator"),
    ):
        command = kinds.add_parser(kind, help=text, description=text)
        command.add_argument("source", help="a folder, or a name on the Hub")
        command.add_argument("destination", help="a folder that does not exist yet, or is empty")
        if kind.endswith(("-to-led", "-to-red")):
            _add_surgery(command, kind)
        command.set_defaults(run=run)
    return parser


def _add_surgery(parser: argparse.ArgumentParser, kind: str) -> None:
    from_bart, to_led = kind.startswith("bart"), kind.endswith("led")
    length = 4096 if from_bart else 16384  # a T5 has no table of positions to widen
    parser.add_argument("--max-length", type=int, default=length, help="of a source (default: %(default)s)")
    if from_bart:
        parser.add_argument(
            "--attention",
            choices=["copy", "random"],
            help="start the encoder's self-attention from BART's weights, or at random (default: copy; thesis: random)",
        )
        parser.add_argument("--seed", type=int, default=0, help="of random attention (default: %(default)s)")
    if to_led:
        parser.add_argument(
            "--window", type=int, default=512, help="both sides together (default: %(default)s)"
        )
    else:
        if from_bart:
            parser.add_argument("--thesis", action="store_true", help="the thesis' set-up, defects and all")
        parser.add_argument(
            "--query-key", choices=["query", "mean"], default="query", help="of hashing layers"
        )
    parser.add_argument(
        "--set", metavar="FIELD=VALUE", action="append", default=[], help="a field of the new configuration"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from summarily.support.progress import say

    say(f"loading {options.source}")
    from summarily.modeling.conversion import ConversionError, convert

    try:
        model = convert(options)
    except SummarilyError:
        raise
    except (
        Exception
    ) as error:  # a source or a field that transformers does not know, or files that are damaged
        raise ConversionError(f"{options.source} cannot be converted: {first_line(error)}") from error
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{type(model).__name__}, {count / 1e6:.1f} M parameters: {options.destination}")
    return 0
