"""WMS (word mover's similarity) as an `evaluate` module: `evaluate.load("wms")`."""

from summarily.metrics import evaluate_module


class Wms(evaluate_module.EvaluateModule):
    metric_name = "wms"
    example_score = "wms", 1.0
