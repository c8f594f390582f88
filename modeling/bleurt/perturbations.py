"""Pairs of texts that differ in known ways, for BLEURT to learn what similarity is before it sees a rating.

Each pair is a passage of a document and the same passage with words dropped, adjacent words swapped, words replaced by
others that occur in the same contexts, or sentences left out; or it is two passages of one document, or of two.

Reference: Sellam et al. (2020), section 4.1, and the thesis' section 2.4.4. The dictionary of word vectors stands in for
mask filling by a language model; back-translation, which needs a translation model, is left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from summarily.metrics import text as text_rules
from summarily.metrics import vectors as word_vectors

FREQUENT = 30_000
"""Replacements are taken from as many of the most frequent words (GloVe is sorted by frequency)."""
NEIGHBOURS = 8
_PASSAGE_WORDS = (6, 70)

# How often each kind of pair is made.
KINDS = {
    "drop": 0.2,
    "swap": 0.12,
    "replace": 0.22,
    "shorten": 0.08,
    "mixed": 0.15,
    "same document": 0.15,
    "other document": 0.05,
    "same": 0.03,
}


class Pair(NamedTuple):
    """A reference, a candidate, and how the candidate came about."""

    reference: str
    candidate: str
    kind: str


def passages(document: str, randomness: random.Random, count: int = 2) -> list[str]:
    """Up to `count` passages of one to three sentences that do not overlap.

    Example:
        >>> text = "Snow fell in Oslo all day long. Trains stood still until the evening came. Nobody was hurt."
        >>> passages(text, random.Random(0), count=1)
        ['Trains stood still until the evening came. Nobody was hurt.']
    """
    sentences = text_rules.sentences(document)
    found: list[str] = []
    start = randomness.randrange(max(1, len(sentences) - 3 * count + 1))
    while start < len(sentences) and len(found) < count:
        length = randomness.choice((1, 1, 2, 3))
        passage = " ".join(" ".join(sentences[start : start + length]).split())
        if _PASSAGE_WORDS[0] <= len(passage.split()) <= _PASSAGE_WORDS[1]:
            found.append(passage)
        start += length
    return found


def drop(words: Sequence[str], randomness: random.Random) -> list[str]:
    """Leave out between one word and half of them."""
    share = randomness.uniform(0.05, 0.5)
    kept = [word for word in words if randomness.random() >= share]
    if len(kept) == len(words):
        kept.pop(randomness.randrange(len(kept)))
    return kept or [words[0]]


def swap(words: Sequence[str], randomness: random.Random) -> list[str]:
    """Exchange adjacent words in one place of ten, or move everything around."""
    words = list(words)
    if randomness.random() < 0.2:
        randomness.shuffle(words)
        return words
    for _ in range(max(1, len(words) // 10)):
        place = randomness.randrange(max(1, len(words) - 1))
        words[place : place + 2] = words[place : place + 2][::-1]
    return words


def shorten(text: str, randomness: random.Random) -> str:
    """Leave out a sentence, or the beginning or end of a single one."""
    sentences = text_rules.sentences(text)
    if len(sentences) > 1:
        sentences.pop(randomness.randrange(len(sentences)))
        return " ".join(sentences)
    words = text.split()
    cut = randomness.randint(1, max(1, 2 * len(words) // 3))
    return " ".join(words[cut:] if randomness.random() < 0.3 else words[:-cut]) or words[0]


class Dictionary:
    """Words that occur in the same contexts, by the cosine of their vectors.

    Example:
        >>> vectors = word_vectors.Vectors(["cat", "dog", "oslo"], np.array([[1, 0], [1, 0.1], [0, 1.0]]), "toy")
        >>> Dictionary(["Cat"], vectors).replacements("Cat")[0]
        'Dog'
    """

    def __init__(self, words: Iterable[str], vectors: word_vectors.Vectors | None = None):
        vectors = vectors or word_vectors.load()
        frequent = list(vectors.words[:FREQUENT])
        matrix = vectors.matrix[: len(frequent)].astype(np.float32)
        matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True).clip(min=1e-9)
        wanted = sorted({word.lower() for word in words})
        rows = [row for row in vectors.find(wanted) if 0 <= row < len(frequent)]
        self._near: dict[str, list[str]] = {}
        for start in range(0, len(rows), 1024):
            block = rows[start : start + 1024]
            nearest = np.argsort(-(matrix[block] @ matrix.T), axis=1, kind="stable")[:, : NEIGHBOURS + 1]
            for row, others in zip(block, nearest, strict=True):
                self._near[frequent[row]] = [frequent[other] for other in others if other != row]

    def replacements(self, word: str) -> list[str]:
        near = self._near.get(word.lower(), [])
        return [other.capitalize() for other in near] if word[:1].isupper() else near

    def replace(self, words: Sequence[str], randomness: random.Random) -> list[str]:
        """Put another word in the place of some, of 5% to 40% of those that have any."""
        share = randomness.uniform(0.05, 0.4)
        replaced = list(words)
        for place, word in enumerate(words):
            bare = word.strip(".,;:!?\"'()")
            choices = self.replacements(bare) if bare else []
            if choices and randomness.random() < share:
                replaced[place] = word.replace(bare, randomness.choice(choices))
        return replaced


def make_pairs(documents: Mapping[str, Sequence[str]], counts: Mapping[str, int], seed: int) -> list[Pair]:
    """Pairs from each collection of documents, as many as `counts` says.

    Args:
        documents: the texts of each collection by its name.
        counts: how many pairs to make of each collection.
        seed: of every choice.
    """
    randomness = random.Random(seed)
    found: list[tuple[str, str]] = []  # a passage and another of the same document
    for name, count in counts.items():
        order = list(range(len(documents[name])))
        randomness.shuffle(order)
        before = len(found)
        for row in order:
            two = passages(documents[name][row], randomness)
            if two and len(found) - before < count:
                found.append((two[0], two[-1]))
    dictionary = Dictionary(word.strip(".,;:!?\"'()") for text, _ in found for word in text.split())
    kinds, weights = list(KINDS), list(KINDS.values())
    pairs = []
    for row, (text, other) in enumerate(found):
        kind = randomness.choices(kinds, weights)[0]
        if kind == "same document" and other == text:
            kind = "other document"
        if kind == "other document":
            other = found[(row + randomness.randrange(1, max(2, len(found)))) % len(found)][0]
        pairs.append(Pair(text, _candidate(kind, text, other, dictionary, randomness), kind))
    return pairs


def _candidate(kind: str, text: str, other: str, dictionary: Dictionary, randomness: random.Random) -> str:
    if kind in ("same document", "other document"):
        return other
    if kind == "shorten":
        return shorten(text, randomness)
    words = text.split()
    changes: dict[str, Callable[[Sequence[str], random.Random], list[str]]] = {
        "drop": drop,
        "swap": swap,
        "replace": dictionary.replace,
    }
    for step in randomness.sample(list(changes), 2) if kind == "mixed" else [kind]:
        if step != "same":
            words = changes[step](words, randomness)
    return " ".join(words)
