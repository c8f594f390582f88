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
from summarily.metrics.base import Example, Metric, Values, make_examples, weighted_mean
from summarily.metrics.movers import (
    Bag,
    StaticEmbedder,
    chosen_stop_words,
    describe,
    distinct_texts,
    fit,
    one_of,
    too_many,
)
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


class MeanPooling:
    """The mean of a transformer's last states over all tokens, as MiniLM's card does it."""

    def __init__(self, model: str | os.PathLike[str], revision: str | None, device: str | None):
        self.model = model
        self.revision = revision
        self.device = device

    @cached_property
    def _encoder(self) -> Any:
        from summarily.metrics.encoding import encoder

        return encoder(self.model, self.revision, self.device)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        shared = self._encoder
        last = shared.num_layers
        encoded = shared.encode(texts, [last])
        return np.stack([one.states[last].double().mean(0).cpu().numpy() for one in encoded])

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        shared = self._encoder
        return [one.truncated for one in shared.encode(texts, [shared.num_layers])]

    def requests(self, texts: Sequence[str]) -> list[Request]:
        from summarily.metrics.encoding import Request

        shared = self._encoder
        return [Request(shared, texts, [shared.num_layers])]

    def signature_fields(self) -> dict[str, Any]:
        shared = self._encoder
        return {
            "model": shared.identity,
            "pooling": "mean",
            "tokenizer": shared.tokenizer_name,
            "truncation": shared.max_length,
        }


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
    ):
        one_of("preset", preset, ("light", "paper"))
        one_of("multi_reference", multi_reference, ("mean", "max"))
        if not (math.isfinite(alpha) and alpha > 0):
            raise InputError(f"alpha={alpha}; expected a positive number.")
        self.preset = preset
        self.model = model or ("minilm" if preset == "light" else None)
        self.revision = revision
        self.device = device
        self.alpha = float(alpha)
        self.multi_reference = multi_reference
        left_out, self.stop_words_name = chosen_stop_words(stop_words)
        name = vectors or ("glove-6b-50d" if preset == "light" else PAPER_VECTORS)
        # Words without a vector are dropped: the paper's distance is gensim's.
        self.words = StaticEmbedder(name, left_out, out_of_vocabulary="drop", split=False)

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
            return InferSent(weights.resolve(model), self.device)
        return MeanPooling(model, self.revision, self.device)

    def signature_fields(self, statistics: Any) -> dict[str, Any]:
        return {
            **self._sentence_encoder.signature_fields(),
            **self.words.signature_fields(),
            "words": "letters",
            "stop_words": self.stop_words_name,
            "alpha": self.alpha,
            "refs": self.multi_reference,
            "solver": "exact",
        }

    def requests(self, examples: Sequence[Example]) -> list[Request]:
        return self._sentence_encoder.requests(distinct_texts(examples))

    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        parts, bags, truncated = self._parts(examples)
        chosen = [self._aggregate([parts[e.prediction, r] for r in e.references]) for e in examples]
        counts = dict.fromkeys(
            ("out_of_vocabulary", "empty_predictions", "empty_references", "truncated", "clipped"), 0
        )
        for example in examples:
            texts = (example.prediction, *example.references)
            counts["empty_predictions"] += bags[example.prediction].cloud is None
            counts["empty_references"] += sum(bags[text].cloud is None for text in example.references)
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
        pairs = list(dict.fromkeys((e.prediction, r) for e in examples for r in e.references))
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

    def _aggregate(self, parts: Sequence[tuple[float, float, float]]) -> tuple[float, ...]:
        if self.multi_reference == "max":
            return max(parts)
        return tuple(weighted_mean(column) for column in zip(*parts, strict=True))

    def explain(
        self, prediction: str, references: Any, source: str | None = None, statistics: Any = None
    ) -> dict[str, Any]:
        """The sub-scores against each reference, and how the words travel to it.

        Returns:
            "vert" and, for each reference, "vert", "similarity", "distance" and "flows" (see `Movers.explain`;
            empty if a text has no word with a vector).
        """
        example = make_examples([prediction], [references])[0]
        parts, bags, _ = self._parts([example])
        mine = bags[example.prediction]
        against = []
        for reference in example.references:
            vert, similarity, distance = parts[example.prediction, reference]
            flows = []
            if mine.cloud is not None and (theirs := bags[reference]).cloud is not None:
                clouds = fit(mine.cloud, theirs.cloud, _MAX_POINTS)
                flows = describe(transport.plan(*clouds), clouds, mine, theirs)
            against.append({"vert": vert, "similarity": similarity, "distance": distance, "flows": flows})
        score = self._aggregate([parts[example.prediction, r] for r in example.references])
        return {"metric": self.name, "vert": score[0], "references": against}


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
