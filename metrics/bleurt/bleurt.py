"""BLEURT as an `evaluate` module: `evaluate.load("summarily/bleurt")`."""

from summarily.metrics import evaluate_module


class Bleurt(evaluate_module.EvaluateModule):
    metric_name = "bleurt"
    example_score = "bleurt", 0.96
