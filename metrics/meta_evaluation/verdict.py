"""Which metric to trust on these data, in a sentence, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from summarily.metrics.meta_evaluation.reports import bracket, number
from summarily.metrics.meta_evaluation.significance import bootstrap

_LEVELS = {
    "input": "among the summaries of one input",
    "pooled": "over all summaries",
    "system": "over the systems",
}


@dataclass(frozen=True)
class Verdict:
    """The value that agrees best with people, how often it does so when the data are drawn again, and its rivals.

    Example:
        >>> found = Verdict("input", "sms", 0.6, (0.5, 0.7), 0.97, others=2)
        >>> found.sentence()
        'Trust sms: its correlation with people is 0.600 (0.500 to 0.700) among the summaries of one input. Of 3 values it comes first in 97% of the draws when the inputs are drawn again.'
    """

    level: str
    best: str | None
    """None if no correlation is defined."""
    value: float = math.nan
    bounds: tuple[float, float] = (math.nan, math.nan)
    share: float = 0.0
    rivals: dict[str, float] = field(default_factory=dict)
    """Other values that these data cannot tell from the best at 5% (Bonferroni, all pairs), with their correlations."""
    others: int = 0
    """How many values it was compared with."""
    resample: str = "inputs"
    """What was drawn again: inputs, systems or both."""
    controls: dict[str, float] = field(default_factory=dict)
    """What agrees with people without reading a reference, such as length."""

    @property
    def holds(self) -> bool:
        """Whether the best agrees with people at all, beyond chance."""
        return self.best is not None and self.bounds[0] > 0

    def sentence(self) -> str:
        """The answer."""
        if self.best is None:
            return "No verdict: no metric's correlation with people is defined on these data."
        what = (
            f"correlation with people is {number(self.value)} ({bracket(*self.bounds)}) {_LEVELS[self.level]}"
        )
        if not self.holds:
            return (
                f"Trust none yet: the highest {what}, of {self.best}, and may be chance; more summaries have to be "
                "judged."
            )
        if not self.others:
            return f"Trust {self.best}: its {what}. Nothing else was asked."
        drawn = "inputs and systems" if self.resample == "both" else self.resample
        how_often = f"Of {self.others + 1} values it comes first in {self.share:.0%} of the draws when the {drawn} are drawn again"
        if self.rivals:
            named = [f"{label} {number(value)}" for label, value in self.rivals.items()]
            rest = f" and {len(named) - 3} more" if len(named) > 3 else ""
            how_often += f"; these data cannot tell it from {', '.join(named[:3])}{rest}"
        return f"Trust {self.best}: its {what}. {how_often}."

    def advice(self, baseline: str) -> list[str]:
        """What to report, and what to beware of."""
        if not self.holds:
            return []
        beside = (
            "" if baseline == self.best else f", and {baseline} beside it, for comparison with other work"
        )
        found = [f"Report {self.best} with its interval and signature{beside}."]
        if self.others:
            found.append(
                f"How often {self.best} comes first says how stable the answer is on these data, on which it was chosen; it "
                "is not the chance that it is the best on others."
            )
        found += [
            f"Beware: {name} has {number(value)} without reading a reference. What people rewarded here may be that, and "
            "what the metric measures too."
            for name, value in self.controls.items()
            if value >= self.value
        ]
        return found


def judge(
    level: str,
    columns: Mapping[str, Sequence[float]],
    values: Mapping[str, float],
    bounds: Mapping[str, tuple[float, float]],
    human: Sequence[float],
    inputs: Sequence[str],
    systems: Sequence[str],
    name: str,
    resample: str,
    resamples: int,
    controls: dict[str, float] | None = None,
) -> Verdict:
    """Draw the data again and again, all metrics together, and see which comes out first.

    Args:
        values, bounds: the correlation of every column with people at this level, and its interval.
        name, resample, resamples: as for `bootstrap`.
        controls: correlations of what needs no reference.
    """
    labels = [label for label in columns if not math.isnan(values[label])]
    if not labels:
        return Verdict(level, None)
    best = max(labels, key=lambda label: values[label])
    if math.isnan(sum(bounds[best])):
        return Verdict(level, None)
    drawn = bootstrap(
        [columns[label] for label in labels], human, inputs, systems, level, name, resample, resamples
    )
    drawn = np.nan_to_num(drawn, nan=-2.0)  # below every correlation
    first = drawn[labels.index(best)]
    # The best was chosen on the same data, so every pair was compared.
    tail = 0.025 / max(1, len(labels) * (len(labels) - 1) // 2)
    rivals = {
        label: values[label]
        for label, row in zip(labels, drawn, strict=True)
        if label != best and np.quantile(first - row, tail) <= 0
    }
    return Verdict(
        level,
        best,
        values[best],
        bounds[best],
        float(np.mean(first >= drawn.max(axis=0) - 1e-12)),
        dict(sorted(rivals.items(), key=lambda one: -one[1])),
        len(labels) - 1,
        resample,
        controls or {},
    )
