"""All studies in one go, and their report from the numbers that were kept: `summarily meta all` and `meta report`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summarily.metrics.base import Metric, make_examples
from summarily.metrics.meta_evaluation import (
    LIMITS,
    agreement,
    benchmark,
    corruption,
    paraphrase,
    profiling,
    reports,
    sweep,
)
from summarily.metrics.meta_evaluation.human import Columns, Judgements, read_judgements
from summarily.metrics.meta_evaluation.reports import Section
from summarily.metrics.meta_evaluation.scores import (
    Scored,
    ScoreStore,
    load_results,
    merged,
    owner_of,
    save_result,
)
from summarily.support.errors import InputError

HUMAN_SETS: dict[str, tuple[str, ...]] = {
    "chaganty": ("overall",),
    "summeval": ("relevance", "coherence", "consistency", "fluency"),
    "realsumm": ("litepyramid_recall",),
}

Results = dict[str, dict[str, Any]]
"""By kind of study and name of the set."""


@dataclass
class Plan:
    """What to run all studies on, and with what."""

    metrics: Mapping[str, Metric]
    store: ScoreStore
    limits: Mapping[str, int] = field(default_factory=lambda: dict(LIMITS))
    refill: corruption.Refill | None = None
    refill_name: str = "nearest words of GloVe"
    sweep_models: Sequence[str] = ("minilm",)
    progress: bool | None = None
    fresh: bool = False
    encoders: bool = True
    """Whether the encoders of BERTScore are compared."""
    keep: Callable[[str, str, Any], None] = lambda kind, name, result: None
    """Called with every result as soon as it is there."""


def run_on_folder(folder: Path, plan: Plan) -> Results:
    """Every study on the published sets of a data folder; a set that is not there is left out."""
    results: Results = {}

    def add(kind: str, name: str, result: Any) -> None:
        results.setdefault(kind, {})[name] = result
        plan.keep(kind, name, result)

    for name, questions in HUMAN_SETS.items():
        file = "chaganty_dev" if name == "chaganty" else f"{name}_summaries"
        if (folder / f"human/{file}.jsonl.gz").is_file():
            judgements = [read_judgements(name, question, folder) for question in questions]
            scored = agreement.score_judgements(judgements, plan.metrics, plan.store, plan.progress)
            add("human", scored.name, scored)
            if name == "chaganty":
                if plan.encoders:
                    layers = sweep.sweep(
                        judgements[0],
                        "bertscore",
                        plan.sweep_models,
                        None,
                        "light",
                        plan.store,
                        plan.progress,
                    )
                    add("sweep", f"bertscore.{layers.name}", layers)
                add("profile", scored.name, _profile(judgements[0], plan))
    if (folder / "paraphrase/quora_dev.jsonl.gz").is_file():
        pairs = paraphrase.read_pairs("quora", folder, limit=plan.limits["paraphrase"])
        add("paraphrase", pairs.name, paraphrase.score_pairs(pairs, plan.metrics, plan.store, plan.progress))
    if (folder / "news/xsum_outputs.jsonl.gz").is_file():
        outputs = benchmark.read_systems("xsum", folder, limit=plan.limits["benchmark"])
        add("benchmark", outputs.name, benchmark.benchmark(outputs, plan.metrics, plan.store, plan.progress))
    if (folder / "news/cnndm_simcls_outputs.jsonl.gz").is_file():
        texts = corruption.read_outputs("simcls", folder, limit=plan.limits["corruption"])
        add("corruption", texts[0], _corrupt(*texts, plan))
    if not results:
        raise InputError(
            f"{folder} has none of the sets that are known: see the README of the meta-evaluation."
        )
    return results


def run_on_table(data: str, columns: Columns, question: str | None, plan: Plan) -> Results:
    """Every study that one table of judged summaries allows."""
    judgements = read_judgements(data, question, None, columns)
    scored = agreement.score_judgements([judgements], plan.metrics, plan.store, plan.progress)
    limit = plan.limits["corruption"]
    results: Results = {
        "human": {scored.name: scored},
        "profile": {scored.name: _profile(judgements, plan)},
        "corruption": {
            scored.name: _corrupt(
                scored.name, judgements.summaries[:limit], judgements.references[:limit], plan
            )
        },
    }
    outputs = _by_system(judgements, plan.limits["benchmark"])
    if outputs:
        results["benchmark"] = {
            scored.name: benchmark.benchmark(outputs, plan.metrics, plan.store, plan.progress)
        }
    for kind, by_name in results.items():
        for name, result in by_name.items():
            plan.keep(kind, name, result)
    return results


def _profile(judgements: Judgements, plan: Plan) -> dict[str, Any]:
    limit = plan.limits["profile"]
    examples = make_examples(
        judgements.summaries[:limit],
        judgements.references[:limit],
        judgements.sources[:limit] if judgements.sources else None,
    )
    return profiling.profile(plan.metrics, examples, plan.store, plan.fresh, plan.progress)


def _corrupt(name: str, summaries: list[str], references: list[Any], plan: Plan) -> dict[str, Any]:
    return corruption.corruption_study(
        name, summaries, references, plan.metrics, plan.store,
        refill=plan.refill, refill_name=plan.refill_name, progress=plan.progress,
    )  # fmt: skip


def _by_system(judgements: Judgements, limit: int) -> benchmark.Outputs | None:
    """The summaries side by side, for the inputs that every system has summarised; None if there are no two."""
    found: dict[str, dict[str, int]] = {}
    for row, (system, one) in enumerate(zip(judgements.systems, judgements.inputs, strict=True)):
        found.setdefault(system, {})[one] = row
    common = [one for one in dict.fromkeys(judgements.inputs) if all(one in rows for rows in found.values())]
    if len(found) < 2 or len(common) < 2:
        return None
    rows = [next(iter(found.values()))[one] for one in common[:limit]]
    return benchmark.Outputs(
        judgements.name,
        [judgements.references[row] for row in rows],
        {system: [judgements.summaries[own[one]] for one in common[:limit]] for system, own in found.items()},
    )


def keeper(folder: str | None, order: Sequence[str] | None = None) -> Callable[[str, str, Any], None]:
    """Writes every result to `folder`, if there is one. With an `order` of metrics what is there already stays, but for
    the metrics that were computed again."""
    kept = load_results(folder) if folder and order is not None else {}

    def keep(kind: str, name: str, result: Any) -> None:
        if folder:
            old = kept.get(kind, {}).get(name)
            save_result(
                folder,
                kind,
                name,
                result if old is None or kind == "sweep" else merged(old, result, order or ()),
            )

    return keep


# --- the report ---------------------------------------------------------------------------------------------


def sections(results: Results, plots: bool = False, coefficient: str = "spearman") -> list[Section]:
    """The whole report from the numbers of the studies."""
    found: list[Section] = []
    for scored in results.get("human", {}).values():
        studies = [agreement.analyse(scored, question, coefficient) for question in scored.human]
        found.append(agreement.section(scored, studies, plots))
    for scored in results.get("sweep", {}).values():
        found.append(sweep.section(scored, plots))
    for scored in results.get("paraphrase", {}).values():
        found.append(paraphrase.section(scored, paraphrase.analyse_pairs(scored), plots))
    for result in results.get("corruption", {}).values():
        found.append(corruption.section(result))
    for result in results.get("benchmark", {}).values():
        found.append(benchmark.section(result, plots))
    for name, result in results.get("profile", {}).items():
        part = profiling.section(result)
        scored = results.get("human", {}).get(name)
        if plots and scored is not None:
            part.figures.append(_cost_against_agreement(scored, result))
        found.append(part)
    found.append(_signatures(results))
    return found


def _cost_against_agreement(scored: Scored, profile: Mapping[str, Any]) -> tuple[str, str]:
    from summarily.metrics.meta_evaluation.correlation import correlate

    question, human = next(iter(scored.human.items()))
    inputs = list(map(str, scored.inputs))
    level = "input" if len(set(inputs)) < len(inputs) else "pooled"
    points = {}
    for label, column in scored.columns.items():
        cost = _cost_of(label, profile["metrics"])
        kept = [row for row, value in enumerate(column) if not math.isnan(value)]
        if cost is None or not kept:
            continue
        rho = correlate(
            [column[row] for row in kept],
            [human[row] for row in kept],
            level,
            "spearman",
            [inputs[row] for row in kept],
        ).value
        if not math.isnan(rho):
            points[label] = (cost, rho)
    caption = f"Run-time against agreement on {scored.name} ({question}, {level} level)"
    return caption, reports.scatter(points, "CPU seconds per 1,000 summaries", "spearman with people")


def _cost_of(label: str, costs: Mapping[str, Mapping[str, float]]) -> float | None:
    """The seconds of the metric that a value is of."""
    owner = owner_of(label, list(costs))
    return None if owner is None else costs[owner]["cpu_seconds_per_1000"]


def _signatures(results: Results) -> Section:
    lines: dict[str, None] = {}
    for by_name in results.values():
        for result in by_name.values():
            found = result.signatures if isinstance(result, Scored) else result["signatures"]
            lines.update(dict.fromkeys(found.values()))
    rows = [[line] for line in lines]
    return Section("Signatures", tables=[reports.Table("What exactly was computed", ["signature"], rows)])
