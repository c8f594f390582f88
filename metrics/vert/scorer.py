"""VERT: a sentence encoder's cosine similarity, less the word mover's distance."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from summarily.metrics import transport
from summarily.metrics.base import Example, Metric, Values, count_empty, distinct_pairs, distinct_texts
from summarily.metrics.explanations import Moves, Plan
from summarily.metrics.movers.bags import Bag, describe, fit, too_many
from summarily.metrics.movers.static import StaticEmbedder
from summarily.metrics.options import DTYPES, PRESETS, EncoderOptions, StopWords, one_of
from summarily.metrics.references import combined
from summarily.support import models, weights
from summarily.support import text as text_rules
from summarily.support.errors import InputError, MissingRequirement
from summarily.support.inputs import read_json
from summarily.support.keys import Key

if TYPE_CHECKING:
    from summarily.metrics.encoding import Request

PAPER_VECTORS = "NathaNn1111/word2vec-google-news-negative-300-bin/GoogleNews-vectors-negative300.bin"
_INFERSENT = "summarily-infersent"
_MAX_POINTS = 4000
_INFERSENT_BATCH = 64


def vert_from_parts(similarity: float, distance: float, alpha: float = 5.0) -> float:
    """VERT of its two sub-scores (Eq. 2).

    Example:
        >>> round(vert_from_parts(0.979, 0.418), 4)
        0.9477
    """
    return (1 + similarity - min(distance, alpha) / alpha) / 2


# --- sentence encoders ------------------------------------------------------------------------------------


class SentenceEncoder(Protocol):
    """One vector per text."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float64]: ...
    def signature_fields(self) -> dict[str, Any]: ...
    def requests(self, texts: Sequence[str]) -> list[Request]: ...
    def truncated(self, texts: Sequence[str]) -> list[bool]: ...


class InferSent:
    """A converted InferSent model (see `modeling/infersent`); texts have no length limit."""

    def __init__(self, resolved: weights.Resolved, device: str | None):
        self.resolved = resolved
        self.device = device

    def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        import torch

        key = ("infersent", self.resolved, self.device)
        model, tokenizer = models.get(key, self._load)
        sentences = [text_rules.sentences(text) or [text] for text in texts]
        rows = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        result = np.empty((len(texts), 2 * model.config.hidden_size))
        for start in range(0, len(rows), _INFERSENT_BATCH):
            batch = rows[start : start + _INFERSENT_BATCH]
            inputs = tokenizer([sentences[row] for row in batch])
            with torch.inference_mode():
                output = model(**{name: tensor.to(model.device) for name, tensor in inputs.items()})
            result[batch] = output.pooler_output.double().cpu().numpy()
        return result

    def _load(self) -> tuple[Any, Any]:
        from summarily.modeling.infersent.modeling_infersent import InferSentModel
        from summarily.modeling.infersent.tokenization_infersent import InferSentTokenizer

        folder = self.resolved.path_or_id
        model = InferSentModel.from_pretrained(folder).eval()
        placed = model if self.device is None else model.to(self.device)
        return placed, InferSentTokenizer.from_pretrained(folder)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        return [False] * len(texts)

    def requests(self, texts: Sequence[str]) -> list[Request]:
        return []

    def signature_fields(self) -> dict[str, Any]:
        return {"model": self.resolved.identity, "pooling": "max", "tokenizer": "infersent"}


# --- the metric -------------------------------------------------------------------------------------------


