"""Our metrics inside training: `compute_metrics` for `Trainer`, rewards for reinforcement learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from summarily.metrics import load, load_all
from summarily.metrics.base import Example, Metric, make_examples
from summarily.support.errors import InputError, MissingRequirement, warn
from summarily.support.keys import named


def compute_metrics(
    tokenizer: Any,
    metrics: Any = None,
    preset: str = "light",
    postprocess: Callable[[str], str] | None = None,
    rows: Any = None,
) -> ComputeMetrics:
    """A `compute_metrics` for `Trainer` and `Seq2SeqTrainer`.

    Decodes predictions and labels (-100 is padding), scores the texts, and returns one float per value. Predictions
    must be generated (`predict_with_generate=True`): logits are refused, for each of their tokens was chosen beside
    the right ones before it. With `batch_eval_metrics=True` only texts are kept between batches. An evaluation that is
    interrupted from outside leaves its batches behind; make a new hook then.

    Args:
        tokenizer: the tokenizer (or processor) the model was trained with.
        metrics: as for `summarily.score`; by default BERTScore, whose recall agrees best with people
            (`metric_for_best_model="bertscore_recall"` keeps the best checkpoint by it), and ROUGE. Where BERTScore's
            weights are not installed a warning says so, and ROUGE is left.
        preset: as for `summarily.score`.
        postprocess: applied to each decoded text, for example `str.strip`.
        rows: the evaluation set as the trainer gets it. A model that copies words beyond its vocabulary needs it, with
            the column `unknown_words` of its tokenizer's encoding; the trainer hands on ids alone. Its labels tell
            whether the rows come in this order.

    Example:
        >>> import summarily
        >>> from transformers import AutoTokenizer, EvalPrediction
        >>> tokenizer = AutoTokenizer.from_pretrained(summarily.checkpoint("headlines"))
        >>> hook = compute_metrics(tokenizer)  # for Seq2SeqTrainer(..., compute_metrics=hook)
        >>> ids = tokenizer(["acme sets stock split"], return_tensors="np")["input_ids"]
        >>> scores = hook(EvalPrediction(ids, ids))
        >>> next(iter(scores)), scores["rouge1"]
        ('bertscore_recall', 1.0)
    """
    return ComputeMetrics(tokenizer, metrics, preset, postprocess, rows)


def _by_default(preset: str) -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for name in ("bertscore", "rouge"):
        try:
            found |= load_all(name, preset)[0]
        except MissingRequirement as error:
            warn(f"{name} is left out of the evaluation: {error}")
    return found


class ComputeMetrics:
    """See `compute_metrics`."""

    def __init__(
        self,
        tokenizer: Any,
        metrics: Any,
        preset: str,
        postprocess: Callable[[str], str] | None,
        rows: Any = None,
    ):
        from summarily.modeling.data import data_of

        self.tokenizer, self.rows = tokenizer, rows
        needed = data_of(tokenizer).texts
        if needed and rows is None:
            raise InputError(
                f"{type(tokenizer).__name__} reads copied words from the column {needed[0]!r}, which a trainer does not "
                "hand on; pass the evaluation set: compute_metrics(tokenizer, rows=eval_dataset)."
            )
        if rows is not None and (missing := [name for name in ("labels", *needed) if name not in rows[0]]):
            raise InputError(f"rows have no column {missing[0]!r}; keep it of the tokenizer's encoding.")
        self.columns = needed
        # Wrong names and missing weights should stop a training run before it starts, not after an epoch.
        self.metrics = _by_default(preset) if metrics is None else load_all(metrics, preset)[0]
        self.postprocess = postprocess
        self.examples: list[Example] = []

    def __call__(self, evaluation: Any, compute_result: bool = True) -> dict[str, float]:
        if evaluation.label_ids is None:
            raise InputError(
                "the evaluation set has no labels; there is nothing to compare the predictions with."
            )
        try:
            labels = self._ids(evaluation.label_ids, "labels")
            rows = None if self.rows is None else self._rows_of(labels)
            predictions = self._decode(self._ids(evaluation.predictions, "predictions"), rows)
            references = self._decode(labels, rows)
            self.examples += make_examples(predictions, references)
        except Exception:
            self.examples = []  # what is left of this evaluation must not reach the next one
            raise
        if not compute_result:
            return {}
        examples, self.examples = self.examples, []
        return self._score(examples)

    def _score(self, examples: Sequence[Example]) -> dict[str, float]:
        from summarily.metrics.engine import score_examples

        scores = score_examples(self.metrics, examples, progress=False)
        keys = [key for score in scores.values() for key in score.per_example]
        return {
            (key if keys.count(key) == 1 else f"{label}_{key}"): mean
            for label, score in scores.items()
            for key, mean in score.mean.items()
        }

    def _rows_of(self, labels: np.ndarray) -> list[Any]:
        """The rows that come next, which must be those that these are the labels of."""
        first = len(self.examples)
        if first + len(labels) > len(self.rows):
            raise InputError(f"the evaluation has more examples than rows has ({len(self.rows)}).")
        rows = [self.rows[first + i] for i in range(len(labels))]
        padding = (-100, self.tokenizer.pad_token_id)  # Seq2SeqTrainer uses both
        for i, (row, found) in enumerate(zip(rows, labels, strict=True), start=first):
            ours, theirs = (
                [int(token) for token in ids if token not in padding] for ids in (row["labels"], found)
            )
            if ours != theirs:
                raise InputError(
                    f"the labels of example {i} are not those of rows[{i}]; rows must be the set that is evaluated, in "
                    "the order of the evaluation."
                )
        return rows

    def _ids(self, ids: Any, what: str) -> np.ndarray:
        """Token ids `[batch, length]`, padded with -100 or as they came."""
        ids = ids[0] if isinstance(ids, (tuple, list)) else ids
        if hasattr(ids, "detach"):
            ids = ids.detach().cpu()
            ids = (ids.float() if ids.is_floating_point() else ids).numpy()  # numpy has no bfloat16
        else:
            ids = np.asarray(ids)
        if ids.ndim == 3:
            raise InputError(
                f"{what} have shape {ids.shape}: these are logits, whose best tokens were chosen beside the right ones "
                "before them and flatter the model. Set predict_with_generate=True in Seq2SeqTrainingArguments to score "
                "what it writes by itself."
            )
        if ids.ndim != 2:
            raise InputError(f"{what} have shape {ids.shape}; expected token ids [batch, length].")
        return ids

    def _decode(self, ids: np.ndarray, rows: list[Any] | None) -> list[str]:
        from summarily.modeling.data import decode

        pad = self.tokenizer.pad_token_id
        if pad is None:
            raise InputError("the tokenizer has no pad token; set tokenizer.pad_token before evaluating.")
        beside = {name: [row[name] for row in rows or ()] for name in self.columns}
        texts = decode(self.tokenizer, np.where(ids == -100, pad, ids), beside)
        return [self.postprocess(text) for text in texts] if self.postprocess else texts


def reward(metric: str, preset: str = "light", key: str | None = None, **options: Any) -> Reward:
    """A picklable reward `(completions, references, **columns) -> list[float]`: the metric's main score, or its `key`.

    BERTScore's is F here, not recall, which longer and longer texts would raise.

    Example:
        >>> reward("rouge")(["a cat sat"], references=["the cat sat"])
        [0.6666666666666666]
        >>> reward("rouge", key="rouge1_recall")(["a cat"], references=["a cat sat down"])
        [0.5]
    """
    return Reward(metric, preset, options, key)


class Reward:
    """See `reward`. Loads its metric when first called, so it travels to worker processes by name."""

    def __init__(self, metric: str, preset: str, options: dict[str, Any], key: str | None = None):
        self.metric, self.preset, self.options, self.key = metric, preset, options, key
        self.__name__ = f"{key or metric}_reward"  # TRL logs rewards by this name
        self._loaded: Any = None
        loaded = load(metric, preset=preset, **options)
        loaded.check()
        if key is not None:
            named(key, loaded.keys, metric)

    def __call__(self, completions: Sequence[Any], references: Sequence[Any], **columns: Any) -> list[float]:
        if self._loaded is None:
            self._loaded = load(self.metric, preset=self.preset, **self.options)
        # TRL's chat format: a completion is a list with one message.
        texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
        return self._loaded.reward(texts, references, self.key, **columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}
