"""ROUGE as an `evaluate` module: `evaluate.load("summarily/rouge")`; it takes the options of evaluate's own, too."""

from summarily.metrics import evaluate_module

RENAMED = {"use_stemmer": "stemmer", "rouge_types": "types"}


class Rouge(evaluate_module.EvaluateModule):
    metric_name = "rouge"
    example_score = "rouge1", 1.0

    def translated(self, options):
        given = {
            name: value for name, value in options.items() if name != "use_aggregator" and value is not None
        }
        return {RENAMED.get(name, name): value for name, value in given.items()}

    def shaped(self, result, options):
        if options.get("use_aggregator", True):
            return result
        return {key: result.get(f"{key}_per_example", value) for key, value in result.items()}
