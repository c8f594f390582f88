"""A text as a bag of n-grams: which tokens are kept, their vectors, and the vectors and masses of n-grams."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from summarily.metrics.encoding import Encoded

_PUNCTUATION = frozenset(string.punctuation)
_WORD_STARTS = "Ġ▁"
"""What byte-level and SentencePiece tokenizers write for the space before a word."""
_POOLED_TOKENS = 1024


@dataclass(frozen=True)
class Kept:
    """The tokens of a text that count, by their positions."""

    encoded: Encoded
    positions: list[int]

    @property
    def is_empty(self) -> bool:
        """Whether nothing but special tokens is left."""
        special = self.encoded.special
        return all(special[i] for i in self.positions)


class Keep:
    """Leaves out punctuation, stop words and, unless asked for, pieces that continue a word.

    Special tokens stay.
    """

    def __init__(self, stop_words: frozenset[str], subwords: bool, pieces_are_marked: bool):
        self.stop_words = stop_words
        self.subwords = subwords
        self.pieces_are_marked = pieces_are_marked
        self._known: dict[str, bool] = {}

    def __call__(self, encoded: Encoded, text: str) -> Kept:
        known, special = self._known, encoded.special
        positions = []
        for i, token in enumerate(encoded.tokens):
            if not special[i]:
                if token not in known:
                    known[token] = self._by_itself(token)
                if not known[token]:
                    continue
                if not (self.pieces_are_marked or self.subwords) and _touches_a_word(encoded, text, i):
                    continue
            positions.append(i)
        return Kept(encoded, positions)

    def _by_itself(self, token: str) -> bool:
        surface = token.lstrip(_WORD_STARTS)
        if surface in _PUNCTUATION or surface.lower() in self.stop_words:
            return False
        return self.subwords or not (self.pieces_are_marked and token.startswith("##"))


def _touches_a_word(encoded: Encoded, text: str, i: int) -> bool:
    """Where pieces that continue a word are not marked, they are those that touch a word's end."""
    if encoded.offsets is None or i == 0 or encoded.special[i - 1]:
        return False
    start, before = encoded.offsets[i][0], encoded.offsets[i - 1][1]
    return start == before > 0 and text[start - 1].isalnum() and text[start : start + 1].isalnum()


@dataclass(frozen=True)
class NGrams:
    """The n-grams of a text that have mass, as unit vectors."""

    kept: Kept
    size: int
    places: NDArray[np.intp]
    """Which runs of kept tokens these are."""
    vectors: NDArray[np.float64]
    masses: NDArray[np.float64]

    @property
    def names(self) -> list[str]:
        tokens = [self.kept.encoded.tokens[i] for i in self.kept.positions]
        return [" ".join(tokens[place : place + self.size]) for place in self.places.tolist()]

    @property
    def nothing_to_move(self) -> bool:
        return not len(self.masses) or self.kept.is_empty


def squared_distances(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared Euclidean distances between unit vectors; exactly 0 between equal ones.

    Example:
        >>> squared_distances(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
        array([[0., 2.]])
    """
    squared = a @ b.T
    squared *= -2
    squared += 2
    # 2 - 2 cos cancels where the vectors are close: there the difference is taken first.
    rows, columns = (squared < 1e-4).nonzero()
    if len(rows):
        difference = a[rows] - b[columns]
        squared[rows, columns] = np.einsum("ij,ij->i", difference, difference)
    return squared


def bags_of_ngrams(
    texts: Sequence[Kept], layers: Sequence[int], size: int, weight: Callable[[int], float] | None
) -> Iterator[NGrams]:
    """Every run of `size` kept tokens: vector the weighted mean of its tokens', mass the sum of their weights.

    Texts are taken several at a time. One with fewer kept tokens is a single n-gram, as in the authors' code.
    """
    start = 0
    while start < len(texts):
        end, tokens = start + 1, len(texts[start].positions)
        while end < len(texts) and tokens + len(texts[end].positions) <= _POOLED_TOKENS:
            tokens += len(texts[end].positions)
            end += 1
        yield from _bags(texts[start:end], layers, size, weight)
        start = end


def _bags(
    texts: Sequence[Kept], layers: Sequence[int], size: int, weight: Callable[[int], float] | None
) -> Iterator[NGrams]:
    lengths = [len(text.positions) for text in texts]
    vectors = power_means(texts, layers)
    weights = torch.tensor(
        [1.0 if weight is None else weight(text.encoded.ids[i]) for text in texts for i in text.positions],
        dtype=torch.float32,
        device=vectors.device,
    )
    by_size = {size: _runs(vectors, weights, size)}
    first = 0
    for text, length in zip(texts, lengths, strict=True):
        own = min(size, length)
        if own not in by_size:
            by_size[own] = _runs(vectors, weights, own)
        points, masses = by_size[own]
        count = length - own + 1 if length else 0
        mass = masses[first : first + count]
        places = mass.nonzero()[0]
        yield NGrams(text, own, places, points[first + places].astype(np.float64), mass[places])
        first += length


def _runs(
    vectors: torch.Tensor, weights: torch.Tensor, size: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The unit vector and the mass of every run of `size` rows, those that span two texts included."""
    if size == 1:
        return normalize(vectors, dim=-1).cpu().numpy(), weights.cpu().numpy().astype(np.float64)
    count = max(0, len(vectors) - size + 1)
    masses = weights[:count].clone()
    sums = weights[:count, None] * vectors[:count]
    for j in range(1, size):
        masses += weights[j : j + count]
        sums.addcmul_(weights[j : j + count, None], vectors[j : j + count])
    # The weighted mean has the direction of the weighted sum, and only the direction is kept.
    return normalize(sums, dim=-1).cpu().numpy(), masses.cpu().numpy().astype(np.float64)


_pooled: WeakKeyDictionary[Encoded, dict[tuple[int, ...], torch.Tensor]] = WeakKeyDictionary()
"""Power means by text and layers, so that Mover-1 and Mover-2 share them. They go when the text's states go."""


def power_means(texts: Sequence[Kept], layers: Sequence[int]) -> torch.Tensor:
    """The kept tokens of all texts: minimum, mean and maximum of their unit vectors in several layers, side by
    side; of a single layer the unit vectors themselves."""
    key = tuple(layers)
    missing = [text.encoded for text in texts if key not in _pooled.get(text.encoded, {})]
    if missing:
        parts = _pool(missing, key).split([len(encoded) for encoded in missing])
        for encoded, part in zip(missing, parts, strict=True):
            _pooled.setdefault(encoded, {})[key] = part
    rows = torch.cat([_pooled[text.encoded][key] for text in texts])
    starts = itertools.accumulate((len(text.encoded) for text in texts), initial=0)
    wanted = [start + i for text, start in zip(texts, starts, strict=False) for i in text.positions]
    return rows.index_select(0, torch.tensor(wanted, dtype=torch.long, device=rows.device))


def _pool(texts: Sequence[Encoded], layers: Sequence[int]) -> torch.Tensor:
    first = _unit_vectors(texts, layers[0])
    if len(layers) == 1:
        return first
    pooled = first.repeat(1, 3)
    low, mean, high = pooled.chunk(3, dim=-1)
    for layer in layers[1:]:
        vectors = _unit_vectors(texts, layer)
        torch.minimum(low, vectors, out=low)
        torch.maximum(high, vectors, out=high)
        mean += vectors
    mean /= len(layers)
    return pooled


def _unit_vectors(texts: Sequence[Encoded], layer: int) -> torch.Tensor:
    rows = torch.cat([text.states[layer] for text in texts])
    return rows.div_(torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp_min_(1e-12))
