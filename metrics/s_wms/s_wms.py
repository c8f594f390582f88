"""S+WMS (sentence and word mover's similarity) as an `evaluate` module: `evaluate.load("s_wms")`."""

from summarily.metrics import evaluate_module


class SWms(evaluate_module.EvaluateModule):
    metric_name = "s_wms"
    example_score = "s_wms", 1.0
