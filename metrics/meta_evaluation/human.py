"""Agreement of metrics with people's judgements of summaries: `summarily meta human`."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summarily.metrics.base import InputError, Metric
from summarily.metrics.meta_evaluation.correlation import coefficient, correlate
from summarily.metrics.meta_evaluation.significance import williams
from summarily.metrics.scorecard import score
from summarily.metrics.tables import format_table


@dataclass
class Judgements:
    """Summaries with references and human scores, one row each."""

    name: str
    summaries: list[str]
    references: list[str]
    human: list[float]
    inputs: list[str]
    systems: list[str]
    dropped: dict[str, int]


def data_folder(folder: str | os.PathLike[str] | None) -> Path:
    """`folder`, or what SUMMARILY_DATA names."""
    chosen = folder or os.environ.get("SUMMARILY_DATA")
    if not chosen:
        raise InputError("where are the data? Give --data FOLDER or set SUMMARILY_DATA.")
    return Path(chosen)


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def read_chaganty(folder: Path, question: str = "overall") -> Judgements:
    """Chaganty et al. 2018: four systems' summaries of CNN/DailyMail articles, judged by people.

    References are taken with their digits from the test set's where the hash is known; the rows that judge
    the references themselves and rows without a judgement are left out and counted.
    """
    clean = {
        row["cnndm_hash"]: row["reference"] for row in _rows(folder / "news/cnndm_test_references.jsonl.gz")
    }
    result = Judgements("chaganty_dev", [], [], [], [], [], {"reference rows": 0, f"no {question} score": 0})
    known: set[str] = set()
    for row in _rows(folder / "human/chaganty_dev.jsonl.gz"):
        known.update(row["human"])
        if row["system"] == "reference":
            result.dropped["reference rows"] += 1
        elif row["human"].get(question) is None:
            result.dropped[f"no {question} score"] += 1
        else:
            result.summaries.append(row["summary"])
            result.references.append(clean.get(row["cnndm_hash"], row["reference"]))
            result.human.append(float(row["human"][question]))
            result.inputs.append(row["id"])
            result.systems.append(row["system"])
    if not result.human:
        raise InputError(f"no summary has a human score {question!r}; there are: {', '.join(sorted(known))}.")
    return result


READERS = {"chaganty": read_chaganty}


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
    card = score(judgements.summaries, judgements.references, metrics=dict(metrics))
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
