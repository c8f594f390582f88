"""BARTScore as an `evaluate` module: `evaluate.load("bartscore")`."""

from summarily.metrics import evaluate_module


class Bartscore(evaluate_module.EvaluateModule):
    metric_name = "bartscore"
    example_score = "bartscore", 0.91
