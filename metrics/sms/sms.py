"""SMS (sentence mover's similarity) as an `evaluate` module: `evaluate.load("sms")`."""

from summarily.metrics import evaluate_module


class Sms(evaluate_module.EvaluateModule):
    metric_name = "sms"
    example_score = "sms", 1.0
