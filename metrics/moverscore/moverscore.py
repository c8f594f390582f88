"""MoverScore as an `evaluate` module: `evaluate.load("moverscore")`."""

from summarily.metrics import evaluate_module


class Moverscore(evaluate_module.EvaluateModule):
    metric_name = "moverscore"
    example_score = "moverscore", 0.94
