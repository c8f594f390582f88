"""`score()`: the scores of one system by many metrics, and their table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from summarily.metrics import load_all
from summarily.metrics.base import Score, make_examples
from summarily.metrics.engine import score_examples
from summarily.metrics.resampling import too_few
from summarily.support.files import write_atomically
from summarily.support.progress import Report
from summarily.support.tables import format_table

if TYPE_CHECKING:
    import pandas


class Scorecard(Mapping[str, Score]):
    """The scores of one set of predictions, by metric.

    Example:
        >>> card = score(["a cat sat"], ["the cat sat"], metrics="rouge")
        >>> round(card["rouge"].mean["rouge1"], 3)
        0.667
    """

    def __init__(self, scores: dict[str, Score], skipped: dict[str, str] | None = None):
        self.scores = scores
        self.skipped = skipped or {}
        """Metrics that "all" left out, with the reason."""

    def __getitem__(self, metric: str) -> Score:
        if metric not in self.scores and metric in self.skipped:
            raise KeyError(f"{metric} was skipped: {self.skipped[metric]}")
        return self.scores[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def table(self, signatures: bool = True) -> str:
        """A text table: each value with its interval, then what was counted, and the signatures."""
        rows = []
        for label, score in self.items():
            means = score.mean
            for key in score.ordered:
                interval = score.interval[key] if score.interval else None
                first, digits = key == score.main, score.digits(key)
                rows.append(
                    [
                        label if first else "",
                        key.label,
                        f"{means[key]:.{digits}f}",
                        f"{interval.low:.{digits}f} to {interval.high:.{digits}f}" if interval else "",
                        *(_cost_cells(score.cost) if first else ("", "", "")),
                    ]
                )
        confidence = next((s.interval[s.main].confidence for s in self.values() if s.interval), None)
        level = f"{100 * confidence:g}% interval" if confidence else ""
        header = ["metric", "value", "mean", level, "seconds", "encoding", "peak MB"]
        lines = [format_table(header, rows, right=range(2, 7))]
        counts = [f"{label}: {name} {n}" for label, s in self.items() for name, n in s.counts.items() if n]
        if confidence and (warning := too_few(len(next(iter(self.values()))))):
            lines += ["", warning]
        if counts:
            lines += ["", "counted", *counts]
        if self.skipped:
            lines += ["", "skipped", *(f"{name}: {reason}" for name, reason in self.skipped.items())]
        if signatures:
            lines += ["", "signatures", *(str(score.signature) for score in self.values())]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "scores": {label: score.to_dict() for label, score in self.items()},
            **({"skipped": self.skipped} if self.skipped else {}),
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """As JSON; with a path, also written there, atomically."""
        return as_json(self.to_dict(), path)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per example, one column per value."""
        import pandas

        keys = [key for score in self.values() for key in score.per_example]
        return pandas.DataFrame(
            {
                (key if keys.count(key) == 1 else f"{label}.{key}"): values
                for label, score in self.items()
                for key, values in score.per_example.items()
            }
        )

    def _repr_html_(self) -> str:
        from summarily.metrics.notebooks import scorecard_html

        return scorecard_html(self)

    def __repr__(self) -> str:
        return f"Scorecard({', '.join(f'{label}: {float(s):.4f}' for label, s in self.items())})"


def _cost_cells(cost: Mapping[str, float]) -> tuple[str, str, str]:
    """Seconds of the metric itself, of the encoder passes it shares with others, and memory on top."""
    if "seconds" not in cost:
        return "", "", ""
    return f"{cost['seconds']:.2f}", f"{cost['shared_seconds']:.2f}", f"{cost['peak_memory'] / 2**20:.0f}"


def as_json(value: dict[str, Any], path: str | os.PathLike[str] | None) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    if path is not None:
        write_atomically(path, text + "\n")
    return text


def score(
    predictions: Any,
    references: Any,
    sources: Any = None,
    metrics: Any = "all",
    preset: str = "light",
    confidence: float | None = None,
    progress: bool | Report | None = None,
    distributed: bool = False,
) -> Scorecard:
    """Score predictions with one or many metrics in one pass.

    Args:
        predictions: a list of summaries.
        references: for each prediction its reference, or a list of references.
        sources: the documents, for metrics that read them.
        metrics: "all" (every metric that can run here; the others are listed in `skipped`), a name, a
            `Metric`, a list of those, or a mapping from a label to a `Metric` or from a name to its options.
        preset: "light" (small pinned weights, offline) or "paper" (the papers' models, from the Hub).
        confidence: for example 0.95 for 95% intervals.
        progress: a progress bar, by default on a terminal only; or a function that is told how many scores are done,
            of how many, and what comes next.
        distributed: split the work over the processes of `accelerate launch`; all get the whole result.

    Example:
        >>> score(["a cat sat"], ["the cat sat"], metrics="rouge")
        Scorecard(rouge: 0.6667)
    """
    chosen, skipped = load_all(metrics, preset)
    examples = make_examples(predictions, references, sources)
    scores = score_examples(
        chosen, examples, confidence=confidence, progress=progress, distributed=distributed
    )
    return Scorecard(scores, skipped)