class Vert(Metric):
    """Versatile Evaluation of Reduced Texts (Krantz and Kalita 2018, Eq. 2).

    VERT = (1 + similarity - distance / alpha) / 2: the cosine of two sentence embeddings, and the word mover's
    distance, clipped at alpha. `Wms` is the distance alone, as exp(-distance).

    Args:
        preset: "light" (MiniLM and GloVe 6B 50-d) or "paper" (InferSent and GoogleNews word2vec).
        model, revision, device: the sentence encoder: any encoder (mean pooling), or a folder that
            `convert_infersent` has made.
        vectors: the word vectors (see `vectors.load`), used as they are, not normalised.
        alpha: the largest distance, which also counts where a text has no word with a vector.
        stop_words: True for `text.STOP_WORDS`, False for none, or your own words.
        multi_reference: "mean" over the references, as the paper, or "max" of VERT.
        dtype: of the encoder (see `encoding.encoder`); InferSent runs in float32 alone.

    Example:
        >>> round(Vert().compute(["go left and then right"], ["go right and then left"]).mean["vert_distance"], 3)
        0.0
    """

    name = "vert"
    summary = "VERT: cosine similarity of sentence embeddings, less the word mover's distance"
    needs = "MiniLM and GloVe 6B 50-d (offline extra)"
    citation = """@inproceedings{krantz-kalita-2018-abstractive,
    title = "Abstractive Summarization Using Attentive Neural Techniques",
    author = "Krantz, Jacob and Kalita, Jugal",
    booktitle = "Proceedings of the 15th International Conference on Natural Language Processing",
    year = "2018",
    pages = "1--9",
    url = "https://aclanthology.org/W18-6501",
}"""

    def __init__(
        self,
        preset: str = "light",
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        device: str | None = None,
        vectors: str | os.PathLike[str] | None = None,
        alpha: float = 5.0,
        stop_words: bool | Collection[str] = True,
        multi_reference: str = "mean",
        dtype: str = "float32",
    ):
        if not (math.isfinite(alpha) and alpha > 0):
            raise InputError(f"alpha={alpha}; expected a positive number.")
        self.preset = one_of("preset", preset, PRESETS)
        self.model = model or ("minilm" if preset == "light" else None)
        self.revision = revision
        self.device = device
        self.dtype = one_of("dtype", dtype, DTYPES)
        self.alpha = float(alpha)
        self.multi_reference = one_of("multi_reference", multi_reference, ("mean", "max"))
        self.stop_words = StopWords.of(stop_words)
        name = vectors or ("glove-6b-50d" if preset == "light" else PAPER_VECTORS)
        # Words without a vector are dropped: the paper's distance is gensim's.
        self.words = StaticEmbedder(name, self.stop_words.words, out_of_vocabulary="drop", split=False)

    def check(self) -> None:
        weights.check(self._model(), self.revision)
        self.words.check()

    def _model(self) -> str | os.PathLike[str]:
        if self.model is None:
            raise MissingRequirement(
                "the paper preset of vert needs InferSent, which is not on the Hub: convert the published "
                "infersent1.pkl (python -m summarily.modeling.infersent.convert_infersent --help) and pass "
                "model= the folder."
            )
        return self.model

    @property
    def keys(self) -> tuple[str, ...]:
        return ("vert", "vert_similarity", Key("vert_distance", higher_is_better=False))

    @cached_property
    def _sentence_encoder(self) -> SentenceEncoder:
        """Found and verified once in the life of the metric."""
        model = self._model()
        config = Path(model).expanduser() / "config.json"
        if config.is_file() and read_json(config, dict).get("model_type") == _INFERSENT:
            if self.dtype != "float32":
                raise InputError(f"dtype={self.dtype!r}: InferSent runs in float32; leave dtype= out.")
            return InferSent(weights.resolve(model), self.device)
        from summarily.metrics.encoding.pooling import MeanPooling

        return MeanPooling(EncoderOptions(model, self.revision, self.device, dtype=self.dtype))

    def signature_fields(self, statistics: Any) -> dict[str, Any]:
        return {
            **self._sentence_encoder.signature_fields(),
            **self.words.signature_fields(),
            "words": "letters",
            "stop_words": self.stop_words.named(),
            "alpha": self.alpha,
            "refs": self.multi_reference,
            "solver": "exact",
        }

    def requests(self, examples: Sequence[Example]) -> list[Request]:
        return self._sentence_encoder.requests(distinct_texts(examples))

    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        parts, bags, truncated = self._parts(examples)
        chosen = [self._over_references([parts[e.prediction, r] for r in e.references]) for e in examples]
        counts = {
            "out_of_vocabulary": 0,
            **count_empty(examples, lambda text: bags[text].cloud is None),
            "truncated": 0,
            "clipped": 0,
        }
        for example in examples:
            texts = (example.prediction, *example.references)
            counts["out_of_vocabulary"] += sum(bags[text].out_of_vocabulary for text in texts)
            counts["truncated"] += sum(truncated[text] for text in texts)
            counts["truncated"] += sum(
                too_many(bags[example.prediction], bags[text], _MAX_POINTS) for text in example.references
            )
            counts["clipped"] += sum(
                parts[example.prediction, r][2] >= self.alpha for r in example.references
            )
        columns = {key: [row[column] for row in chosen] for column, key in enumerate(self.keys)}
        tokens = sum(bags[text].tokens for e in examples for text in (e.prediction, *e.references))
        return Values(columns, counts, tokens)

    def _parts(
        self, examples: Sequence[Example]
    ) -> tuple[dict[tuple[str, str], tuple[float, float, float]], dict[str, Bag], dict[str, bool]]:
        """VERT, similarity and distance of each pair; the bags of words; and which texts were cut."""
        texts = distinct_texts(examples)
        encoder = self._sentence_encoder
        embeddings = dict(zip(texts, encoder.embed(texts), strict=True))
        bags = {text: Bag(embedded, ("word",)) for text, embedded in self.words.embed(texts).items()}
        pairs = distinct_pairs(examples)
        distances = transport.in_threads(lambda pair: self._distance(bags[pair[0]], bags[pair[1]]), pairs)
        parts = {}
        for pair, distance in zip(pairs, distances, strict=True):
            empty = not pair[0].strip() or not pair[1].strip()
            similarity = 0.0 if empty else cosine(embeddings[pair[0]], embeddings[pair[1]])
            parts[pair] = vert_from_parts(similarity, distance, self.alpha), similarity, distance
        return parts, bags, dict(zip(texts, encoder.truncated(texts), strict=True))

    def _distance(self, prediction: Bag, reference: Bag) -> float:
        if prediction.cloud is None or reference.cloud is None:
            return self.alpha
        return min(transport.distance(*fit(prediction.cloud, reference.cloud, _MAX_POINTS)), self.alpha)

    def _over_references(self, parts: Sequence[tuple[float, float, float]]) -> tuple[float, ...]:
        # "max" is of VERT; its sub-scores are those of the same reference, and settle a tie.
        rule = "best" if self.multi_reference == "max" else self.multi_reference
        return combined(parts, rule, main=tuple)

    def explain_example(self, example: Example, statistics: Any) -> Moves:
        """The sub-scores against each reference, and how the words travel to it (not at all if a text has no word
        with a vector)."""
        parts, bags, _ = self._parts([example])
        mine = bags[example.prediction]
        plans = []
        for number, reference in enumerate(example.references):
            flows = []
            if mine.cloud is not None and (theirs := bags[reference]).cloud is not None:
                clouds = fit(mine.cloud, theirs.cloud, _MAX_POINTS)
                flows = describe(transport.plan(*clouds), clouds, mine, theirs)
            values = dict(zip(self.keys, parts[example.prediction, reference], strict=True))
            plans.append(Plan(number, values, values["vert_distance"], flows))
        scores = self._over_references([parts[example.prediction, r] for r in example.references])
        values = dict(zip(self.keys, scores, strict=True))
        return Moves(self.name, values, example.prediction, example.references, plans)


def cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The cosine of two vectors; exactly 1 for equal ones, and 0 if one is zero.

    Example:
        >>> cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])).__round__(4)
        0.7071
    """
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    if not lengths:
        return 0.0
    if np.array_equal(first, second):
        return 1.0
    return float(np.clip(first @ second / lengths, -1.0, 1.0))
