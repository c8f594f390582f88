"""A text as a bag of n-grams: which tokens are kept, their vectors, and the vectors and masses of n-grams."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from summarily.metrics.encoding import Encoded

_PUNCTUATION = frozenset(string.punctuation)
_WORD_STARTS = "Ġ▁"
"""What byte-level and SentencePiece tokenizers write for the space before a word."""
_POOLED_TOKENS = 4096


@dataclass(frozen=True)
class NGrams:
    """The n-grams of a text that have mass, as unit vectors."""

    names: list[str]
    vectors: NDArray[np.float64]
    masses: NDArray[np.float64]
    is_empty: bool
    """Whether nothing but special tokens was kept."""


def kept_tokens(encoded: Encoded, text: str, stop_words: frozenset[str], subwords: bool) -> list[int]:
    """The positions of tokens that count: no punctuation, no stop words and, unless asked for, no pieces that
    continue a word. Special tokens stay."""
    kept = []
    for i, token in enumerate(encoded.tokens):
        if not encoded.special[i]:
            surface = token.lstrip(_WORD_STARTS)
            if surface in _PUNCTUATION or surface.lower() in stop_words:
                continue
            if not subwords and _continues_a_word(encoded, text, i):
                continue
        kept.append(i)
    return kept


def _continues_a_word(encoded: Encoded, text: str, i: int) -> bool:
    """WordPiece marks such a piece by "##"; for other tokenizers it is one that touches the word before it."""
    if encoded.tokens[i].startswith("##"):
        return True
    if encoded.offsets is None or encoded.special[i - 1] or i == 0:
        return False
    start, before = encoded.offsets[i][0], encoded.offsets[i - 1][1]
    return start == before > 0 and text[start - 1].isalnum() and text[start : start + 1].isalnum()


def token_vectors(
    encoded: Sequence[Encoded], kept: Sequence[Sequence[int]], layers: Sequence[int]
) -> Iterator[torch.Tensor]:
    """For each text the vectors of its kept tokens: unit vectors of one layer, or the power means (minimum,
    mean, maximum) of the unit vectors of several."""
    start = 0
    while start < len(encoded):
        end, tokens = start, 0
        while end < len(encoded) and (end == start or tokens + len(kept[end]) <= _POOLED_TOKENS):
            tokens += len(kept[end])
            end += 1
        places = [torch.tensor(positions, dtype=torch.long) for positions in kept[start:end]]
        stacked = [
            normalize(
                torch.cat(
                    [
                        text.states[layer][place.to(text.states[layer].device)]
                        for text, place in zip(encoded[start:end], places, strict=True)
                    ]
                ),
                dim=-1,
            )
            for layer in layers
        ]
        yield from _power_means(stacked).split([len(place) for place in places])
        start = end


def _power_means(layers: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(layers) == 1:
        return layers[0]
    stacked = torch.stack(list(layers))
    return torch.cat([stacked.amin(dim=0), stacked.mean(dim=0), stacked.amax(dim=0)], dim=-1)


def bag_of_ngrams(
    encoded: Encoded,
    kept: Sequence[int],
    vectors: torch.Tensor,
    size: int,
    weight: Callable[[int], float] | None,
) -> NGrams:
    """Every run of `size` kept tokens: vector the weighted mean of its tokens', mass the sum of their weights.

    A text with fewer kept tokens is one n-gram, as in the authors' code.
    """
    size = min(size, len(kept))
    weights = torch.tensor(
        [1.0 if weight is None else weight(encoded.ids[i]) for i in kept],
        dtype=torch.float32,
        device=vectors.device,
    )
    count = len(kept) - size + 1 if kept else 0
    masses = sum((weights[j : j + count] for j in range(size)), torch.zeros(count, device=vectors.device))
    sums = sum(
        (weights[j : j + count, None] * vectors[j : j + count] for j in range(size)),
        torch.zeros(count, vectors.shape[-1], device=vectors.device),
    )
    real = masses > 0
    # The weighted mean has the direction of the weighted sum, and only the direction is kept.
    points = normalize(sums[real], dim=-1).cpu().numpy().astype(np.float64)
    names = [" ".join(encoded.tokens[i] for i in kept[j : j + size]) for j in range(count)]
    return NGrams(
        [name for name, has_mass in zip(names, real.tolist(), strict=True) if has_mass],
        points,
        masses[real].cpu().numpy().astype(np.float64),
        is_empty=all(encoded.special[i] for i in kept),
    )
