"""`summarily convert`: a BART becomes a LED or a RED, a pointer-generator an APESO, LED goes to transformers and back."""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path
from typing import Any

DESCRIPTION = """\
Convert a model, with its tokenizer, into a new folder:
  summarily convert bart-to-led facebook/bart-large-cnn led-cnn --max-length 4096 --window 512
  summarily convert bart-to-red facebook/bart-large-cnn red-cnn --thesis
  summarily convert led allenai/led-base-16384 led-base      transformers' LED to ours, or ours to transformers'
  summarily convert pointer-generator-to-apeso RUN/hub apeso  a new entity layer on a trained pointer-generator"""


class ConversionError(ValueError):
    """The source cannot be converted, or the destination is taken."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the `convert` command to a parser's subparsers."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "convert",
        help="BART to LED or RED, pointer-generator to APESO, LED to transformers' and back",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(title="conversions", required=True, metavar="KIND", dest="kind")
    for kind, text in (
        ("bart-to-led", "widen a BART: sliding-window attention in the encoder"),
        ("bart-to-red", "widen a BART: the Reformer's attention in the encoder"),
        ("led", "transformers' LED to ours, or ours to transformers'"),
        ("pointer-generator-to-apeso", "a new entity layer on a trained pointer-generator"),
    ):
        command = kinds.add_parser(kind, help=text, description=text)
        command.add_argument("source", help="a folder, or a name on the Hub")
        command.add_argument("destination", help="a folder that does not exist yet, or is empty")
        if kind.startswith("bart"):
            _add_surgery(command, kind)
        command.set_defaults(run=run)
    return parser


def _add_surgery(parser: argparse.ArgumentParser, kind: str) -> None:
    parser.add_argument("--max-length", type=int, default=4096, help="of a source (default: %(default)s)")
    parser.add_argument(
        "--attention",
        choices=["copy", "random"],
        help="start the encoder's self-attention from BART's weights, or at random (default: copy; thesis: random)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random attention (default: %(default)s)")
    if kind == "bart-to-led":
        parser.add_argument(
            "--window", type=int, default=512, help="both sides together (default: %(default)s)"
        )
    else:
        parser.add_argument("--thesis", action="store_true", help="the thesis' set-up, defects and all")
        parser.add_argument(
            "--query-key", choices=["query", "mean"], default="query", help="of hashing layers"
        )
    parser.add_argument(
        "--set", metavar="FIELD=VALUE", action="append", default=[], help="a field of the new configuration"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    try:
        model = convert(options)
    except (ConversionError, TypeError, ValueError, OSError) as error:
        print(f"summarily convert: {error}", file=sys.stderr)
        return 2
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{type(model).__name__}, {count / 1e6:.1f} M parameters: {options.destination}")
    return 0


def convert(options: argparse.Namespace) -> Any:
    """Convert, save with the tokenizer, and return the new model."""
    destination = Path(options.destination)
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise ConversionError(f"{destination} is not empty; name another folder.")
    if options.kind == "led":
        model = _converted_led(options.source)
    elif options.kind == "pointer-generator-to-apeso":
        model = _with_entity_layer(options.source)
    else:
        model = _operated(options)
    model.save_pretrained(destination)
    _save_tokenizer(options.source, destination, model)
    return model


def _operated(options: argparse.Namespace) -> Any:
    from summarily.modeling import LedForConditionalGeneration, RedForConditionalGeneration

    arguments = {"max_length": options.max_length, "seed": options.seed, **_fields(options.set)}
    if options.attention:
        arguments["attention"] = options.attention
    source = _loaded(options.source, "bart")
    if options.kind == "bart-to-led":
        return LedForConditionalGeneration.from_bart(source, window=options.window, **arguments)
    arguments |= {"thesis": options.thesis, "query_key": options.query_key}
    return RedForConditionalGeneration.from_bart(source, **arguments)


def _converted_led(source: str) -> Any:
    from summarily.modeling import LedForConditionalGeneration

    model = _loaded(source, "led", "summarily-led")
    if isinstance(model, LedForConditionalGeneration):
        return model.to_transformers_led()
    return LedForConditionalGeneration.from_transformers_led(model)


def _with_entity_layer(source: str) -> Any:
    import torch

    from summarily.modeling import ApesoForConditionalGeneration

    torch.manual_seed(0)  # the same layer every time
    return ApesoForConditionalGeneration.from_pointer_generator(
        _loaded(source, "summarily-pointer-generator")
    )


def _loaded(source: str, *kinds: str) -> Any:
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    import summarily.modeling  # noqa: F401  registers our models

    kind = AutoConfig.from_pretrained(source).model_type
    if kind not in kinds:
        raise ConversionError(
            f"{source} is a model of type {kind!r}; expected {' or '.join(map(repr, kinds))}."
        )
    return AutoModelForSeq2SeqLM.from_pretrained(source)


def _fields(entries: list[str]) -> dict[str, Any]:
    fields = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals:
            raise ConversionError(f"--set {entry}: expected FIELD=VALUE, such as label_smoothing=0.1.")
        try:
            fields[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            fields[name] = value
    return fields


def _save_tokenizer(source: str, destination: Path, model: Any) -> None:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, KeyError):
        print(f"summarily convert: {source} has no tokenizer; only the model was converted.", file=sys.stderr)
        return
    if hasattr(model.config, "max_encoder_position_embeddings"):
        tokenizer.model_max_length = model.config.max_encoder_position_embeddings
    tokenizer.save_pretrained(destination)
