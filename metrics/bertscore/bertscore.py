"""BERTScore as an `evaluate` module: `evaluate.load("summarily/bertscore")`; it takes the options of evaluate's own, too."""

from summarily.metrics import evaluate_module
from summarily.support.errors import InputError

RENAMED = {"model_type": "model", "num_layers": "layer"}
# What bert_score 0.3.13 takes for a language.
MODELS = {
    "en": "FacebookAI/roberta-large",
    "zh": "google-bert/bert-base-chinese",
    "tr": "dbmdz/bert-base-turkish-cased",
    "en-sci": "allenai/scibert_scivocab_uncased",
}
MULTILINGUAL = "google-bert/bert-base-multilingual-cased"
# They change how fast bert_score is, and what it prints; here batches are made by size, there is a progress bar, and
# all tokenizers are the fast ones, as they are in transformers 5.
OF_SPEED = ("batch_size", "nthreads", "use_fast_tokenizer", "verbose")
THEIRS = ("lang", "rescale_with_baseline", "baseline_path", "all_layers", *OF_SPEED)


class Bertscore(evaluate_module.EvaluateModule):
    metric_name = "bertscore"
    example_score = "bertscore", 0.98

    def translated(self, options):
        if options.get("all_layers"):
            raise InputError(
                "all_layers=True is not there; `summarily meta sweep` compares the layers of a model."
            )
        given = {name: value for name, value in options.items() if name not in THEIRS and value is not None}
        ours = {RENAMED.get(name, name): value for name, value in given.items()}
        language = options.get("lang")
        if language is not None:
            ours.setdefault("model", MODELS.get(str(language).lower(), MULTILINGUAL))
        if options.get("rescale_with_baseline"):
            ours.setdefault("rescale", options.get("baseline_path") or True)
        return ours

    def shaped(self, result, options):
        lists = {"precision": "bertscore_precision", "recall": "bertscore_recall", "f1": "bertscore"}
        theirs = {name: result[f"{key}_per_example"] for name, key in lists.items()}
        return {**result, **theirs, "hashcode": result["signature"]}
