"""ROUGE as an `evaluate` module: `evaluate.load("summarily/rouge")`."""

from summarily.metrics import evaluate_module


class Rouge(evaluate_module.EvaluateModule):
    metric_name = "rouge"
    example_score = "rouge1", 1.0
