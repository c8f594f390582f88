"""The metrics of Summarily: each folder is an `evaluate` module and a scorer.

`METRICS` is the one list a new metric joins; the command line, `summarily.score`, registration with
`evaluate` and the shared test suites all read it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from summarily.metrics.base import Example, Interval, Metric, Score, Signature, State, Values
from summarily.metrics.options import PRESETS, one_of
from summarily.support.errors import InputError, MissingRequirement, SummarilyError, first_line
from summarily.support.inputs import check_types
from summarily.support.suggestions import did_you_mean

METRICS: dict[str, str] = {
    "bertscore": "Bertscore",
    "rouge": "Rouge",
    "bartscore": "Bartscore",
    "moverscore": "Moverscore",
    "bleurt": "Bleurt",
    "wms": "Wms",
    "sms": "Sms",
    "s_wms": "SWms",
    "vert": "Vert",
    "apes": "Apes",
}
"""Name of the folder: name of the class in its `scorer.py`. The first is what is looked at first where nobody chooses:
its main score, BERTScore's recall, agrees best with people (see the README of the meta-evaluation)."""

__all__ = [
    "METRICS",
    "Example",
    "InputError",
    "Interval",
    "Metric",
    "MissingRequirement",
    "Score",
    "Signature",
    "State",
    "Values",
    "load",
    "metric_class",
]


def metric_class(name: str) -> type[Metric]:
    """The class of a metric, imported when asked for.

    Example:
        >>> metric_class("rouge").__name__
        'Rouge'
    """
    if name not in METRICS:
        raise InputError(f"there is no metric {name!r};{did_you_mean(name, METRICS)}")
    return getattr(importlib.import_module(f"summarily.metrics.{name}.scorer"), METRICS[name])


def load(name: str, preset: str = "light", **options: Any) -> Metric:
    """A metric by name.

    Example:
        >>> load("rouge").compute(["a cat sat"], ["the cat sat"]).mean["rouge1"]
        0.6666666666666666
    """
    kind = metric_class(name)
    one_of("preset", preset, PRESETS)
    known = [option for option in inspect.signature(kind).parameters if option != "preset"]
    for option in options:
        if option not in known:
            raise InputError(f"{name} has no option {option!r};{did_you_mean(option, known)}")
    check_types(kind, options)
    try:
        return kind(preset=preset, **options)  # type: ignore[call-arg]
    except SummarilyError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        given = ", ".join(f"{option}={value!r:.60}" for option, value in options.items())
        raise InputError(f"{name} cannot be made with {given}: {first_line(error)}") from error


def load_all(selection: Any, preset: str = "light") -> tuple[dict[str, Metric], dict[str, str]]:
    """The metrics of a selection by label, and those skipped (only for "all") with the reason.

    A selection is "all", a name, a `Metric`, a list of names and metrics, or a mapping from a label to a
    `Metric` or from a metric's name to its options; `{"all": {}, "rouge": {...}}` is all, some with options.
    """
    if isinstance(selection, str) and selection == "all":
        return _all_that_run(preset, {})
    if isinstance(selection, Mapping) and "all" in selection:
        return _all_that_run(preset, {name: value for name, value in selection.items() if name != "all"})
    if isinstance(selection, (str, Metric)):
        selection = [selection]
    metrics: dict[str, Metric] = {}
    if isinstance(selection, Mapping):
        for label, value in selection.items():
            if not isinstance(value, (Metric, Mapping, type(None))):
                raise InputError(
                    f"metrics[{label!r}] is a {type(value).__name__}; expected a Metric, or options for {label!r}."
                )
            metrics[label] = (
                value if isinstance(value, Metric) else load(label, **{"preset": preset, **(value or {})})
            )
    elif isinstance(selection, Iterable):
        for value in selection:
            metric = value if isinstance(value, Metric) else load(value, preset=preset)
            if metric.name in metrics:
                raise InputError(
                    f"{metric.name} is asked for twice; give a mapping from labels to metrics instead."
                )
            metrics[metric.name] = metric
    else:
        raise InputError(f"metrics is a {type(selection).__name__}; expected names, metrics, or a mapping.")
    if not metrics:
        raise InputError('metrics is empty; name at least one, or pass "all".')
    for metric in metrics.values():
        metric.check()
    return metrics, {}


def _all_that_run(
    preset: str, options: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Metric], dict[str, str]]:
    metrics: dict[str, Metric] = {}
    skipped: dict[str, str] = {}
    for name in options:
        metric_class(name)  # the name is known
    for name in METRICS:
        try:
            metric = load(name, **{"preset": preset, **options.get(name, {})})
            metric.check()
            metrics[name] = metric
        except MissingRequirement as error:
            skipped[name] = str(error)
    return metrics, skipped
