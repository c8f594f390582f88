"""Which metric for whom, in words and numbers, from results that were kept: `summarily meta recommend`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from summarily.metrics.meta_evaluation import reports
from summarily.metrics.meta_evaluation.agreement import LENGTH
from summarily.metrics.meta_evaluation.correlation import correlate, partial
from summarily.metrics.meta_evaluation.corruption import summary_of
from summarily.metrics.meta_evaluation.everything import _cost_of
from summarily.metrics.meta_evaluation.paraphrase import analyse_pairs
from summarily.metrics.meta_evaluation.reports import number
from summarily.metrics.meta_evaluation.scores import Scored
from summarily.metrics.meta_evaluation.significance import bootstrap, interval, resampling_for
from summarily.support.errors import InputError

STORED = Path(__file__).parent / "stored"
"""The results that come with the package: numbers only."""

CHEAP = 2.0
"""CPU seconds per 1,000 summaries that a metric may cost where there is no time."""
_RESAMPLES = 1000


@dataclass(frozen=True)
class Ranking:
    """One purpose: how every metric does, the best one, and those that the data cannot tell from it."""

    purpose: str
    measure: str
    values: dict[str, float]
    bounds: dict[str, tuple[float, float]]
    best: str
    equal: list[str]
    beyond_length: Ranking | None = None
    """The same with the number of words of the summaries held fixed, where it is known."""

    def sentence(self, costs: Mapping[str, Mapping[str, float]]) -> str:
        low, high = self.bounds[self.best]
        text = f"**{self.purpose}** `{self.best}`: {self.measure} {number(self.values[self.best])}"
        if not math.isnan(low + high):
            text += f" ({number(low)} to {number(high)})"
        if self.equal:
            named = ", ".join(f"`{label}` {number(self.values[label])}" for label in self.equal)
            text += f"; not told apart from it at 5%: {named}"
        else:
            text += "; on these data better than every other at 5%"
        cost = _cost_of(self.best, costs)
        text += f". It costs {cost:.1f} CPU seconds per 1,000 summaries." if cost is not None else "."
        if self.beyond_length is not None:
            text += " " + self.beyond_length._beyond(self.best)
        return text

    def _beyond(self, first: str) -> str:
        """What becomes of the first where length counts for nothing."""
        low, high = self.bounds[self.best]
        what = f"{number(self.values[self.best])} ({number(low)} to {number(high)})"
        if self.best == first:
            return f"With the summary's length held fixed it is still first: {what}."
        apart = "" if first in self.equal else ", told apart from it at 5%"
        return (
            f"With the summary's length held fixed `{self.best}` is first: {what}; "
            f"`{first}` has {number(self.values[first])}{apart}."
        )


def rank_by_people(
    sets: Sequence[tuple[Scored, str]], level: str, purpose: str, only: Sequence[str] | None = None
) -> Ranking:
    """Metrics by their mean Spearman correlation with people over several sets; each set is resampled by itself."""
    labels = [label for label in sets[0][0].columns if all(label in scored.columns for scored, _ in sets)]
    if only is not None:
        labels = [label for label in labels if label in only]
    values, draws = [], []
    fixed_values, fixed_draws = [], []
    for number_, (scored, question) in enumerate(sets):
        human = scored.human[question]
        inputs, systems = list(map(str, scored.inputs)), list(map(str, scored.systems))
        columns = [np.array(scored.columns[label]) for label in labels]
        values.append([_correlation(column, human, level, inputs, systems) for column in columns])
        resample = resampling_for(len(scored.system_names))

        def drawn(of: Sequence[ArrayLike], other: Sequence[float]) -> np.ndarray:
            return bootstrap(of, other, inputs, systems, level, "spearman", resample, _RESAMPLES, number_)  # noqa: B023

        draws.append(drawn(columns, human))
        length = scored.controls.get(LENGTH)
        if length is not None and level == "input":
            of_length = [_correlation(column, length, level, inputs, systems) for column in columns]
            of_people = _correlation(np.array(human), length, level, inputs, systems)
            fixed_values.append(partial(values[-1], of_length, of_people))
            fixed_draws.append(partial(draws[-1], drawn(columns, length), drawn([human], length)))
    what = "mean Spearman correlation" if len(sets) > 1 else "Spearman correlation"
    where = ", ".join(f"{scored.name} {question}" for scored, question in sets)
    measure = f"{what} ({level} level; {where})"
    found = _ranking(purpose, measure, labels, np.mean(values, 0), np.mean(draws, 0))
    if len(fixed_values) < len(sets):
        return found
    fixed = _ranking(purpose, measure, labels, np.mean(fixed_values, 0), np.mean(fixed_draws, 0))
    return replace(found, beyond_length=fixed)


def _correlation(
    column: np.ndarray, human: Sequence[float], level: str, inputs: Sequence[str], systems: Sequence[str]
) -> float:
    rows = np.flatnonzero(~np.isnan(column)).tolist()
    return correlate(
        column[rows],
        np.array(human)[rows],
        level,
        "spearman",
        [inputs[r] for r in rows],
        [systems[r] for r in rows],
    ).value


def _ranking(
    purpose: str, measure: str, labels: Sequence[str], values: np.ndarray, draws: np.ndarray
) -> Ranking:
    if np.isnan(values).all():
        raise InputError(f"nothing is defined for: {purpose}")
    best = int(np.nanargmax(values))
    equal = [
        label
        for i, label in enumerate(labels)
        if i != best and not math.isnan(values[i]) and not interval(draws[best] - draws[i]).low > 0
    ]
    equal.sort(key=lambda label: -values[labels.index(label)])
    return Ranking(
        purpose,
        measure,
        {label: float(value) for label, value in zip(labels, values, strict=True)},
        {label: tuple(interval(draw)[:2]) for label, draw in zip(labels, draws, strict=True)},  # type: ignore[misc]
        labels[best],
        equal,
    )


def rank_by_paraphrase(scored: Scored, purpose: str) -> Ranking:
    """Metrics by their Spearman correlation with the label of sentence pairs."""
    # A metric that leaves out a tenth of the pairs is not measured on the same task.
    rows = [row for row in analyse_pairs(scored, resamples=2) if row.missing <= len(scored) / 10]
    labels = [row.label for row in rows]
    n = len(scored)
    draws = bootstrap(
        [scored.columns[label] for label in labels],
        scored.human["label"], list(map(str, range(n))), ["pairs"] * n, "pooled", "spearman", "inputs", 400,
    )  # fmt: skip
    values = np.array([row.correlations["spearman"] for row in rows])
    return _ranking(purpose, f"Spearman correlation with the label ({scored.name})", labels, values, draws)


def rank_by_corruption(result: Mapping[str, Any], purpose: str) -> Ranking:
    """Metrics by the share of damaged summaries that they score below the clean one, over all kinds."""
    labels = [
        label
        for label, kinds in result["metrics"].items()
        if all(run["n"] >= 0.9 * result["n"] for runs in kinds.values() for run in runs)
    ]
    shares = np.array(
        [
            np.mean([summary_of(runs)["accuracy"] / 100 for runs in result["metrics"][label].values()])
            for label in labels
        ]
    )
    # Summaries are the sample; the seeds and kinds of one summary are not independent of each other.
    errors = np.sqrt(shares * (1 - shares) / result["n"])
    noise = np.random.default_rng(0).normal(size=(len(labels), _RESAMPLES))
    draws = shares[:, None] + errors[:, None] * noise
    kinds = ", ".join(next(iter(result["metrics"].values())))
    return _ranking(
        purpose, f"share of damaged summaries noticed ({result['name']}; {kinds})", labels, shares, draws
    )


ASKED_ABOUT_CONTENT = (
    ("chaganty_dev", "overall"),
    ("summeval", "relevance"),
    ("realsumm", "litepyramid_recall"),
)
"""The sets and questions that metrics are chosen by."""


def _about_content(results: Mapping[str, Mapping[str, Any]]) -> list[tuple[Scored, str]]:
    human = results.get("human", {})
    return [(human[name], question) for name, question in ASKED_ABOUT_CONTENT if name in human]


def _costs(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    profiles = list(results.get("profile", {}).values())
    return profiles[0]["metrics"] if profiles else {}


def picture(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Mean agreement with people about content against what a metric costs, as SVG; of ROUGE the unigrams."""
    sets, costs = _about_content(results), _costs(results)
    if not sets or not costs:
        raise InputError("a picture of agreement against cost needs judged summaries and a profile.")
    labels = [label for label in sets[0][0].columns if all(label in scored.columns for scored, _ in sets)]
    points = {}
    for label in labels:
        cost = _cost_of(label, costs)
        if cost is None or label.startswith(("rouge2", "rougeL")):
            continue
        found = [
            _correlation(
                np.array(scored.columns[label]),
                scored.human[question],
                "input",
                list(map(str, scored.inputs)),
                list(map(str, scored.systems)),
            )
            for scored, question in sets
        ]
        points[label] = (cost, float(np.mean(found)))
    sets_named = f"mean of {len(sets)} sets" if len(sets) > 1 else sets[0][0].name
    return reports.scatter(
        points,
        "CPU seconds per 1,000 summaries",
        f"Spearman correlation with people by article, {sets_named}",
    )


