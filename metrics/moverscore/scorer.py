"""MoverScore (Zhao et al. 2019), with one token (Mover-1) or two (Mover-2) as the unit that is moved."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from summarily.metrics.base import Example, Metric, Values, distinct_pairs, distinct_texts
from summarily.metrics.encoding import Encoded, Request
from summarily.metrics.explanations import Move, Moves, Plan
from summarily.metrics.matching import Idf, count_texts
from summarily.metrics.moverscore.ngrams import Keep, NGrams, bags_of_ngrams, squared_distances
from summarily.metrics.options import PRESETS, EncoderOptions, StopWords, at_least, one_of
from summarily.metrics.references import over_references
from summarily.metrics.transport import emd, emd_plan, in_threads
from summarily.support.errors import InputError

# The authors' own checkpoint is not on the Hub; this one is the same model fine-tuned on the same data.
PAPER_MODELS = {"v1": "textattack/bert-base-uncased-MNLI", "v2": "distilbert/distilbert-base-uncased"}
LAYERS = {"v1": 5, "v2": 1}
DISTANCES = {"v1": "squared", "v2": "euclidean"}


@dataclass(frozen=True)
class Statistics:
    """Idf of the predictions and of the references, counted apart."""

    predictions: Idf
    references: Idf

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(self.predictions + other.predictions, self.references + other.references)

    @property
    def digest(self) -> str:
        return f"{self.predictions.digest}+{self.references.digest}"


class Moverscore(Metric):
    """MoverScore in its two published versions.

    v1, the authors' first code, is `1 - EMD` over squared Euclidean distances on the power means of the last
    five layers; v2 is `1 / (1 + EMD)` over Euclidean distances on the last layer. Unlike the published v2,
    this one heeds `n_gram`, and only real tokens are moved.

    Args:
        preset: "light" (MiniLM, without idf) or "paper" (BERT fine-tuned on MNLI, with idf, from the Hub).
        n_gram: 1 or 2 (or more) tokens are the unit that is moved.
        variant: "v1" or "v2".
        model: a path, a pinned name or a Hub id.
        revision: of a Hub model.
        distance: "squared" or "euclidean"; by default the variant's.
        idf: weigh tokens by `log((N + 1) / (df + 1))`, counted apart over predictions and references. A corpus
            in which that weighs every token 0, such as a single pair, is refused.
        stop_words: True for the built-in English list, or your own words.
        subwords: whether pieces that continue a word are moved too.
        multi_reference: "max" or "mean".
        max_length: tokens kept of a text; by default the model's limit.
        device, dtype, token_budget, cache_folder: see `encoding.encoder`.

    Punctuation is left out, [CLS] and [SEP] stay. A text of which nothing else is left scores 0.

    Example:
        >>> score = Moverscore().compute(["a cat sat", "snow"], ["a cat sat", "rain fell"])
        >>> score.per_example["moverscore"][0]
        1.0
    """

    name = "moverscore"
    empty_score: float = 0.0
    summary = "cost of moving one text's tokens to the other's, by contextual vectors"
    needs = "MiniLM (offline extra)"
    keys = ("moverscore",)
    citation: ClassVar[str] = (
        "@inproceedings{zhao2019moverscore, title={MoverScore: Text Generation Evaluating with Contextualized "
        "Embeddings and Earth Mover Distance}, author={Zhao, Wei and Peyrard, Maxime and Liu, Fei and Gao, Yang "
        "and Meyer, Christian M. and Eger, Steffen}, booktitle={EMNLP}, year={2019}}"
    )

    def __init__(
        self,
        preset: str = "light",
        *,
        n_gram: int = 1,
        variant: str = "v1",
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        distance: str | None = None,
        idf: bool | None = None,
        stop_words: bool | Iterable[str] = False,
        subwords: bool = False,
        multi_reference: str = "max",
        max_length: int | None = None,
        device: str | None = None,
        dtype: str = "float32",
        token_budget: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
    ):
        self.preset = one_of("preset", preset, PRESETS)
        self.variant = one_of("variant", variant, LAYERS)
        self.n_gram = at_least("n_gram", n_gram)
        self.distance = one_of("distance", distance or DISTANCES[variant], ("squared", "euclidean"))
        self.idf = preset == "paper" if idf is None else bool(idf)
        self.counts_corpus = self.idf
        self.stop_words = StopWords.of(stop_words)
        self.subwords = subwords
        self.multi_reference = one_of("multi_reference", multi_reference, ("max", "mean"))
        self.reading = EncoderOptions(
            model if model is not None else "minilm" if preset == "light" else PAPER_MODELS[variant],
            revision,
            device,
            max_length,
            dtype=dtype,
            token_budget=token_budget,
            cache_folder=cache_folder,
        )

    def check(self) -> None:
        self.reading.check()

    @property
    def layers(self) -> list[int]:
        return self.reading.encoder.last_layers(LAYERS[self.variant])

    def signature_fields(self, statistics: Statistics | None) -> dict[str, Any]:
        shared = self.reading.encoder
        return {
            "variant": self.variant,
            "n_gram": self.n_gram,
            "model": shared.identity,
            "layers": self.layers,
            "tokenizer": shared.tokenizer_name,
            "distance": self.distance,
            "idf": f"apart@{statistics.digest}" if statistics else "apart" if self.idf else "no",
            "single_pair": "refused" if self.idf else None,
            "stop_words": self.stop_words.named("no", "custom@{digest:.12}", " "),
            "subwords": self.subwords,
            "refs": self.multi_reference,
            "truncation": shared.max_length,
            "solver": "exact",
            "dtype": shared.unusual_dtype,
        }

    def requests(self, examples: Sequence[Example]) -> list[Any]:
        return [Request(self.reading.encoder, distinct_texts(examples), self.layers)]

    # --- idf ---

    def statistics(self, examples: Sequence[Example]) -> Statistics | None:
        if not self.idf:
            return None
        predictions = self._count("predictions", (example.prediction for example in examples))
        references = self._count("references", (text for example in examples for text in example.references))
        return Statistics(predictions, references)

    def _count(self, side: str, texts: Iterable[str]) -> Idf:
        times = Counter(texts)
        encoded = dict(zip(times, self.reading.encoder.tokenize(times), strict=True))
        idf = Idf.count(encoded[text].ids for text, number in times.items() for _ in range(number))
        if all(number == idf.documents for number in idf.frequencies.values()) and not all(
            text.is_empty for text in encoded.values()
        ):
            raise InputError(
                f"idf over {idf.documents} {side} weighs every token 0, and everything would score the same: "
                f"score more (or more different) pairs at once, or pass idf=False."
            )
        return idf

    # --- scoring ---

    def score_examples(self, examples: Sequence[Example], statistics: Statistics | None) -> Values:
        predictions, references, encoded = self._bags(examples, statistics)
        pairs = distinct_pairs(examples)
        scores = in_threads(lambda pair: self._similarity(predictions[pair[0]], references[pair[1]]), pairs)
        by_pair = dict(zip(pairs, scores, strict=True))
        values = [
            over_references([by_pair[e.prediction, text] for text in e.references], self.multi_reference)
            for e in examples
        ]
        counts = count_texts(examples, encoded)
        counts["empty_predictions"] = sum(predictions[e.prediction].kept.is_empty for e in examples)
        counts["empty_references"] = sum(references[r].kept.is_empty for e in examples for r in e.references)
        return Values({"moverscore": values}, counts, sum(map(len, encoded.values())))

    def _bags(
        self, examples: Sequence[Example], statistics: Statistics | None
    ) -> tuple[dict[str, NGrams], dict[str, NGrams], dict[str, Encoded]]:
        """The n-grams of predictions and of references; without idf a text has the same on either side."""
        if self.idf and statistics is None:
            raise InputError(
                "idf is counted over a corpus and a single call has none: use score.explain(row) of a Score, "
                "pass statistics=metric.statistics(examples), or idf=False."
            )
        texts = distinct_texts(examples)
        layers = self.layers
        shared = self.reading.encoder
        encoded = dict(zip(texts, shared.encode(texts, layers), strict=True))
        keep = Keep(self.stop_words.words, self.subwords, shared.pieces_are_marked)
        kept = {text: keep(encoded[text], text) for text in texts}

        def bags(of: Iterable[str], idf: Idf | None) -> dict[str, NGrams]:
            distinct = list(dict.fromkeys(of))
            found = bags_of_ngrams([kept[text] for text in distinct], layers, self.n_gram, idf)
            return dict(zip(distinct, found, strict=True))

        if statistics is None:
            both = bags(texts, None)
            return both, both, encoded
        predictions = bags((example.prediction for example in examples), statistics.predictions)
        references = bags((r for example in examples for r in example.references), statistics.references)
        return predictions, references, encoded

    def _costs(self, prediction: NGrams, reference: NGrams) -> NDArray[np.float64]:
        costs = squared_distances(prediction.vectors, reference.vectors)
        return costs if self.distance == "squared" else np.sqrt(costs)

    def _similarity(self, prediction: NGrams, reference: NGrams) -> float:
        if prediction.nothing_to_move or reference.nothing_to_move:
            return self.empty_score
        return self._from_cost(emd(prediction.masses, reference.masses, self._costs(prediction, reference)))

    def _from_cost(self, cost: float) -> float:
        return 1 - cost if self.variant == "v1" else 1 / (1 + cost)

    def explain_example(self, example: Example, statistics: Statistics | None) -> Moves:
        """What was moved where, for each reference, the most expensive move first."""
        value = self.score_examples([example], statistics).per_example["moverscore"][0]
        predictions, references, _ = self._bags([example], statistics)
        plans = [
            self._plan(number, predictions[example.prediction], references[text])
            for number, text in enumerate(example.references)
        ]
        return Moves(self.name, {"moverscore": value}, example.prediction, example.references, plans)

    def _plan(self, number: int, prediction: NGrams, reference: NGrams) -> Plan:
        if prediction.nothing_to_move or reference.nothing_to_move:
            return Plan(number, {"moverscore": self.empty_score}, None, [])
        plan = emd_plan(prediction.masses, reference.masses, self._costs(prediction, reference))
        p_names, r_names = prediction.names, reference.names
        unit = "token" if self.n_gram == 1 else f"{self.n_gram}-gram"
        moves = [
            Move(p_names[flow.source], unit, r_names[flow.target], unit, flow.mass, flow.distance)
            for flow in plan.flows
            if flow.mass > 1e-12  # less is a rounding error of the solver
        ]
        moves.sort(key=lambda move: -move.cost)
        return Plan(number, {"moverscore": self._from_cost(plan.cost)}, plan.cost, moves)
