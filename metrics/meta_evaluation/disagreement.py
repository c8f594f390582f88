"""Where metrics disagree: the examples worth reading, `summarily meta disagree`.

Scores are not comparable between metrics, ranks are: an example's place among all, from 0 to 1. Four groups are
shown: both high, both low (the thesis' Tables A.1 and A.2), and one high where the other is low (A.3 and A.4). Scores in
the top quarter of their metric are marked high, those in the bottom quarter low (the sentence mover's Table 3).
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from summarily.metrics.meta_evaluation.reports import page
from summarily.support.errors import InputError

HUMAN = "people"


def places(values: Sequence[float]) -> np.ndarray:
    """Each value's place among all, from 0 (lowest) to 1; ties share the middle; NaN has none.

    Example:
        >>> places([3.0, 1.0, 2.0]).tolist()
        [1.0, 0.0, 0.5]
    """
    from scipy.stats import rankdata

    array = np.asarray(values, dtype=float)
    found = np.full(len(array), np.nan)
    kept = ~np.isnan(array)
    if kept.sum() > 1:
        found[kept] = (rankdata(array[kept]) - 1) / (kept.sum() - 1)
    return found


@dataclass(frozen=True)
class Group:
    """Examples of one kind, the most extreme first."""

    title: str
    rows: list[int]


def disagreements(
    columns: Mapping[str, Sequence[float]], first: str, second: str, share: float = 0.01
) -> list[Group]:
    """The rows where two columns agree on high or low, and where they differ most: a share of all in each group.

    Example:
        >>> columns = {"a": [1, 2, 3, 4], "b": [4, 2, 3, 1]}
        >>> [(group.title, group.rows) for group in disagreements(columns, "a", "b", 0.25)][2:]
        [('high by a, low by b', [3]), ('low by a, high by b', [0])]
    """
    for label in (first, second):
        if label not in columns:
            raise InputError(f"there are no scores of {label!r}; there are: {', '.join(columns)}.")
    if not 0 < share <= 0.5:
        raise InputError(f"the share is {share}; expected a number above 0, at most 0.5.")
    a, b = places(columns[first]), places(columns[second])
    both = np.flatnonzero(~np.isnan(a) & ~np.isnan(b))
    if len(both) < 4:
        raise InputError(f"{len(both)} examples have both scores; at least 4 are needed to call any extreme.")
    n = max(1, round(share * len(both)))

    def top(measure: np.ndarray) -> list[int]:
        return [int(row) for row in both[np.argsort(-measure[both], kind="stable")[:n]]]

    return [
        Group(f"high by {first} and {second}", top(np.minimum(a, b))),
        Group(f"low by {first} and {second}", top(1 - np.maximum(a, b))),
        Group(f"high by {first}, low by {second}", top(a - b)),
        Group(f"low by {first}, high by {second}", top(b - a)),
    ]


def quarter(place: float) -> str:
    """ "high" in the top quarter, "low" in the bottom one, else nothing."""
    return "high" if place >= 0.75 else "low" if place <= 0.25 else ""


@dataclass
class Reading:
    """The examples of every group with their texts and scores, ready to be read."""

    title: str
    groups: list[Group]
    columns: Mapping[str, Sequence[float]]
    references: Sequence[Sequence[str]]
    summaries: Sequence[str]
    names: Sequence[str]

    def __post_init__(self) -> None:
        self.places = {label: places(column) for label, column in self.columns.items()}

    def scores(self, row: int) -> list[tuple[str, float, str]]:
        """Label, score and mark of each metric that scores this row."""
        return [
            (label, column[row], quarter(self.places[label][row]))
            for label, column in self.columns.items()
            if not math.isnan(column[row])
        ]

    def text(self) -> str:
        """For the terminal."""
        lines = [self.title, "(high): in the top quarter of its metric; (low): in the bottom quarter"]
        for group in self.groups:
            lines += ["", f"== {group.title}"]
            for row in group.rows:
                lines += ["", f"-- {self.names[row]}", f"reference: {self.references[row][0]}"]
                lines += [f"summary:   {self.summaries[row]}"]
                marked = [
                    f"{label} {value:.3f}{mark and f' ({mark})'}" for label, value, mark in self.scores(row)
                ]
                lines += ["scores:    " + ", ".join(marked)]
        return "\n".join(lines)

    def html(self) -> str:
        """A page of its own."""
        parts = ["<p class=note>green: in the top quarter of its metric; red: in the bottom quarter</p>"]
        for group in self.groups:
            parts.append(f"<h2>{html.escape(group.title)}</h2>")
            for row in group.rows:
                scores = ", ".join(
                    f"<span class='{mark}'>{html.escape(label)} {value:.3f}</span>"
                    for label, value, mark in self.scores(row)
                )
                parts.append(
                    f"<h3>{html.escape(self.names[row])}</h3><p><b>Reference.</b> {html.escape(self.references[row][0])}</p>"
                    f"<p><b>Summary.</b> {html.escape(self.summaries[row])}</p><p>{scores}</p>"
                )
        return page(self.title, [], "\n".join(parts))
