"""The part of an `evaluate` module that all our metrics share.

A module is a few lines (see `metrics/rouge/rouge.py`): it names its metric. Inputs are checked by the same
code as everywhere else before `evaluate` stores them, a reference may be a string or a list of strings, and
sources are optional.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
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
Examples:
    >>> import evaluate
    >>> metric = evaluate.load("summarily/{name}")
    >>> results = metric.compute(
    ...     predictions=["Ann Berg flew to Oslo on Monday."], references=["On Monday Ann Berg flew to Oslo."]
    ... )
    >>> round(results["{key}"], 2)
    {score}
"""


_computing = Lock()
"""Of all modules, for `evaluate` keeps what was added in the module and pickles it."""


class EvaluateModule(evaluate.Metric):
    """Base of our `evaluate` modules; a subclass sets `metric_name`, and what the example of its docstring scores."""

    metric_name: ClassVar[str]
    example_score: ClassVar[tuple[str, float]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = f"{metric_class(cls.metric_name).summary}\n{cls.inputs()}"
        cls._compute = _with_named_options(cls._compute, metric_class(cls.metric_name))  # type: ignore[method-assign]

    @classmethod
    def inputs(cls) -> str:
        """What `compute` takes and gives, with an example."""
        key, score = cls.example_score
        return _INPUTS.format(name=cls.metric_name, key=key, score=score)

    def translated(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options by the names of evaluate's own module, if there is one, as the metric has them."""
        return options

    def shaped(self, result: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """The result, with what evaluate's own module would return for these `options` besides."""
        return result

    def _info(self) -> evaluate.MetricInfo:
        metric = metric_class(self.metric_name)
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=metric.summary,
            citation=metric.citation,
            inputs_description=self.inputs(),
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
        self,
        *,
        prediction: Any = None,
        reference: Any = None,
        source: Any = None,
        predictions: Any = None,
        references: Any = None,
        sources: Any = None,
        **others: Any,
    ) -> None:
        """Add one prediction, with its reference or list of references; evaluate says `predictions` of one, too."""
        pairs = {
            "predictions": (prediction, predictions),
            "references": (reference, references),
            "sources": (source, sources),
        }
        for name, (one, other) in pairs.items():
            if one is not None and other is not None:
                raise InputError(f"{name[:-1]} and {name} are both given, and mean the same; leave one out.")
        inputs = {name: one if other is None else other for name, (one, other) in pairs.items()}
        rows = {
            name: None if value is None and name == "sources" else [value] for name, value in inputs.items()
        }
        self.add_batch(**rows, **others)

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
        metric = load(self.metric_name, **{"preset": preset, **self.translated(options)})
        if any(sources) and not all(sources):
            row = next(row for row, source in enumerate(sources) if not source)
            raise InputError(
                f"sources[{row}] is missing while other rows have one; give all sources or none."
            )
        documents = [source[0] for source in sources] if any(sources) else None
        return self.shaped(result_of(metric, predictions, references, documents, confidence), options)


def _with_named_options(compute: Callable[..., Any], metric: type[Metric]) -> Callable[..., Any]:
    """`_compute` whose signature names the options of its metric in the place of `**options`."""
    signature = inspect.signature(compute)
    named = {name: one for name, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD}
    for name, option in list(inspect.signature(metric.__init__).parameters.items())[1:]:
        named.setdefault(name, option.replace(kind=option.KEYWORD_ONLY))

    @functools.wraps(compute)
    def _compute(self: EvaluateModule, *arguments: Any, **options: Any) -> Any:
        return compute(self, *arguments, **options)

    _compute.__signature__ = signature.replace(parameters=list(named.values()))  # type: ignore[attr-defined]
    return _compute


def _without_what_is_missing(add: Callable[..., None]) -> Callable[..., None]:
    """`add` or `add_batch` of `evaluate.combine`, which asks for every input of a module, optional ones too."""

    @functools.wraps(add)
    def combined(self: Any, *arguments: Any, **inputs: Any) -> None:
        given = inspect.signature(add).bind(self, *arguments, **inputs)
        prediction, reference = (given.arguments.get(name) for name in list(given.signature.parameters)[1:3])
        batch = {"predictions": prediction, "references": reference, **given.arguments.get("kwargs", {})}
        for module in self.evaluation_modules:
            known = {name: batch[name] for name in module._feature_names() if name in batch}
            getattr(module, add.__name__)(**known)

    combined.of_summarily = True  # type: ignore[attr-defined]
    return combined


for _name in ("add", "add_batch"):
    _method = getattr(evaluate.CombinedEvaluations, _name)
    if not hasattr(_method, "of_summarily"):
        setattr(evaluate.CombinedEvaluations, _name, _without_what_is_missing(_method))


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
