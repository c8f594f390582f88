"""Word mover's, sentence mover's, and sentence and word mover's similarity: one algorithm, three bags.

A text is a bag of points with masses: its words, its sentences, or both. The similarity of two texts is
exp(-EMD) over Euclidean distances (Clark, Celikyilmaz and Smith 2019, Eqs. 1 to 5). The scorers in `wms`,
`sms` and `s_wms` only say which bag it is. Points come from static word vectors or from a contextual encoder.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from summarily.metrics import transport
from summarily.metrics.base import Example, Metric, Values, make_examples, weighted_mean
from summarily.support import text as text_rules
from summarily.support import vectors as word_vectors
from summarily.support import weights
from summarily.support.errors import InputError

if TYPE_CHECKING:
    from summarily.metrics.encoding import Encoded, Encoder, Request

CITATION = """@inproceedings{clark-etal-2019-sentence,
    title = "Sentence Mover's Similarity: Automatic Evaluation for Multi-Sentence Texts",
    author = "Clark, Elizabeth and Celikyilmaz, Asli and Smith, Noah A.",
    booktitle = "Proceedings of the 57th Annual Meeting of the Association for Computational Linguistics",
    year = "2019",
    pages = "2748--2760",
    url = "https://aclanthology.org/P19-1264",
}"""

PAPER_VECTORS = "stanfordnlp/glove/glove.840B.300d.zip"


# --- texts as points --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sentence:
    """The points of the words that are kept of a sentence, each once, with what identifies it, and its count."""

    text: str
    keys: list[Hashable]
    counts: NDArray[np.int64]
    points: NDArray[np.float64]
    size: int
    """How many words, repetitions included."""
    name: Callable[[Any], str]
    """From a key to the text of the word."""

    @property
    def words(self) -> list[str]:
        return [self.name(key) for key in self.keys]

    @property
    def key(self) -> Hashable:
        """Equal for sentences of the same words."""
        return "sentence", *zip(self.keys, self.counts.tolist(), strict=True)

    @property
    def mean(self) -> NDArray[np.float64]:
        return self.counts @ self.points / self.size


@dataclass(slots=True)
class Embedded:
    """A text's sentences that have a word left, and what was left out of it."""

    sentences: list[Sentence]
    out_of_vocabulary: int = 0
    truncated: bool = False
    is_known: bool = True
    """False if no word has a vector: then its points say nothing."""


class Embedder(ABC):
    """Turns texts into points."""

    @abstractmethod
    def embed(self, distinct: Collection[str]) -> dict[str, Embedded]:
        """The points of each text."""

    @abstractmethod
    def signature_fields(self) -> dict[str, Any]:
        """What the signature says about the points."""

    @abstractmethod
    def check(self) -> None:
        """Raise `MissingRequirement` if the weights are not here."""

    def requests(self, distinct: Collection[str]) -> list[Request]:
        """The encoder passes that `embed` will want."""
        return []


