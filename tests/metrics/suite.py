"""The one list that a metric joins to be held to the shared invariance and bad-input suites."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from summarily.metrics import Metric, load
from summarily.support.sample import SYSTEMS, load_sample
from tests.metrics import tiny
from tests.metrics.apes.tiny_reader import attentive
from tests.metrics.bleurt.tiny_bleurt import tiny_bleurt

# Counts, and sums of 64 bits, are the same in any order but for the last digits.
EXACT = ("rouge", "wms", "sms", "s_wms", "apes")

# Name of the metric: the options it is tested with, or a function that prepares them.
CASES: dict[str, dict[str, Any] | Callable[[], dict[str, Any]]] = {
    "rouge": {},
    "bertscore": {},
    "bartscore": lambda: {"model": tiny.checkpoint("bart")},
    "moverscore": {},
    "bleurt": lambda: {"model": tiny_bleurt()},
    "wms": {},
    "sms": {},
    "s_wms": {},
    "vert": {},
    "apes": lambda: {"reader": "attentive", "model": attentive()},
}


def options_of(name: str) -> dict[str, Any]:
    options = CASES[name]
    return options() if callable(options) else options


def tolerance(name: str) -> float:
    """How far two scores of the same text may be apart when it was padded or batched in another way.

    Models compute in float32. The shipped ones hold 1e-6; the tiny BLEURT's random weights, far from zero, amplify
    rounding: of 600 pairs, alone and in a batch, the most was 1.4e-6 (SSE4.2; 0.8e-6 with AVX-512).
    """
    if name in EXACT:
        return 1e-9
    return 5e-6 if name == "bleurt" else 1e-6


def make(name: str) -> Metric:
    return load(name, **options_of(name))


def forget() -> None:
    """Drop everything encoded so far, so that a second score is computed and not remembered."""
    from summarily.metrics import encoding
    from summarily.support.cloze import recognition

    encoding.forget()
    recognition.forget()


@functools.cache
def corpus() -> tuple[list[str], list[list[str]], list[str]]:
    """Predictions of all three sample systems, references and sources, with odd ones among them."""
    predictions, references, sources = [], [], []
    for row, system in zip(load_sample()[:12], SYSTEMS * 4, strict=True):
        predictions.append(row[system])
        references.append(row["references"])
        sources.append(row["source"])
    predictions += ["", "of the and", "Snow fell.", "Snow fell."]
    references += [
        ["Snow fell in Oslo."],
        ["Snow fell in Oslo."],
        ["Snow fell in Oslo.", "It snowed."],
        ["Snow fell."],
    ]
    sources += ["Snow fell in Oslo on Monday."] * 4
    return predictions, references, sources
