"""Agreement of metrics with people's judgements of summaries: `summarily meta human`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from summarily.metrics.base import InputError, Metric
from summarily.metrics.meta_evaluation.correlation import coefficient, correlate
from summarily.metrics.meta_evaluation.human import Judgements
from summarily.metrics.meta_evaluation.significance import williams
from summarily.metrics.scorecard import score
from summarily.metrics.tables import format_table


@dataclass(frozen=True)
class Agreement:
    """One value of one metric against people."""

    label: str
    key: str
    pooled: dict[str, float]
    by_input: dict[str, float]
    articles: int
    undefined_articles: int
    p_against_baseline: float
    """One-sided Williams' test of the pooled Spearman correlation against the baseline's."""


def agreement(
    judgements: Judgements, metrics: Mapping[str, Metric], baseline: str = "rougeL"
) -> tuple[list[Agreement], dict[str, str]]:
    """How each value of each metric agrees with people, and the signatures.

    Pooled p-values test each metric's Spearman correlation against that of `baseline`, a key of one of the metrics.
    """
    if baseline not in {key for metric in metrics.values() for key in metric.keys}:
        raise InputError(f"the baseline {baseline!r} is not among the values of {', '.join(metrics)}.")
    card = score(judgements.summaries, judgements.references, judgements.sources, metrics=dict(metrics))
    columns = {
        (label, key): values for label, result in card.items() for key, values in result.per_example.items()
    }
    reference = next(values for (_, key), values in columns.items() if key == baseline)
    rows = [_agreement(judgements, label, key, values, reference) for (label, key), values in columns.items()]
    return rows, {label: str(result.signature) for label, result in card.items()}


def _agreement(
    judgements: Judgements, label: str, key: str, values: Sequence[float], baseline: Sequence[float]
) -> Agreement:
    human = judgements.human
    pooled = {
        name: correlate(values, human, "pooled", name).value for name in ("pearson", "spearman", "kendall")
    }
    by_input = {
        name: correlate(values, human, "input", name, judgements.inputs)
        for name in ("pearson", "spearman", "kendall")
    }
    p = williams(
        pooled["spearman"],
        coefficient("spearman", baseline, human),
        coefficient("spearman", values, baseline),
        len(human),
    )
    return Agreement(
        label,
        key,
        pooled,
        {name: value.value for name, value in by_input.items()},
        by_input["spearman"].n,
        by_input["spearman"].undefined,
        p,
    )


def agreement_table(rows: Sequence[Agreement]) -> str:
    """The agreement of every metric, pooled and by input."""
    header = ["metric", "value", "pooled r", "rho", "tau", "by input r", "rho", "tau", "p vs baseline"]
    cells = [
        [
            row.label,
            row.key,
            *(f"{row.pooled[name]:.3f}" for name in row.pooled),
            *(f"{row.by_input[name]:.3f}" for name in row.by_input),
            f"{row.p_against_baseline:.4f}",
        ]
        for row in rows
    ]
    return format_table(header, cells, right=range(2, 9))


def agreement_markdown(rows: Sequence[Agreement]) -> str:
    """The Spearman correlations as a Markdown table, as the documents show them."""
    lines = ["| metric | value | pooled | by input | p against the baseline |", "|---|---|---|---|---|"]
    for row in rows:
        pooled, by_input = row.pooled["spearman"], row.by_input["spearman"]
        p = "< .0001" if row.p_against_baseline < 0.0001 else f"{row.p_against_baseline:.4f}"
        lines.append(f"| {row.label} | {row.key} | {pooled:.3f} | {by_input:.3f} | {p} |")
    return "\n".join(lines)


def default_metrics(preset: str = "light") -> dict[str, Metric]:
    """Every metric that runs here, the mover metrics with static and with contextual embeddings."""
    from summarily.metrics import load, load_all

    chosen, _ = load_all("all", preset)
    metrics: dict[str, Metric] = {}
    for name, metric in chosen.items():
        if name in ("wms", "sms", "s_wms"):
            metrics[f"{name} static"] = metric
            metrics[f"{name} contextual"] = load(name, preset=preset, embeddings="contextual")
        elif name == "moverscore":
            metrics["moverscore 1-gram"] = load(name, preset=preset, n_gram=1)
            metrics["moverscore 2-gram"] = load(name, preset=preset, n_gram=2)
        else:
            metrics[name] = metric
    return metrics
