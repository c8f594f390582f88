"""Choosing an encoder: models and layers of a metric against people, `summarily meta sweep` (Tables 6.1, 6.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from summarily.metrics import load
from summarily.metrics.base import Metric
from summarily.metrics.encoding import encoder
from summarily.metrics.meta_evaluation import reports
from summarily.metrics.meta_evaluation.agreement import score_judgements
from summarily.metrics.meta_evaluation.correlation import correlate
from summarily.metrics.meta_evaluation.human import Judgements
from summarily.metrics.meta_evaluation.reports import Section, Table, bracket, number
from summarily.metrics.meta_evaluation.scores import Scored, ScoreStore
from summarily.metrics.meta_evaluation.significance import bootstrap, interval, resampling_for
from summarily.support.errors import InputError


def variants(
    metric: str, models: Sequence[str], layers: Sequence[int] | None = None, preset: str = "light"
) -> dict[str, Metric]:
    """The metric with every model and layer, by label; layers count from 1, all of them by default.

    A metric without layers to choose (BLEURT) is swept over its models alone.

    Example:
        >>> list(variants("bertscore", ["minilm"], [4, 5]))
        ['minilm layer 4', 'minilm layer 5']
    """
    import inspect

    from summarily.metrics import metric_class

    options = inspect.signature(metric_class(metric)).parameters
    if "model" not in options:
        raise InputError(f"{metric} has no model to choose.")
    option = "layer" if "layer" in options else "layers" if "layers" in options else None
    if option is None:
        if layers:
            raise InputError(f"{metric} has no layers to choose; leave out --layers.")
        return {_name(model): load(metric, preset=preset, model=model) for model in models}
    found: dict[str, Metric] = {}
    for model in models:
        depth = encoder(model).num_layers
        for layer in layers or range(1, depth + 1):
            if not -depth <= layer <= depth or layer == 0:
                raise InputError(f"{model} has layers 1 to {depth}, not {layer}.")
            extra = {"embeddings": "contextual"} if "embeddings" in options else {}
            chosen = layer if option == "layer" else [layer]
            found[f"{_name(model)} layer {layer}"] = load(
                metric, preset=preset, model=model, **{option: chosen}, **extra
            )
    return found


def _name(model: str) -> str:
    """What a model is called in a table: a folder by its last part."""
    return Path(model).name if Path(model).is_dir() else model


def sweep(
    judgements: Judgements,
    metric: str,
    models: Sequence[str],
    layers: Sequence[int] | None = None,
    preset: str = "light",
    store: ScoreStore | None = None,
    progress: bool | None = None,
) -> Scored:
    """Score the judged summaries with every model and layer; each model encodes every text once."""
    scored = score_judgements([judgements], variants(metric, models, layers, preset), store, progress)
    scored.notes["metric"] = metric
    return scored


def sweep_table(scored: Scored, level: str = "input", resamples: int = 1000) -> Table:
    """In the shape of the thesis' Table 6.1, with an interval of Spearman's rho; * the best."""
    question, human = next(iter(scored.human.items()))
    inputs, systems = list(map(str, scored.inputs)), list(map(str, scored.systems))
    resample = resampling_for(len(scored.system_names))
    labels = list(scored.columns)
    columns = [np.array(scored.columns[label]) for label in labels]
    draws = bootstrap(columns, human, inputs, systems, level, "spearman", resample, resamples)
    found = [
        [
            correlate(column, human, level, name, inputs, systems).value
            for name in ("spearman", "pearson", "kendall")
        ]
        for column in columns
    ]
    defined = [i for i, values in enumerate(found) if not math.isnan(values[0])]
    best = max(defined, key=lambda i: found[i][0], default=None)
    rows = [
        [
            label + (" *" if i == best else ""),
            number(found[i][0]),
            bracket(*interval(draws[i])[:2]),
            number(found[i][1]),
            number(found[i][2]),
        ]
        for i, label in enumerate(labels)
    ]
    return Table(
        f"{scored.notes['metric']} on {scored.name}, {question}, {level} level",
        ["model", "rho", "95%", "r", "tau"],
        rows,
        f"Intervals: bootstrap over {'inputs and systems' if resample == 'both' else resample}. * the highest rho.",
    )


def section(scored: Scored, plots: bool) -> Section:
    """The part of a report about encoders."""
    table = sweep_table(scored)
    found = Section(f"Encoders: {scored.notes['metric']} on {scored.name}", [scored.notes["read"]], [table])
    if plots:
        values = {row[0]: float(row[1]) for row in table.rows if row[1] != "-"}
        bounds = {row[0]: tuple(map(float, row[2].split(" to "))) for row in table.rows if row[2] != "-"}
        found.figures.append(("Spearman's rho, 95% intervals", reports.bars(values, bounds, "rho")))  # type: ignore[arg-type]
    return found
