"""Pairs of texts that differ in known ways, for BLEURT to learn what similarity is before it sees a rating.

Each pair is a passage of a document and the same passage with words dropped, adjacent words swapped, words replaced by
others that occur in the same contexts, or sentences left out; or it is two passages of one document, or of two.

Reference: Sellam et al. (2020), section 4.1, and the thesis' section 2.4.4. The dictionary of word vectors stands in for
mask filling by a language model; back-translation, which needs a translation model, is left out.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from summarily.metrics.meta_evaluation.corruption import neighbours
from summarily.support import text as text_rules

_PASSAGE_WORDS = (6, 70)
_DOCUMENT = 3000  # characters of a document that are read

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
        ['Snow fell in Oslo all day long. Trains stood still until the evening came. Nobody was hurt.']
    """
    sentences = text_rules.sentences(document[:_DOCUMENT])
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


def replace(
    texts: Sequence[Sequence[str]], chosen: Sequence[bool], randomness: random.Random
) -> list[list[str]]:
    """Put a word of the same contexts in the place of 5% to 40% of the words of the chosen texts."""
    shares = [randomness.uniform(0.05, 0.4) if one else 0.0 for one in chosen]
    places = [
        [place for place in range(len(words)) if randomness.random() < share]
        for words, share in zip(texts, shares, strict=True)
    ]
    filled = neighbours()(texts, places, [randomness.randrange(2**31) for _ in texts])
    return [
        [new.get(place, word) for place, word in enumerate(words)]
        for words, new in zip(texts, filled, strict=True)
    ]


def shorten(text: str, randomness: random.Random) -> str:
    """Leave out a sentence, or the beginning or end of a single one."""
    sentences = text_rules.sentences(text)
    if len(sentences) > 1:
        sentences.pop(randomness.randrange(len(sentences)))
        return " ".join(sentences)
    words = text.split()
    cut = randomness.randint(1, max(1, 2 * len(words) // 3))
    return " ".join(words[cut:] if randomness.random() < 0.3 else words[:-cut]) or words[0]


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
    changes = [_changes(randomness) for _ in found]
    texts = [text for text, _ in found]
    replaced = replace([text.split() for text in texts], ["replace" in own for own in changes], randomness)
    pairs = []
    for row, (own, words) in enumerate(zip(changes, replaced, strict=True)):
        text, other = found[row]
        if own == ["same document"] and other != text:
            candidate = other
        elif own in (["same document"], ["other document"]):
            candidate, own = texts[row - randomness.randrange(1, max(2, len(texts)))], ["other document"]
        elif own == ["shorten"]:
            candidate = shorten(text, randomness)
        else:
            for step in own:
                words = {"drop": drop, "swap": swap}.get(step, _unchanged)(words, randomness)
            candidate = " ".join(words)
        pairs.append(Pair(text, candidate, " and ".join(own)))
    return pairs


def _changes(randomness: random.Random) -> list[str]:
    kind = randomness.choices(list(KINDS), list(KINDS.values()))[0]
    return randomness.sample(["replace", "drop", "swap"], 2) if kind == "mixed" else [kind]


def _unchanged(words: Sequence[str], randomness: random.Random) -> list[str]:
    return list(words)
