"""The part of an `evaluate` module that all our metrics share.

A module is a few lines (see `metrics/rouge/rouge.py`): it names its metric. Inputs are checked by the same
code as everywhere else before `evaluate` stores them, a reference may be a string or a list of strings, and
sources are optional.
"""

from __future__ import annotations

from typing import Any, ClassVar

import datasets
import evaluate

from summarily.metrics import load, metric_class
from summarily.metrics.base import Metric, make_examples
from summarily.support.errors import InputError
from summarily.support.processes import Lock

_INPUTS = """
Args:
    predictions: list of summaries.
    references: for each prediction its reference, or a list of references.
    sources: optional list of source documents.
    preset: "light" (default: small pinned weights, offline) or "paper" (the paper's models, from the Hub).
    confidence: for example 0.95 to add "<name>_interval".
    Any other keyword is an option of the metric; see its card.
Returns:
    A dict: each value's mean by name, "<name>_per_example" lists, "signature", "counts".
"""


_computing = Lock()
"""Of all modules, for `evaluate` keeps what was added in the module and pickles it."""


class EvaluateModule(evaluate.Metric):
    """Base of our `evaluate` modules; a subclass sets `metric_name`."""

    metric_name: ClassVar[str]

    def _info(self) -> evaluate.MetricInfo:
        metric = metric_class(self.metric_name)
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=metric.summary,
            citation=metric.citation,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": text,
                    "references": datasets.Sequence(text),
                    # A list of one, or empty when there is no source: evaluate has no optional inputs.
                    "sources": datasets.Sequence(text),
                }
            ),
        )

    def add_batch(
        self, *, predictions: Any = None, references: Any = None, sources: Any = None, **others: Any
    ) -> None:
        """Add a batch of predictions, with their references and, if the metric reads them, sources."""
        if others:
            raise InputError(f"unknown inputs {sorted(others)}; expected predictions, references, sources.")
        examples = make_examples(predictions, references, sources)
        super().add_batch(
            predictions=[example.prediction for example in examples],
            references=[list(example.references) for example in examples],
            sources=[[] if example.source is None else [example.source] for example in examples],
        )

    def add(
        self, *, prediction: Any = None, reference: Any = None, source: Any = None, **others: Any
    ) -> None:
        """Add one prediction, with its reference or list of references."""
        sources = None if source is None else [source]
        self.add_batch(predictions=[prediction], references=[reference], sources=sources, **others)

    def compute(
        self, *, predictions: Any = None, references: Any = None, sources: Any = None, **options: Any
    ) -> Any:
        """Score what was added, and the predictions given here. Threads that share a module wait for one another."""
        with _computing:
            return self._scored(predictions, references, sources, options)

    def _scored(self, predictions: Any, references: Any, sources: Any, options: dict[str, Any]) -> Any:
        if predictions is not None or references is not None or sources is not None:
            self.add_batch(predictions=predictions, references=references, sources=sources)
        elif self.writer is None:
            raise InputError(
                "there is nothing to score; pass predictions and references, or call add_batch first."
            )
        return super().compute(predictions=None, references=None, sources=None, **options)

    def _compute(
        self,
        predictions: list[str],
        references: list[list[str]],
        sources: list[list[str]],
        confidence: float | None = None,
        preset: str = "light",
        **options: Any,
    ) -> dict[str, Any]:
        metric = load(self.metric_name, preset=preset, **options)
        if any(sources) and not all(sources):
            row = next(row for row, source in enumerate(sources) if not source)
            raise InputError(
                f"sources[{row}] is missing while other rows have one; give all sources or none."
            )
        documents = [source[0] for source in sources] if any(sources) else None
        return result_of(metric, predictions, references, documents, confidence)


def result_of(
    metric: Metric, predictions: Any, references: Any, sources: Any, confidence: float | None
) -> dict[str, Any]:
    """A metric's score in the form that `evaluate` returns."""
    score = metric.compute(predictions, references, sources, confidence)
    result: dict[str, Any] = dict(score.mean)
    result.update({f"{key}_per_example": values for key, values in score.per_example.items()})
    if score.interval is not None:
        result.update({f"{key}_interval": tuple(interval[:2]) for key, interval in score.interval.items()})
    return {**result, "signature": str(score.signature), "counts": score.counts}
