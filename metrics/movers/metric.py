"""What WMS, SMS and S+WMS share."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from summarily.metrics import transport
from summarily.metrics.base import Example, Metric, Values, count_empty, distinct_pairs, distinct_texts
from summarily.metrics.explanations import Moves, Plan
from summarily.metrics.movers.bags import Bag, describe, fit, too_many
from summarily.metrics.movers.contextual import ContextualEmbedder
from summarily.metrics.movers.points import Embedder
from summarily.metrics.movers.static import StaticEmbedder
from summarily.metrics.options import PRESETS, EncoderOptions, StopWords, at_least, one_of
from summarily.metrics.references import over_references
from summarily.support.errors import InputError

if TYPE_CHECKING:
    from summarily.metrics.encoding import Request

CITATION = """@inproceedings{clark-etal-2019-sentence,
    title = "Sentence Mover's Similarity: Automatic Evaluation for Multi-Sentence Texts",
    author = "Clark, Elizabeth and Celikyilmaz, Asli and Smith, Noah A.",
    booktitle = "Proceedings of the 57th Annual Meeting of the Association for Computational Linguistics",
    year = "2019",
    pages = "2748--2760",
    url = "https://aclanthology.org/P19-1264",
}"""

PAPER_VECTORS = "stanfordnlp/glove/glove.840B.300d.zip"


class Movers(Metric):
    """What WMS, SMS and S+WMS share.

    Args:
        preset: "light" (GloVe 6B 50-d, MiniLM) or "paper" (GloVe 840B 300-d from the Hub; no contextual ones).
        embeddings: "static" word vectors, or "contextual" ones of an encoder.
        vectors: static vectors (see `vectors.load`).
        model, revision, device, dtype: the encoder (see `encoding.encoder`).
        layers: the encoder layers whose mean is taken; by default the last three.
        context: "sentence" encodes the sentences of a text one by one, as the paper; "text" encodes it whole. With the
            whole text a repetition scores above the text that it repeats (the paper's Table 1).
        stop_words: True for `text.STOP_WORDS`, False for none, or your own words.
        out_of_vocabulary: give words without a vector the "zero" vector, as the paper, or "drop" them.
        multi_reference: "max" or "mean" over the references.
        on_empty: the score if there is nothing to compare: no word is left of the prediction or of the
            reference (nor if both are empty), or none has a vector and the words are not the same.
        max_points: at most `max_points ** 2` distances per pair, and 8 times `max_points` points per text; a
            longer text keeps its heaviest points, and counts as truncated. Contextual texts are cut after
            `max_points` words.
    """

    units: ClassVar[tuple[str, ...]]
    """Of "word" and "sentence", what the bag holds."""
    citation = CITATION
    needs = "GloVe 6B 50-d (offline extra)"

    def __init__(
        self,
        preset: str = "light",
        embeddings: str = "static",
        vectors: str | os.PathLike[str] | None = None,
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        device: str | None = None,
        layers: Sequence[int] | None = None,
        context: str = "sentence",
        stop_words: bool | Collection[str] = True,
        out_of_vocabulary: str = "zero",
        multi_reference: str = "max",
        on_empty: float = 0.0,
        max_points: int = 4000,
        dtype: str | None = None,
    ):
        self.preset = one_of("preset", preset, PRESETS)
        self.embeddings = one_of("embeddings", embeddings, ("static", "contextual"))
        self.multi_reference = one_of("multi_reference", multi_reference, ("max", "mean"))
        one_of("context", context, ("sentence", "text"))
        one_of("out_of_vocabulary", out_of_vocabulary, ("drop", "zero"))
        contextual = {
            "model": model, "revision": revision, "device": device, "layers": layers, "dtype": dtype,
        }  # fmt: skip
        misplaced = contextual if embeddings == "static" else {"vectors": vectors}
        for name, value in misplaced.items():
            if value is not None:
                raise InputError(f"{name}= has no meaning with embeddings={embeddings!r}.")
        if preset == "paper" and embeddings == "contextual" and model is None:
            raise InputError(
                "the paper's contextual embeddings are ELMo's, which no preset has; name an encoder as model=, or leave "
                "preset= out."
            )
        if not math.isfinite(on_empty):
            raise InputError(f"on_empty={on_empty}; expected a finite number.")
        self.empty_score: float = float(on_empty)
        self.max_points = at_least("max_points", max_points)
        self.stop_words = StopWords.of(stop_words)
        self.embedder: Embedder
        if embeddings == "static":
            default = PAPER_VECTORS if preset == "paper" else "glove-6b-50d"
            self.embedder = StaticEmbedder(
                vectors or default, self.stop_words.words, out_of_vocabulary, split="sentence" in self.units
            )
        else:
            self.embedder = ContextualEmbedder(
                EncoderOptions(model or "minilm", revision, device, dtype=dtype or "float32"),
                layers,
                context,
                self.stop_words.words,
                max_points,
            )

    def check(self) -> None:
        self.embedder.check()

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.name,)

    def signature_fields(self, statistics: Any) -> dict[str, Any]:
        return {
            "embeddings": self.embeddings,
            **self.embedder.signature_fields(),
            "words": "letters",
            "stop_words": self.stop_words.named(),
            "refs": self.multi_reference,
            "on_empty": self.empty_score,
            "max_points": self.max_points,
            "solver": "exact",
        }

    def requests(self, examples: Sequence[Example]) -> list[Request]:
        return self.embedder.requests(distinct_texts(examples))

    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        bags = self._bags(distinct_texts(examples))
        pairs = distinct_pairs(examples)
        found = transport.in_threads(lambda pair: self._score(bags[pair[0]], bags[pair[1]]), pairs)
        scores = dict(zip(pairs, found, strict=True))
        values = [
            over_references([scores[e.prediction, r] for r in e.references], self.multi_reference)
            for e in examples
        ]
        return Values({self.name: values}, *self._count(examples, bags))

    def _bags(self, distinct: Collection[str]) -> dict[str, Bag]:
        return {text: Bag(e, self.units) for text, e in self.embedder.embed(distinct).items()}

    def _score(self, prediction: Bag, reference: Bag) -> float:
        clouds = self._clouds(prediction, reference)
        if clouds is None:
            return self.empty_score
        return math.exp(-transport.distance(*clouds))  # Eq. 3

    def _clouds(self, prediction: Bag, reference: Bag) -> tuple[transport.Cloud, transport.Cloud] | None:
        """What to transport, or None if there is nothing to compare."""
        if prediction.cloud is None or reference.cloud is None:
            return None
        if not (
            (prediction.embedded.is_known and reference.embedded.is_known) or prediction.equals(reference)
        ):
            return None
        return fit(prediction.cloud, reference.cloud, self.max_points)

    def _count(self, examples: Sequence[Example], bags: dict[str, Bag]) -> tuple[dict[str, int], int]:
        """What the examples lack, and how many tokens they have."""
        unknown = truncated = tokens = 0
        for example in examples:
            prediction = bags[example.prediction]
            unknown += prediction.embedded.out_of_vocabulary
            truncated += prediction.embedded.truncated
            tokens += prediction.tokens
            for text in example.references:
                reference = bags[text]
                unknown += reference.embedded.out_of_vocabulary
                truncated += reference.embedded.truncated or too_many(prediction, reference, self.max_points)
                tokens += reference.tokens
        counts = {
            "out_of_vocabulary": unknown,
            **count_empty(examples, lambda text: bags[text].cloud is None),
            "truncated": truncated,
        }
        return counts, tokens

    def explain_example(self, example: Example, statistics: Any) -> Moves:
        """The transport plan to the reference with the best score."""
        bags = self._bags(distinct_texts([example]))
        mine = bags[example.prediction]
        scores = [self._score(mine, bags[reference]) for reference in example.references]
        number = scores.index(max(scores))
        theirs = bags[example.references[number]]
        against = {self.name: scores[number]}
        clouds = self._clouds(mine, theirs)
        if clouds is None:
            plan = Plan(number, against, None, [])
        else:
            moved = transport.plan(*clouds)
            plan = Plan(number, against, moved.cost, describe(moved, clouds, mine, theirs))
        values = {self.name: over_references(scores, self.multi_reference)}
        return Moves(self.name, values, example.prediction, example.references, [plan])
