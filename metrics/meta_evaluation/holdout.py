"""What people's own summaries score: each reference of a text against the others (Krantz and Kalita 2018, Table 2).

A metric's score means little by itself; this is what to hold it against. `summarily meta holdout DATA`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from summarily.metrics.base import Example, Metric
from summarily.metrics.meta_evaluation.human import Judgements
from summarily.metrics.meta_evaluation.reports import Section, Table, bracket, number
from summarily.metrics.meta_evaluation.scores import ScoreStore
from summarily.metrics.resampling import mean_intervals
from summarily.support.errors import InputError


def holdout(
    judgements: Judgements,
    metrics: Mapping[str, Metric],
    store: ScoreStore | None = None,
    progress: bool | None = None,
) -> Table:
    """The mean of every value over people's summaries, each held out once, and over systems' summaries of the same
    texts, which are shown as many references: all but one, each left out in turn.

    Example:
        >>> from summarily.metrics import load
        >>> judged = Judgements("mine", "human")
        >>> for text in ("a cat sat", "a dog ran", "no"):
        ...     judged.add(text, ["a cat sat down", "the cat sat"], 1.0, "article", text)
        >>> table = holdout(judged, {"wms": load("wms")})
        >>> table.header
        ['value', 'people', '95%', 'systems', '95%', 'systems above people']
    """
    people, systems = _examples(judgements)
    scores = (store or ScoreStore()).score(metrics, [*people.examples, *systems.examples], progress)
    rows = []
    for label, score in scores.items():
        for key in score.ordered:
            values = np.array(score.per_example[key])
            own, theirs = values[: len(people.inputs)], values[len(people.inputs) :]
            by_people, by_systems = people.means(own), systems.means(theirs)
            shared = np.array(
                [key.goodness(by_systems[one]) > key.goodness(by_people[one]) for one in by_people]
            )
            cells = [score.label(key, label)]
            for means in (by_people, by_systems):
                column = list(means.values())
                ends = mean_intervals({"": column})[""] if len(column) > 1 else (np.nan, np.nan)
                cells += [number(float(np.mean(column))), bracket(*ends)]
            rows.append([*cells, f"{100 * shared.mean():.0f}%"])
    return Table(
        f"{judgements.name}: what people's own summaries score",
        ["value", "people", "95%", "systems", "95%", "systems above people"],
        rows,
        f"{len(people.inputs)} summaries by people of {len(set(people.inputs))} texts, each against the others of its text; "
        f"{len(judgements)} by systems, against all but one of them in turn. Means over texts with bootstrap intervals; the "
        "last column is the share of texts whose systems have the better mean.",
    )


class _Held:
    """Examples with the text that each belongs to."""

    def __init__(self) -> None:
        self.examples: list[Example] = []
        self.inputs: list[str] = []

    def add(self, one: str, text: str, references: Sequence[str]) -> None:
        self.examples.append(Example(text, tuple(references)))
        self.inputs.append(one)

    def means(self, values: np.ndarray) -> dict[str, float]:
        """By text."""
        found: dict[str, list[float]] = {}
        for one, value in zip(self.inputs, values.tolist(), strict=True):
            found.setdefault(one, []).append(value)
        return {one: float(np.mean(own)) for one, own in found.items()}


def _examples(judgements: Judgements) -> tuple[_Held, _Held]:
    people, systems = _Held(), _Held()
    seen: dict[str, int] = {}
    rows = zip(judgements.inputs, judgements.summaries, judgements.references, strict=True)
    for one, summary, references in rows:
        if len(references) < 2:
            continue
        if one not in seen:
            seen[one] = 0
            for i, text in enumerate(references):
                people.add(one, text, [*references[:i], *references[i + 1 :]])
        out = seen[one] % len(references)
        seen[one] += 1
        systems.add(one, summary, [*references[:out], *references[out + 1 :]])
    if not people.examples:
        raise InputError(
            f"no text of {judgements.name} has two references; one must be held out and another left."
        )
    return people, systems


def section(table: Table) -> Section:
    """The part of a report about people's own summaries."""
    return Section("What people's own summaries score", tables=[table])
