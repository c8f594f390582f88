"""BERTScore (Zhang et al. 2020): greedy cosine matching of contextual token vectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from summarily.metrics.base import Example, Metric, Values
from summarily.metrics.bertscore.baseline import Baseline, find_baseline
from summarily.metrics.bertscore.frequencies import find_frequencies, fixed_idf
from summarily.metrics.encoding.layers import default_layer
from summarily.metrics.explanations import Matches
from summarily.metrics.matching import IDF, Idf, Match, Matcher, checked_idf
from summarily.metrics.options import EncoderOptions, one_of
from summarily.metrics.references import RULES

PRESETS: dict[str, dict[str, Any]] = {
    "light": {"model": "minilm", "rescale": False, "prefix_space": False},
    # The thesis used the slow tokenizers of its time, for which bert_score puts a space before the text.
    "paper": {"model": "FacebookAI/roberta-large-mnli", "rescale": True, "prefix_space": True},
}


class Bertscore(Metric):
    """BERTScore, equal to the `bert_score` package on the same model, layer and tokenizer.

    `bertscore` is F, as in published work. The main score, which tables show first and systems are ranked by, is
    `bertscore_recall`: of all our metrics it agrees best with people.

    Args:
        preset: "light" (MiniLM) or "paper" (roberta-large-mnli, rescaled, from the Hub).
        model: a path, a pinned name or a Hub id of any encoder or encoder-decoder (its encoder is used).
        revision: of a Hub model.
        layer: counted from 1, or from the end if negative; by default the one that suits the model.
        idf: False, "references" (also True: `log((N + 1) / (df + 1))` over the references), "unsmoothed" (`log(N / df)`),
            "fixed" (counted once over the highlights of CNN/DailyMail, so that a pair can be scored alone; the default
            of MiniLM unless it is rescaled; else it is False), or a file of `bertscore.frequencies`.
        rescale: True for our baseline (minilm) or that of an installed bert_score, or a file in its format.
        multi_reference: "max" of each value as in bert_score, "best" by F, or "mean".
        max_length: tokens kept of a text; by default the model's limit.
        prefix_space: put a space before a text, which matters to byte-level tokenizers.
        device, dtype, token_budget, cache_folder: see `encoding.encoder`.

    An empty text scores 0 against anything, as in bert_score, which rescales that too.

    Example:
        >>> score = Bertscore().compute(["a cat sat"], ["a cat sat down"])
        >>> 0.8 < score.mean["bertscore"] < 1
        True
    """

    name = "bertscore"
    summary = "similarity of each token to its best match in the other text, by contextual vectors"
    needs = "MiniLM (offline extra)"
    keys = ("bertscore_recall", "bertscore", "bertscore_precision")
    reward_key = "bertscore"
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
        idf: bool | str | os.PathLike[str] | None = None,
        rescale: bool | str | os.PathLike[str] | None = None,
        multi_reference: str = "max",
        max_length: int | None = None,
        prefix_space: bool | None = None,
        device: str | None = None,
        dtype: str = "float32",
        token_budget: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
    ):
        self.preset = one_of("preset", preset, PRESETS)
        defaults = PRESETS[preset]
        self.model = defaults["model"] if model is None else model
        self.layer = layer
        self.rescale = defaults["rescale"] if rescale is None else rescale
        if idf is None:  # baselines are of unweighted tokens
            idf = "fixed" if self.model == PRESETS["light"]["model"] and not self.rescale else False
        self.frequencies = _frequencies(idf, self.model)
        self.idf = "fixed" if self.frequencies else checked_idf(idf)  # type: ignore[arg-type]
        self.counts_corpus = bool(self.idf) and self.frequencies is None
        self.multi_reference = one_of("multi_reference", multi_reference, RULES)
        self.prefix_space = defaults["prefix_space"] if prefix_space is None else prefix_space
        self.reading = EncoderOptions(
            self.model,
            revision,
            device,
            max_length,
            prefix_space=self.prefix_space,
            dtype=dtype,
            token_budget=token_budget,
            cache_folder=cache_folder,
        )

    def check(self) -> None:
        self.reading.check()
        if self.rescale:
            find_baseline(self.model, self.rescale)

    @property
    def matcher(self) -> Matcher:
        shared = self.reading.encoder
        layer = default_layer(self.model, shared) if self.layer is None else self.layer
        return Matcher(shared, shared.layer(layer), self.idf, self.multi_reference, fixed=self.fixed)

    @cached_property
    def fixed(self) -> Idf | None:
        return fixed_idf(self.reading.encoder.tokenizer, self.frequencies) if self.frequencies else None

    @property
    def baseline(self) -> Baseline | None:
        return find_baseline(self.model, self.rescale) if self.rescale else None

    def signature_fields(self, statistics: Idf | None) -> dict[str, Any]:
        matcher, baseline = self.matcher, self.baseline
        return {
            "model": matcher.encoder.identity,
            "layer": matcher.layer,
            "tokenizer": matcher.encoder.tokenizer_name + ("-prefix-space" if self.prefix_space else ""),
            "idf": matcher.idf_name(statistics),
            "rescale": baseline.identity if baseline else "no",
            "refs": self.multi_reference,
            "truncation": matcher.encoder.max_length,
            "dtype": matcher.encoder.unusual_dtype,
        }

    def requests(self, examples: Sequence[Example]) -> list[Any]:
        return list(self.matcher.requests(examples))

    def statistics(self, examples: Sequence[Example]) -> Idf | None:
        return self.matcher.statistics(examples) if self.counts_corpus else None

    def score_examples(self, examples: Sequence[Example], statistics: Idf | None) -> Values:
        matcher = self.matcher
        matched = matcher.score(examples, statistics)
        values = replace(matched, matches=self._rescaled(matched.matches, matcher.layer)).values(self.name)
        return replace(values, per_example={key: values.per_example[key] for key in self.keys})

    def _rescaled(self, matches: list[Match], layer: int) -> list[Match]:
        baseline = self.baseline
        if baseline is None:
            return matches
        low = baseline.at(layer)
        return [Match(*((x - b) / (1 - b) for x, b in zip(match, low, strict=True))) for match in matches]

    def explain_example(self, example: Example, statistics: Idf | None) -> Matches:
        """The alignment with each reference, in both directions; `weight` is the token's share of the mean."""
        values = self.score_examples([example], statistics).per_example
        return self.matcher.explain(self.name, values, example, statistics)


def _frequencies(idf: Any, model: str | os.PathLike[str]) -> Path | None:
    """The file that an `idf` option is read from, if it is: ours, or one a user named."""
    if (
        isinstance(idf, bool)
        or (isinstance(idf, str) and idf in IDF)
        or not isinstance(idf, (str, os.PathLike))
    ):
        return None
    return find_frequencies(model, None if idf == "fixed" else idf)
