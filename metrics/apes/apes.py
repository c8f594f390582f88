"""APES as an `evaluate` module: `evaluate.load("apes")`."""

from typing import Any

from summarily.metrics import evaluate_module
from summarily.metrics.apes.scorer import either


class Apes(evaluate_module.EvaluateModule):
    metric_name = "apes"
    example_score = "apes", 100.0

    def add_batch(self, *, questions: Any = None, references: Any = None, **inputs: Any) -> None:
        """Add a batch of predictions with their references, or with ready questions."""
        super().add_batch(references=either(references, questions), **inputs)

    def compute(self, *, questions: Any = None, references: Any = None, **inputs: Any) -> Any:
        """Score what was added, and the predictions given here with their references or ready questions."""
        if questions is not None:
            references = either(references, questions)
        return super().compute(references=references, **inputs)
