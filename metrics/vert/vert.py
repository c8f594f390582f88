"""VERT as an `evaluate` module: `evaluate.load("vert")`."""

from summarily.metrics import evaluate_module


class Vert(evaluate_module.EvaluateModule):
    metric_name = "vert"
    example_score = "vert", 1.0
