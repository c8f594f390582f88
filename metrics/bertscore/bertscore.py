"""BERTScore as an `evaluate` module: `evaluate.load("summarily/bertscore")`."""

from summarily.metrics import evaluate_module


class Bertscore(evaluate_module.EvaluateModule):
    metric_name = "bertscore"
    example_score = "bertscore", 0.97
