"""`summarily convert`: a BART or a T5 becomes a LED or a RED, a pointer-generator an APESO, LED goes to transformers and back."""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path
from typing import Any

from summarily.support.errors import InputError


class ConversionError(InputError):
    """The source cannot be converted, or the destination is taken."""


def convert(options: argparse.Namespace) -> Any:
    """Convert, save with the tokenizer, and return the new model."""
    destination = Path(options.destination)
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise ConversionError(f"{destination} is not empty; name another folder.")
    if options.kind == "led":
        model = _converted_led(options.source)
    elif options.kind == "pointer-generator-to-apeso":
        model = _with_entity_layer(options.source)
    elif options.kind.startswith("t5"):
        model = _around_t5(options)
    else:
        model = _operated(options)
    model.save_pretrained(destination)
    _save_tokenizer(options.source, destination, getattr(options, "max_length", None) or _longest(model))
    return model


def _around_t5(options: argparse.Namespace) -> Any:
    from summarily.modeling import LedT5ForConditionalGeneration, RedT5ForConditionalGeneration

    source, fields = _loaded(options.source, "t5"), _fields(options.set)
    if options.kind == "t5-to-led":
        return LedT5ForConditionalGeneration.from_t5(source, window=options.window, **fields)
    fields = {"max_source_length": options.max_length, **fields}
    return RedT5ForConditionalGeneration.from_t5(source, query_key=options.query_key, **fields)


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
            raise ConversionError(f"--set {entry}: expected FIELD=VALUE, such as dropout=0.1.")
        try:
            fields[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            fields[name] = value
    return fields


def _longest(model: Any) -> int | None:
    """The tokens that a model's positions are enough for, where they are counted."""
    return getattr(model.config, "max_encoder_position_embeddings", None)


def _save_tokenizer(source: str, destination: Path, max_length: int | None) -> None:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, KeyError):
        print(f"summarily convert: {source} has no tokenizer; only the model was converted.", file=sys.stderr)
        return
    if max_length:
        tokenizer.model_max_length = max_length
    tokenizer.save_pretrained(destination)