def recommend(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The recommendation as Markdown."""
    human, costs, main = results.get("human", {}), _costs(results), _about_content(results)
    rankings: list[Ranking] = []
    if main:
        rankings.append(rank_by_people(main, "input", "To choose between summaries of one article:"))
        many = [pair for pair in main if len(pair[0].system_names) >= 8]
        if many:
            rankings.append(rank_by_people(many, "system", "To rank systems:"))
        cheap = [label for label in main[0][0].columns if (_cost_of(label, costs) or math.inf) <= CHEAP]
        if cheap:
            rankings.append(
                rank_by_people(
                    main,
                    "input",
                    f"Where a metric may cost {CHEAP:g} CPU seconds per 1,000 summaries at most:",
                    cheap,
                )
            )
    if "summeval" in human:
        for question in ("coherence", "consistency", "fluency"):
            if question in human["summeval"].human:
                purpose = f"To judge {question} of summaries of one article:"
                rankings.append(rank_by_people([(human["summeval"], question)], "input", purpose))
    for scored in results.get("paraphrase", {}).values():
        rankings.append(rank_by_paraphrase(scored, "To see that two sentences say the same:"))
    for result in results.get("corruption", {}).values():
        rankings.append(rank_by_corruption(result, "To notice damaged text:"))
    if not rankings:
        raise InputError(
            "there are no results of judged summaries, paraphrases or corruption to recommend from."
        )
    return "\n".join(f"- {ranking.sentence(costs)}" for ranking in rankings) + "\n"
