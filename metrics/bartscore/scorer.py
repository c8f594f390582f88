"""BARTScore: BERTScore's matching on the states of an encoder-decoder such as BART, or its likelihood of a text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from summarily.metrics.bartscore.likelihood import LikelihoodModel, Pair
from summarily.metrics.base import Example, Metric, Values, count_empty
from summarily.metrics.encoding.layers import default_layer
from summarily.metrics.explanations import Matches, Word, Words, WordsOf
from summarily.metrics.matching import Idf, Matcher, checked_idf
from summarily.metrics.options import PRESETS, EncoderOptions, one_of
from summarily.metrics.references import RULES, combined
from summarily.support.errors import InputError

PAPER_MODELS = {"embedding": "facebook/bart-large-mnli", "likelihood": "facebook/bart-large-cnn"}
LIGHT_MODEL = "flan-t5-small"
SIDES = ("decoder", "encoder")
SCORES = ("f", "precision", "recall")
DIRECTIONS = ("source->prediction", "reference->prediction", "prediction->reference", "f")
PAPERS = {"side": "decoder", "score": "f", "direction": "f"}
"""What the thesis and Yuan et al. do with a large BART, and what any `model=` gets."""
LIGHT = {"side": "encoder", "score": "recall", "direction": "prediction->reference"}
"""What agrees best with people when the model is a small T5; the card has the numbers."""


class Bartscore(Metric):
    """BARTScore in two variants.

    `variant="embedding"` is BERTScore on an encoder-decoder. With `side="decoder"` (Gaskell 2020) the text goes through
    the whole model, the decoder being fed the same text, and the final decoder states are matched; `side="encoder"`
    matches a layer of the encoder, which is what the `bert_score` package does with BART.
    `variant="likelihood"` (Yuan et al. 2021) is the mean log-probability of a text's tokens given another text, 0 at best.

    Args:
        preset: "light" (FLAN-T5-small in the place of BART, for both variants) or "paper" (a large BART from the Hub).
        variant: "embedding" or "likelihood".
        model: a path, a pinned name or a Hub id of an encoder-decoder.
        revision: of a Hub model.
        side: of the embedding, "decoder" (the default of papers and of `model=`) or "encoder" (that of the light preset).
        layer: of the embedding; by default the last of the decoder, or the tuned one of the encoder.
        score: of the embedding: which value `bartscore` itself is, "f" (the default of papers and of `model=`),
            "precision" or "recall" (the default of the light preset).
        idf: of the embedding; False, "references" or "unsmoothed", as in BERTScore.
        direction: of the likelihood; "f" (the mean of the next two, the default of papers and of `model=`),
            "reference->prediction" (precision), "prediction->reference" (recall, the default of the light preset), or
            "source->prediction", which reads the sources.
        multi_reference: "max" of each value, "best" by the main score, or "mean".
        max_length: tokens kept of a text; by default the model's limit.
        device, dtype, token_budget, cache_folder: see `encoding.encoder`.

    An empty text scores 0 in the embedding variant; in the likelihood variant it is scored like any other.

    Example:
        >>> scores = Bartscore().compute(["Snow fell in Oslo.", "Stocks fell."], ["Oslo had snow."] * 2)
        >>> better, worse = scores.per_example["bartscore"]
        >>> better > worse
        True
    """

    name = "bartscore"
    summary = "matching of the states of BART or T5, or their log-likelihood of a text"
    needs = "FLAN-T5-small, by pip install summarily[offline]"
    citation: ClassVar[str] = (
        "@mastersthesis{gaskell2020summarization, title={On the Summarization and Evaluation of Long Documents}, "
        "author={Gaskell, Alexander}, school={Imperial College London}, year={2020}}\n"
        "@inproceedings{yuan2021bartscore, title={BARTScore: Evaluating Generated Text as Text Generation}, "
        "author={Yuan, Weizhe and Neubig, Graham and Liu, Pengfei}, booktitle={NeurIPS}, year={2021}}"
    )

    def __init__(
        self,
        preset: str = "light",
        *,
        variant: str = "embedding",
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        side: str | None = None,
        layer: int | None = None,
        score: str | None = None,
        idf: bool | str = False,
        direction: str | None = None,
        multi_reference: str = "max",
        max_length: int | None = None,
        device: str | None = None,
        dtype: str = "float32",
        token_budget: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
    ):
        self.preset = one_of("preset", preset, PRESETS)
        self.variant = one_of("variant", variant, PAPER_MODELS)
        self.multi_reference = one_of("multi_reference", multi_reference, RULES)
        foreign = {
            "side": side,
            "layer": layer,
            "score": score,
            "idf": idf or None,
            "cache_folder": cache_folder,
        }
        if variant == "embedding":
            foreign = {"direction": direction}
        unused = [option for option, value in foreign.items() if value is not None]
        if unused:
            raise InputError(f"{', '.join(unused)} is no option of variant={variant!r}.")
        usual = LIGHT if preset == "light" and model is None else PAPERS
        self.side = one_of("side", side or usual["side"], SIDES)
        self.score = one_of("score", score or usual["score"], SCORES)
        self.layer = layer
        self.idf = checked_idf(idf)
        self.counts_corpus = bool(self.idf)
        self.direction = one_of("direction", direction or usual["direction"], DIRECTIONS)
        # The paper's exception: any text has a likelihood, the empty one too.
        self.empty_score = 0.0 if variant == "embedding" else None
        default = PAPER_MODELS[variant] if preset == "paper" else LIGHT_MODEL
        self.model = default if model is None else model
        self.reading = EncoderOptions(
            self.model,
            revision,
            device,
            max_length,
            side=self.side if variant == "embedding" else "encoder",
            dtype=dtype,
            token_budget=token_budget,
            cache_folder=cache_folder,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        if self.variant == "embedding" or self.direction == "f":
            return ("bartscore", "bartscore_precision", "bartscore_recall")
        return ("bartscore",)

    def check(self) -> None:
        self.reading.check()

    # --- embedding ---

    @property
    def matcher(self) -> Matcher:
        shared = self.reading.encoder
        if self.side == "decoder":
            layer = -1 if self.layer is None else self.layer
            return Matcher(shared, shared.layer(layer), self.idf, self.multi_reference, floor=-1.0)
        layer = default_layer(self.model, shared) if self.layer is None else self.layer
        return Matcher(shared, shared.layer(layer), self.idf, self.multi_reference)

    def requests(self, examples: Sequence[Example]) -> list[Any]:
        return list(self.matcher.requests(examples)) if self.variant == "embedding" else []

    def statistics(self, examples: Sequence[Example]) -> Idf | None:
        return self.matcher.statistics(examples) if self.idf else None

    # --- likelihood ---

    @cached_property
    def likelihood(self) -> LikelihoodModel:
        return LikelihoodModel(self.reading.encoder)

    def _pairs(self, example: Example) -> dict[str, list[Pair]]:
        """What has to be computed for an example, by key; one pair per reference."""
        there = [Pair(reference, example.prediction) for reference in example.references]
        back = [Pair(example.prediction, reference) for reference in example.references]
        if self.direction == "source->prediction":
            if example.source is None:
                raise InputError(
                    "direction='source->prediction' reads the sources and none were given; pass sources=, or "
                    "choose a direction between prediction and reference."
                )
            return {"bartscore": [Pair(example.source, example.prediction)]}
        if self.direction == "f":
            return {"bartscore_precision": there, "bartscore_recall": back}
        return {"bartscore": there if self.direction == "reference->prediction" else back}

    def _likelihood_values(self, examples: Sequence[Example]) -> Values:
        wanted = [self._pairs(example) for example in examples]
        pairs = [pair for by_key in wanted for of_key in by_key.values() for pair in of_key]
        model = self.likelihood
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        encoded = dict(zip(texts, model.texts.tokenize(texts), strict=True))
        found = model(pairs, encoded)
        columns: dict[str, list[float]] = {key: [] for key in self.keys}
        for by_key in wanted:
            rows = zip(*([found[pair].mean for pair in of_key] for of_key in by_key.values()), strict=True)
            for key, value in zip(self.keys, self._over_references(list(rows)), strict=True):
                columns[key].append(value)
        read = [{text for of_key in by_key.values() for pair in of_key for text in pair} for by_key in wanted]
        truncated = sum(encoded[text].truncated for texts in read for text in texts)
        counts = {"truncated": truncated, **count_empty(examples)}
        return Values(columns, counts, sum(len(encoded[text].ids) for pair in found for text in pair))

    def _over_references(self, rows: list[tuple[float, ...]]) -> tuple[float, ...]:
        """The values of an example, in the order of the keys; a row holds the directions of a reference."""
        if self.direction == "f":
            # The paper's F is the arithmetic mean of both directions.
            rows = [(sum(both) / 2, *both) for both in rows]
        return combined(rows, self.multi_reference)

    # --- both ---

    def signature_fields(self, statistics: Idf | None) -> dict[str, Any]:
        if self.variant == "likelihood":
            shared = self.likelihood.texts
            own = {"direction": self.direction}
        else:
            matcher = self.matcher
            shared = matcher.encoder
            own = {
                "side": self.side,
                "layer": str(matcher.layer),
                "score": self.score,
                "idf": matcher.idf_name(statistics),
            }
        return {
            "variant": self.variant,
            "model": shared.identity,
            **own,
            "tokenizer": shared.tokenizer_name,
            "refs": self.multi_reference,
            "truncation": shared.max_length,
            "dtype": shared.unusual_dtype,
        }

    def score_examples(self, examples: Sequence[Example], statistics: Idf | None) -> Values:
        if self.variant == "likelihood":
            return self._likelihood_values(examples)
        return self.matcher.score(examples, statistics).values(self.name, main=self.score)

    def explain_example(self, example: Example, statistics: Idf | None) -> Matches | Words:
        """The alignment with each reference, or the log-probability of each token."""
        values = self.score_examples([example], statistics).per_example
        if self.variant == "embedding":
            return self.matcher.explain(self.name, values, example, statistics)
        scores = {key: column[0] for key, column in values.items()}
        texts = self._explain_likelihood(example)
        return Words(self.name, scores, example.prediction, example.references, "log_probability", texts)

    def _explain_likelihood(self, example: Example) -> list[WordsOf]:
        model = self.likelihood
        pairs = [pair for of_key in self._pairs(example).values() for pair in of_key]
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        found = model(pairs, dict(zip(texts, model.texts.tokenize(texts), strict=True)))
        return [
            WordsOf(
                pair.target,
                pair.source,
                {"bartscore": found[pair].mean},
                [
                    Word(token, value)
                    for token, value in zip(found[pair].tokens, found[pair].log_probabilities, strict=True)
                ],
            )
            for pair in pairs
        ]