class StaticEmbedder(Embedder):
    """Word vectors that do not depend on the context.

    Args:
        name: which vectors (see `vectors.load`).
        stop_words: words to leave out.
        out_of_vocabulary: give words without a vector the "zero" vector, as the paper, or "drop" them.
        split: whether the sentences matter; if not, the text is taken as one.

    Example:
        >>> embedded = StaticEmbedder("glove-6b-50d", frozenset({"the"})).embed(["The cat. The cat!"])
        >>> [sentence.words for sentence in embedded["The cat. The cat!"].sentences]
        [['cat'], ['cat']]
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        stop_words: frozenset[str],
        out_of_vocabulary: str = "zero",
        split: bool = True,
    ):
        self.name = name
        self.stop_words = stop_words
        self.out_of_vocabulary = out_of_vocabulary
        self.split = split

    @cached_property
    def _source(self) -> word_vectors.Source:
        """Found and verified once in the life of the metric."""
        return word_vectors.Source.of(self.name)

    @property
    def vectors(self) -> word_vectors.Vectors:
        return self._source.load()

    def check(self) -> None:
        word_vectors.check(self.name)

    def signature_fields(self) -> dict[str, Any]:
        return {"vectors": self.vectors.identity, "out_of_vocabulary": self.out_of_vocabulary}

    def embed(self, distinct: Collection[str]) -> dict[str, Embedded]:
        """All texts at once: a loop over numpy calls for each text would cost more than the transport."""
        parts = {text: text_rules.sentences(text) if self.split else [text] for text in distinct}
        sentences, missing = self._embed([part for text in parts for part in parts[text]])
        result = {}
        for text, own in parts.items():
            kept = [sentence for sentence in islice(sentences, len(own)) if sentence is not None]
            lost = sum(islice(missing, len(own)))
            is_known = not lost or any(sentence.points.any() for sentence in kept)
            result[text] = Embedded(kept, lost, is_known=is_known)
        return result

    def _embed(self, parts: Sequence[str]) -> tuple[Iterator[Sentence | None], Iterator[int]]:
        """For each part its sentence, None if no word is left, and how many words have no vector."""
        table = self.vectors
        stop_words, find = self.stop_words, table.find
        # A word is known by its row; one without a vector, by a number beyond all rows.
        numbers: dict[str, int] = {}
        flat: list[int] = []
        sizes, missing = [], []
        for part in parts:
            words = [word for word in text_rules.word_texts(part) if word not in stop_words]
            rows = find(words)
            lost = rows.count(-1)
            if lost and self.out_of_vocabulary == "drop":
                rows = [row for row in rows if row != -1]
            elif lost:
                for i, word in enumerate(words):
                    if rows[i] == -1:
                        rows[i] = numbers.setdefault(word, len(table.matrix) + len(numbers))
            flat += rows
            sizes.append(len(rows))
            missing.append(lost)
        return self._counted(parts, flat, sizes, list(numbers), table), iter(missing)

    @staticmethod
    def _counted(
        parts: Sequence[str],
        flat: list[int],
        sizes: list[int],
        unknown: list[str],
        table: word_vectors.Vectors,
    ) -> Iterator[Sentence | None]:
        """Sentences with each of their words once, in the order of the rows: any order of words gives the same."""
        span = len(table.matrix) + len(unknown)
        part_of = np.repeat(np.arange(len(parts)), sizes)
        codes, counts = np.unique(part_of * span + np.array(flat, np.int64), return_counts=True)
        part_of, rows = np.divmod(codes, span)
        starts = np.searchsorted(part_of, np.arange(len(parts) + 1)).tolist()
        known, found = table.words, len(table.matrix)
        keys = rows.tolist()

        def name(row: int) -> str:
            return known[row] if row < found else unknown[row - found]

        rows[rows >= found] = -1
        points = table.take(rows).astype(np.float64)
        for part, size, (start, end) in zip(parts, sizes, pairwise(starts), strict=True):
            yield (
                Sentence(part, keys[start:end], counts[start:end], points[start:end], size, name)
                if size
                else None
            )


class ContextualEmbedder(Embedder):
    """Words in their context: the mean of the layers, then of a word's pieces. Each token is its own type.

    Args:
        model, revision, device: the encoder (see `encoding.encoder`).
        layers: the layers whose mean is taken; by default the last three.
        context: "sentence" encodes each sentence on its own, "text" the whole text, up to the model's limit.
        stop_words: words to leave out after encoding.
        max_words: a text is cut after the sentence in which it passes this many words ("sentence" only).
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        revision: str | None,
        device: str | None,
        layers: Sequence[int] | None,
        context: str,
        stop_words: frozenset[str],
        max_words: int,
    ):
        self.model = model
        self.revision = revision
        self.device = device
        self.asked_layers = layers
        self.context = context
        self.stop_words = stop_words
        self.max_words = max_words

    @cached_property
    def encoder(self) -> Encoder:
        """Found and verified once in the life of the metric."""
        from summarily.metrics.encoding import encoder

        return encoder(self.model, self.revision, self.device)

    @property
    def layers(self) -> list[int]:
        shared = self.encoder
        if self.asked_layers is None:
            return shared.last_layers(3)
        return sorted({shared.layer(layer) for layer in self.asked_layers})

    def check(self) -> None:
        weights.check(self.model, self.revision)

    def signature_fields(self) -> dict[str, Any]:
        shared = self.encoder
        return {
            "model": shared.identity,
            "layers": self.layers,
            "context": self.context,
            "tokenizer": shared.tokenizer_name,
            "truncation": shared.max_length,
        }

    def requests(self, distinct: Collection[str]) -> list[Request]:
        from summarily.metrics.encoding import Request

        parts = dict.fromkeys(part for text in distinct for part, _ in self._parts(text)[0])
        return [Request(self.encoder, list(parts), self.layers)]

    def _parts(self, text: str) -> tuple[list[tuple[str, int]], bool]:
        """What is encoded of a text, each with the number of its kept words, and whether it was cut."""
        if self.context == "text":
            return [(text, 0)], False
        parts: list[tuple[str, int]] = []
        total = 0
        for sentence in text_rules.sentences(text):
            if total >= self.max_words:
                return parts, True
            size = sum(word not in self.stop_words for word in text_rules.word_texts(sentence))
            if size:
                parts.append((sentence, size))
                total += size
        return parts, False

    def embed(self, distinct: Collection[str]) -> dict[str, Embedded]:
        shared, layers = self.encoder, self.layers
        result = {}
        for text in distinct:
            parts, cut = self._parts(text)
            encoded = shared.encode([part for part, _ in parts], layers)
            sentences = [
                sentence
                for (part, _), states in zip(parts, encoded, strict=True)
                for sentence in self._sentences(part, states, layers)
            ]
            result[text] = Embedded(sentences, 0, cut or any(states.truncated for states in encoded))
        return result

    def _sentences(self, part: str, encoded: Encoded, layers: Sequence[int]) -> Iterable[Sentence]:
        """The sentences of an encoded part, which is one sentence or a text of several."""
        words = [word for word in text_rules.words(part) if word.text not in self.stop_words]
        words, points = _word_points(words, encoded, layers)
        spans = [(0, len(part))] if self.context == "sentence" else text_rules.sentence_spans(part)
        starts = np.array([word.start for word in words])
        for start, end in spans:
            first, last = np.searchsorted(starts, [start, end])
            if last > first:
                own = points[first:last]
                keys: list[Hashable] = [point.tobytes() for point in own]
                names = dict(zip(keys, (word.text for word in words[first:last]), strict=True))
                ones = np.ones(len(own), np.int64)
                yield Sentence(part[start:end], keys, ones, own, len(own), names.__getitem__)


