"""`evaluate.evaluator("summarization")`, which evaluate 0.4.6 cannot build beside transformers 5.

    evaluator("summarization").compute(model_or_pipeline="news", data=data, metric="summarily/rouge")

Two things are put right: summarization is a task of ours there, and `strategy="bootstrap"` gives intervals of those
results that are numbers.
"""

from __future__ import annotations

import sys
from numbers import Real
from typing import Any


def register_evaluator() -> None:
    """Make `evaluate.evaluator("summarization")` work. Running it again changes nothing."""
    import transformers
    from transformers import pipelines

    module: Any = sys.modules["evaluate.evaluator"]
    task = module.SUPPORTED_EVALUATOR_TASKS["summarization"]
    stock: Any = task["implementation"]
    if stock.__module__ == __name__:
        return

    class SummarizationEvaluator(stock):
        """A summarizer, or a `pipeline("summarization")`, scored on a dataset by one metric."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            # Stock evaluators write `generation_kwargs` into their class, where the next evaluator finds them.
            self.PIPELINE_KWARGS = dict(stock.PIPELINE_KWARGS)

        def prepare_pipeline(
            self,
            model_or_pipeline: Any,
            tokenizer: Any = None,
            feature_extractor: Any = None,
            device: Any = None,
        ) -> Any:
            """A pipeline of the model, or the one that is given."""
            if isinstance(model_or_pipeline, str | transformers.PreTrainedModel | None):
                device = self._infer_device() if device is None else device
                return transformers.pipeline(
                    self.task, model=model_or_pipeline, tokenizer=tokenizer, device=device
                )
            if getattr(model_or_pipeline, "task", self.task) != self.task:
                raise ValueError(
                    f"a pipeline of the task {model_or_pipeline.task!r} is given; expected one of {self.task!r}."
                )
            return model_or_pipeline

        def compute_metric(
            self,
            metric: Any,
            metric_inputs: dict[str, Any],
            strategy: str = "simple",
            confidence_level: float = 0.95,
            n_resamples: int = 9999,
            random_state: int | None = None,
        ) -> dict[str, Any]:
            """The metric's result; with `strategy="bootstrap"` an interval and a standard error of each number."""
            result = metric.compute(**metric_inputs, **self.METRIC_KWARGS)
            if strategy != "bootstrap":
                return result
            numbers = [key for key, value in result.items() if isinstance(value, Real)]
            found = self._compute_confidence_interval(
                metric, metric_inputs, numbers, confidence_level, n_resamples, random_state
            )
            return {
                key: {**found[key], "score": value} if key in found else value
                for key, value in result.items()
            }

    task["implementation"] = SummarizationEvaluator
    task["default_metric_name"] = "summarily/rouge"  # without the Hub
    # What evaluate looks for in one import with names that transformers no longer has.
    module.SUPPORTED_PIPELINE_TASKS = pipelines.SUPPORTED_TASKS
    module.TASK_ALIASES = pipelines.TASK_ALIASES
    module.check_pipeline_task = pipelines.check_task
    module.TRANSFORMERS_AVAILABLE = True
    base: Any = sys.modules["evaluate.evaluator.base"]
    base.TRANSFORMERS_AVAILABLE = True
