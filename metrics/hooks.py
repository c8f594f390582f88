"""Our metrics inside training: `compute_metrics` for `Trainer`, rewards for reinforcement learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from summarily.metrics import load, load_all
from summarily.metrics.base import Example, make_examples
from summarily.support.errors import InputError


def compute_metrics(
    tokenizer: Any,
    metrics: Any = ("rouge",),
    preset: str = "light",
    postprocess: Callable[[str], str] | None = None,
) -> ComputeMetrics:
    """A `compute_metrics` for `Trainer` and `Seq2SeqTrainer`.

    Decodes predictions and labels (-100 is padding), scores the texts, and returns one float per value. With
    `batch_eval_metrics=True` only texts are kept between batches, not logits. Predictions may be token ids
    (`predict_with_generate=True`) or logits, of which the best token at each position is taken. An evaluation that
    is interrupted from outside leaves its batches behind; make a new hook then.

    Args:
        tokenizer: the tokenizer (or processor) the model was trained with.
        metrics: as for `summarily.score`.
        preset: as for `summarily.score`.
        postprocess: applied to each decoded text, for example `str.strip`.

    Example:
        >>> from transformers import Seq2SeqTrainer                               # doctest: +SKIP
        >>> Seq2SeqTrainer(..., compute_metrics=compute_metrics(tokenizer))       # doctest: +SKIP
    """
    return ComputeMetrics(tokenizer, metrics, preset, postprocess)


class ComputeMetrics:
    """See `compute_metrics`."""

    def __init__(self, tokenizer: Any, metrics: Any, preset: str, postprocess: Callable[[str], str] | None):
        self.tokenizer = tokenizer
        # Wrong names and missing weights should stop a training run before it starts, not after an epoch.
        self.metrics, _ = load_all(metrics, preset)
        self.postprocess = postprocess
        self.examples: list[Example] = []

    def __call__(self, evaluation: Any, compute_result: bool = True) -> dict[str, float]:
        if evaluation.label_ids is None:
            raise InputError(
                "the evaluation set has no labels; there is nothing to compare the predictions with."
            )
        try:
            predictions = self._decode(evaluation.predictions, "predictions")
            references = self._decode(evaluation.label_ids, "labels")
            self.examples += make_examples(predictions, references)
        except Exception:
            self.examples = []  # what is left of this evaluation must not reach the next one
            raise
        if not compute_result:
            return {}
        examples, self.examples = self.examples, []
        return self._score(examples)

    def _score(self, examples: Sequence[Example]) -> dict[str, float]:
        from summarily.metrics.scorecard import score_examples

        scores = score_examples(self.metrics, examples, progress=False)
        keys = [key for score in scores.values() for key in score.per_example]
        return {
            (key if keys.count(key) == 1 else f"{label}_{key}"): mean
            for label, score in scores.items()
            for key, mean in score.mean.items()
        }

    def _decode(self, ids: Any, what: str) -> list[str]:
        ids = ids[0] if isinstance(ids, (tuple, list)) else ids
        if hasattr(ids, "detach"):
            ids = ids.detach().cpu()
            ids = (ids.float() if ids.is_floating_point() else ids).numpy()  # numpy has no bfloat16
        else:
            ids = np.asarray(ids)
        if ids.ndim == 3:  # logits [batch, length, vocabulary]; padding of logits is -100 throughout
            padding = (ids == -100).all(-1)
            ids = np.where(padding, -100, ids.argmax(-1))
        if ids.ndim != 2:
            raise InputError(
                f"{what} have shape {ids.shape}; expected [batch, length] token ids or [batch, length, vocabulary] "
                f"logits. Set predict_with_generate=True in Seq2SeqTrainingArguments to score generated text."
            )
        pad = self.tokenizer.pad_token_id
        if pad is None:
            raise InputError("the tokenizer has no pad token; set tokenizer.pad_token before evaluating.")
        texts = self.tokenizer.batch_decode(np.where(ids == -100, pad, ids), skip_special_tokens=True)
        return [self.postprocess(text) for text in texts] if self.postprocess else texts


def reward(metric: str, preset: str = "light", **options: Any) -> Reward:
    """A picklable reward `(completions, references, **columns) -> list[float]`: the metric's main score.

    Example:
        >>> reward("rouge")(["a cat sat"], references=["the cat sat"])
        [0.6666666666666666]
    """
    return Reward(metric, preset, options)


class Reward:
    """See `reward`. Loads its metric when first called, so it travels to worker processes by name."""

    def __init__(self, metric: str, preset: str, options: dict[str, Any]):
        self.metric, self.preset, self.options = metric, preset, options
        self.__name__ = f"{metric}_reward"  # TRL logs rewards by this name
        self._loaded: Any = None
        load(metric, preset=preset, **options).check()

    def __call__(self, completions: Sequence[Any], references: Sequence[Any], **columns: Any) -> list[float]:
        if self._loaded is None:
            self._loaded = load(self.metric, preset=self.preset, **self.options)
        # TRL's chat format: a completion is a list with one message.
        texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
        return self._loaded.reward(texts, references, **columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}
