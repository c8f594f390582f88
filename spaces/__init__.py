"""The Spaces: one folder per Gradio app, each publishable, all served by `summarily demo NAME`."""

from __future__ import annotations

import importlib
from typing import Any

from summarily.metrics import METRICS
from summarily.support.errors import InputError
from summarily.support.suggestions import did_you_mean

SPACES = {
    "scorecard": "score up to four systems with every metric, and see what each number is made of",
    "summarize": "a summary by a shipped or a Hub model, where the model looked, and what it cost",
    "attention": "what each position may see under each attention mechanism, and what that costs",
    "judge": "compare two systems' summaries blindly, and test which is better",
}
"""Folder: what it shows. Each has `interface.build()`; every metric is a Space of its own beside them."""


def build(name: str) -> Any:
    """The Gradio Blocks of a Space or of a metric.

    Example:
        >>> build("scorecards")
        Traceback (most recent call last):
        ...
        summarily.support.errors.InputError: there is no demo 'scorecards'; did you mean 'scorecard'? ...
    """
    if name in SPACES:
        return importlib.import_module(f"summarily.spaces.{name}.interface").build()
    if name in METRICS:
        from summarily.spaces.metric import build as build_metric

        return build_metric(name)
    raise InputError(f"there is no demo {name!r};{did_you_mean(name, [*SPACES, *METRICS])}")


def launch(name: str, **options: Any) -> Any:
    """Serve a Space; `options` are those of Gradio's `launch`."""
    from summarily.spaces.serving import serve

    return serve(build(name), **options)