def _word_points(
    words: list[text_rules.Word], encoded: Encoded, layers: Sequence[int]
) -> tuple[list[text_rules.Word], NDArray[np.float64]]:
    """The words that have pieces (the others were cut off), and the mean of the pieces of each."""
    import torch

    if encoded.offsets is None:
        raise InputError("contextual embeddings need a fast tokenizer, which knows where its tokens stand.")
    states = torch.stack([encoded.states[layer] for layer in layers]).to(torch.float64).mean(0).cpu().numpy()
    if not words:
        return [], states[:0]
    # A piece belongs to the word that its last character is in; some pieces begin with a space.
    ends = np.array([end for _, end in encoded.offsets]) - 1
    ends[np.array(encoded.special)] = -1
    place = np.searchsorted([word.start for word in words], ends, side="right") - 1
    inside = (place >= 0) & (ends < np.array([word.end for word in words])[place])
    sums = np.zeros((len(words), states.shape[1]))
    np.add.at(sums, place[inside], states[inside])
    pieces = np.bincount(place[inside], minlength=len(words))
    found = pieces.nonzero()[0]
    return [words[i] for i in found], sums[found] / pieces[found, None]


# --- bags -------------------------------------------------------------------------------------------------


class Bag:
    """A text as a cloud of its words, of its sentences, or of both; the cloud is None if no word is left.

    A word has its count as mass (Eq. 1), a sentence its number of words (Eq. 4); with both, each half of the
    mass (Eq. 5), since both sum to the number of words.
    """

    def __init__(self, embedded: Embedded, units: Collection[str]):
        self.embedded = embedded
        self.units = units
        self.cloud: transport.Cloud | None
        sentences = embedded.sentences
        self.tokens = sum(sentence.size for sentence in sentences)
        if len(sentences) == 1 and tuple(units) == ("word",):  # the common case, and a cheap one
            only = sentences[0]
            self.cloud = transport.Cloud.of_counts(only.points, only.counts, only.keys, only.size)
            return
        points: list[NDArray[Any]] = []
        masses: list[NDArray[np.int64]] = []
        keys: list[Hashable] = []
        if "word" in units:
            for sentence in sentences:
                points.append(sentence.points)
                masses.append(sentence.counts)
                keys += sentence.keys
        if "sentence" in units and sentences:
            points.append(np.stack([sentence.mean for sentence in sentences]))
            masses.append(np.array([sentence.size for sentence in sentences]))
            keys += [sentence.key for sentence in sentences]
        self.cloud = transport.Cloud(_joined(points), _joined(masses), keys) if points else None

    @property
    def out_of_vocabulary(self) -> int:
        return self.embedded.out_of_vocabulary

    @property
    def truncated(self) -> bool:
        return self.embedded.truncated

    @property
    def labels(self) -> dict[Hashable, tuple[str, str]]:
        """What the cloud's keys stand for: ("word" or "sentence", its text)."""
        labels: dict[Hashable, tuple[str, str]] = {}
        for sentence in self.embedded.sentences:
            labels.setdefault(sentence.key, ("sentence", sentence.text))
            for key in sentence.keys:
                labels[key] = ("word", sentence.name(key))
        return labels

    def equals(self, other: Bag) -> bool:
        """Whether both hold the same words or sentences equally often."""
        mine, theirs = self.cloud, other.cloud
        if mine is None or theirs is None or mine.place.keys() != theirs.place.keys():
            return False
        return all(mine.masses[i] == theirs.masses[theirs.place[key]] for key, i in mine.place.items())


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def most_points(first: transport.Cloud, second: transport.Cloud, max_points: int) -> int:
    """How many points either of two clouds may have.

    As many as give `max_points ** 2` distances, which bounds the memory, but no more than 8 times `max_points`,
    since the solver's time grows with the square of the larger side.
    """
    smaller = min(len(first), len(second), max_points)
    return min(max_points**2 // smaller, 8 * max_points)


def fit(
    first: transport.Cloud, second: transport.Cloud, max_points: int
) -> tuple[transport.Cloud, transport.Cloud]:
    """Clouds of which the one that has too many points keeps its heaviest."""
    if len(first) <= max_points and len(second) <= max_points:
        return first, second
    most = most_points(first, second, max_points)
    return _heaviest(first, most), _heaviest(second, most)


def too_many(first: Bag, second: Bag, max_points: int) -> bool:
    """Whether `fit` has to leave points out."""
    if first.cloud is None or second.cloud is None:
        return False
    larger = max(len(first.cloud), len(second.cloud))
    return larger > max_points and larger > most_points(first.cloud, second.cloud, max_points)


def _heaviest(cloud: transport.Cloud, count: int) -> transport.Cloud:
    if len(cloud) <= count:
        return cloud
    kept = np.sort(np.argsort(-cloud.masses, kind="stable")[:count])
    keys = cloud.keys
    return transport.Cloud(cloud.points[kept], cloud.masses[kept], [keys[i] for i in kept])


# --- the metric -------------------------------------------------------------------------------------------


class Movers(Metric):
    """What WMS, SMS and S+WMS share.

    Args:
        preset: "light" (GloVe 6B 50-d, MiniLM) or "paper" (GloVe 840B 300-d from the Hub; no contextual ones).
        embeddings: "static" word vectors, or "contextual" ones of an encoder.
        vectors: static vectors (see `vectors.load`).
        model, revision, device: the encoder (see `encoding.encoder`).
        layers: the encoder layers whose mean is taken; by default the last three.
        context: "text" encodes the whole text; "sentence" its sentences one by one, as the paper. The text
            is the default because it agrees better with people: on half of the paper's Summaries set, MiniLM,
            pooled Spearman of WMS, SMS and S+WMS is .217, .286, .251 against .195, .249, .220.
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
        context: str = "text",
        stop_words: bool | Collection[str] = True,
        out_of_vocabulary: str = "zero",
        multi_reference: str = "max",
        on_empty: float = 0.0,
        max_points: int = 4000,
    ):
        one_of("preset", preset, ("light", "paper"))
        one_of("embeddings", embeddings, ("static", "contextual"))
        one_of("context", context, ("sentence", "text"))
        one_of("out_of_vocabulary", out_of_vocabulary, ("drop", "zero"))
        one_of("multi_reference", multi_reference, ("max", "mean"))
        contextual = {"model": model, "revision": revision, "device": device, "layers": layers}
        misplaced = contextual if embeddings == "static" else {"vectors": vectors}
        for name, value in misplaced.items():
            if value is not None:
                raise InputError(f"{name}= has no meaning with embeddings={embeddings!r}.")
        if preset == "paper" and embeddings == "contextual" and model is None:
            raise InputError(
                "the paper's contextual embeddings are ELMo's, which no preset has; name an encoder as model=, or leave "
                "preset= out."
            )
        if max_points < 1:
            raise InputError(f"max_points={max_points}; expected at least 1.")
        if not math.isfinite(on_empty):
            raise InputError(f"on_empty={on_empty}; expected a finite number.")
        self.preset = preset
        self.embeddings = embeddings
        self.multi_reference = multi_reference
        self.on_empty = float(on_empty)
        self.max_points = max_points
        left_out, self.stop_words_name = chosen_stop_words(stop_words)
        self.embedder: Embedder
        if embeddings == "static":
            default = PAPER_VECTORS if preset == "paper" else "glove-6b-50d"
            self.embedder = StaticEmbedder(
                vectors or default, left_out, out_of_vocabulary, split="sentence" in self.units
            )
        else:
            self.embedder = ContextualEmbedder(
                model or "minilm", revision, device, layers, context, left_out, max_points
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
            "stop_words": self.stop_words_name,
            "refs": self.multi_reference,
            "on_empty": self.on_empty,
            "max_points": self.max_points,
            "solver": "exact",
        }

    def requests(self, examples: Sequence[Example]) -> list[Request]:
        return self.embedder.requests(distinct_texts(examples))

    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        bags = self._bags(distinct_texts(examples))
        pairs = list(dict.fromkeys((e.prediction, reference) for e in examples for reference in e.references))
        scores = dict(
            zip(
                pairs,
                transport.in_threads(lambda pair: self._score(bags[pair[0]], bags[pair[1]]), pairs),
                strict=True,
            )
        )
        values = [self._aggregate([scores[e.prediction, r] for r in e.references]) for e in examples]
        return Values({self.name: values}, *self._count(examples, bags))

    def _bags(self, distinct: Collection[str]) -> dict[str, Bag]:
        return {text: Bag(e, self.units) for text, e in self.embedder.embed(distinct).items()}

    def _score(self, prediction: Bag, reference: Bag) -> float:
        clouds = self._clouds(prediction, reference)
        if clouds is None:
            return self.on_empty
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

    def _aggregate(self, scores: Sequence[float]) -> float:
        return max(scores) if self.multi_reference == "max" else weighted_mean(scores)

    def _count(self, examples: Sequence[Example], bags: dict[str, Bag]) -> tuple[dict[str, int], int]:
        """What the examples lack, and how many tokens they have."""
        unknown = empty_predictions = empty_references = truncated = tokens = 0
        for example in examples:
            prediction = bags[example.prediction]
            empty_predictions += prediction.cloud is None
            unknown += prediction.embedded.out_of_vocabulary
            truncated += prediction.embedded.truncated
            tokens += prediction.tokens
            for text in example.references:
                reference = bags[text]
                empty_references += reference.cloud is None
                unknown += reference.embedded.out_of_vocabulary
                truncated += reference.embedded.truncated or too_many(prediction, reference, self.max_points)
                tokens += reference.tokens
        counts = {
            "out_of_vocabulary": unknown,
            "empty_predictions": empty_predictions,
            "empty_references": empty_references,
            "truncated": truncated,
        }
        return counts, tokens

    def explain(
        self, prediction: str, references: Any, source: str | None = None, statistics: Any = None
    ) -> dict[str, Any]:
        """The transport plan to the reference with the best score.

        Returns:
            "score", "reference" (its number), "distance" and "flows", the most costly first: what goes "from"
            the prediction "to" the reference (texts, and their units), the "mass", the "distance", and the
            "cost", their product.
        """
        example = make_examples([prediction], [references])[0]
        bags = self._bags(distinct_texts([example]))
        mine = bags[example.prediction]
        scores = [self._score(mine, bags[reference]) for reference in example.references]
        best = scores.index(max(scores))
        theirs = bags[example.references[best]]
        result = {"metric": self.name, "score": self._aggregate(scores), "reference": best}
        clouds = self._clouds(mine, theirs)
        if clouds is None:
            return {**result, "distance": None, "flows": []}
        plan = transport.plan(*clouds)
        return {**result, "distance": plan.cost, "flows": describe(plan, clouds, mine, theirs)}


def describe(
    plan: transport.Plan, clouds: tuple[transport.Cloud, transport.Cloud], first: Bag, second: Bag
) -> list[dict[str, Any]]:
    """A transport plan in words, ready for JSON, the most costly flow first."""
    flows = []
    labels = first.labels, second.labels
    starts, ends = ([names[key] for key in cloud.keys] for names, cloud in zip(labels, clouds, strict=True))
    for flow in plan.flows:
        from_unit, from_text = starts[flow.source]
        to_unit, to_text = ends[flow.target]
        flows.append(
            {
                "from": from_text,
                "from_unit": from_unit,
                "to": to_text,
                "to_unit": to_unit,
                "mass": flow.mass,
                "distance": flow.distance,
                "cost": flow.mass * flow.distance,
            }
        )
    return sorted(flows, key=lambda flow: -flow["cost"])


def distinct_texts(examples: Sequence[Example]) -> list[str]:
    """Every prediction and reference once, in the order of appearance."""
    return list(dict.fromkeys(text for e in examples for text in (e.prediction, *e.references)))


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Raise an `InputError` unless an option has one of its values."""
    if value not in allowed:
        raise InputError(f"{name}={value!r}; expected one of {', '.join(map(repr, allowed))}.")


def chosen_stop_words(chosen: bool | Collection[str]) -> tuple[frozenset[str], str]:
    """The stop words that an option stands for, and their name for the signature.

    Example:
        >>> chosen_stop_words(["The", "a"])[1]
        'custom-2-11a3ae8f'
    """
    if chosen is True:
        return text_rules.STOP_WORDS, text_rules.STOP_WORDS_NAME
    if chosen is False:
        return frozenset(), "none"
    if isinstance(chosen, str) or not all(isinstance(word, str) for word in chosen):
        raise InputError(f"stop_words={chosen!r:.40}; expected True, False, or a collection of words.")
    words = frozenset(word.lower() for word in chosen)
    digest = hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()[:8]
    return words, f"custom-{len(words)}-{digest}"
