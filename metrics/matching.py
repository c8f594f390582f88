"""Greedy matching: each token with the most similar token of the other text, for many pairs at once.

This is BERTScore's matching; BARTScore uses it on other vectors. The weights of tokens come from `Idf`.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import torch
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from summarily.metrics.base import Example, Values, count_empty, distinct_texts
from summarily.metrics.encoding import Encoded, Encoder, Request
from summarily.metrics.explanations import Aligned, Alignment, Matches
from summarily.metrics.options import one_of
from summarily.metrics.references import combined
from summarily.support.errors import InputError

_CELLS = 2**21
"""Padded similarities held at a time."""


class Match(NamedTuple):
    """How well two texts match."""

    precision: float
    recall: float
    f: float


NO_MATCH = Match(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Bag:
    """The tokens of a text as unit vectors [length, hidden], with a weight each."""

    vectors: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def of(cls, states: torch.Tensor, weights: Sequence[float]) -> Bag:
        return cls(
            normalize(states, dim=-1), torch.tensor(weights, dtype=torch.float32, device=states.device)
        )


def greedy_match(predictions: Sequence[Bag], references: Sequence[Bag], floor: float = -1.0) -> list[Match]:
    """Match each prediction with the reference beside it; no similarity counts less than `floor`.

    Example:
        >>> bag = Bag.of(torch.eye(2), [1.0, 1.0])
        >>> greedy_match([bag], [bag])
        [Match(precision=1.0, recall=1.0, f=1.0)]
    """
    # Pairs of similar size stand together, so that little is padded.
    sizes = [(len(p.weights), len(r.weights)) for p, r in zip(predictions, references, strict=True)]
    order = sorted(range(len(sizes)), key=lambda i: (max(sizes[i]), sizes[i]), reverse=True)
    matches: list[Match] = [NO_MATCH] * len(sizes)
    start = 0
    while start < len(order):
        rows = max(1, _CELLS // max(1, max(sizes[order[start]]) ** 2))
        batch = order[start : start + rows]
        found = _match_batch([predictions[i] for i in batch], [references[i] for i in batch], floor)
        for i, match in zip(batch, found, strict=True):
            matches[i] = match
        start += rows
    return matches


def _match_batch(predictions: Sequence[Bag], references: Sequence[Bag], floor: float) -> list[Match]:
    with torch.inference_mode():
        p, p_weights, p_padding = _pad(predictions)
        r, r_weights, r_padding = _pad(references)
        # Rounding may put the cosine of equal vectors above 1.
        similarity = torch.bmm(p, r.transpose(1, 2)).clamp(
            floor, 1.0
        )  # [pairs, prediction tokens, reference tokens]
        best_for_p = similarity.masked_fill(r_padding[:, None, :], -math.inf).amax(dim=2)
        best_for_r = similarity.masked_fill(p_padding[:, :, None], -math.inf).amax(dim=1)
        precision = _weighted_mean(best_for_p, p_weights, p_padding)
        recall = _weighted_mean(best_for_r, r_weights, r_padding)
    return [
        Match(a, b, harmonic_mean(a, b)) for a, b in zip(precision.tolist(), recall.tolist(), strict=True)
    ]


def _pad(bags: Sequence[Bag]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    vectors = pad_sequence([bag.vectors for bag in bags], batch_first=True)
    weights = pad_sequence([bag.weights for bag in bags], batch_first=True)
    lengths = torch.tensor([len(bag.weights) for bag in bags], device=vectors.device)
    return vectors, weights, torch.arange(vectors.shape[1], device=vectors.device) >= lengths[:, None]


def _weighted_mean(best: torch.Tensor, weights: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
    """Eq. 2.28 of the thesis; 0 for a text whose tokens all weigh nothing."""
    total = weights.sum(dim=1)
    weighted = (best.masked_fill(padding, 0.0) * weights).sum(dim=1)
    return torch.where(total > 0, weighted / total.clamp_min(torch.finfo(total.dtype).tiny), 0.0)


def harmonic_mean(precision: float, recall: float) -> float:
    """F; 0 where it is not defined.

    Example:
        >>> harmonic_mean(1.0, 0.5), harmonic_mean(0.0, 0.0)
        (0.6666666666666666, 0.0)
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def alignment(
    bag: Bag, other: Bag, tokens: Sequence[str], other_tokens: Sequence[str], floor: float = -1.0
) -> list[Aligned]:
    """For each token that weighs something: its best match, their similarity, and its share of the score."""
    with torch.inference_mode():
        similarity, place = (bag.vectors @ other.vectors.T).clamp(floor, 1.0).max(dim=1)
    shares = (bag.weights / bag.weights.sum().clamp_min(torch.finfo(torch.float32).tiny)).tolist()
    return [
        Aligned(token, other_tokens[j], value, share)
        for token, j, value, share in zip(tokens, place.tolist(), similarity.tolist(), shares, strict=True)
        if share
    ]


# --- inverse document frequency ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Idf:
    """How rare tokens are, counted over documents.

    Smoothed `log((N + 1) / (df + 1))`, as in bert_score and MoverScore, or unsmoothed `log(N / df)`
    (Eq. 2.27 of the thesis), where a token that no document holds counts as if one did.

    Example:
        >>> idf = Idf.count([[1, 2], [1, 3]])
        >>> idf(1), round(idf(2), 4), round(idf(9), 4)
        (0.0, 0.4055, 1.0986)
    """

    documents: int
    frequencies: Mapping[int, int]
    smoothed: bool = True

    @classmethod
    def count(cls, documents: Iterable[Sequence[int]], smoothed: bool = True) -> Idf:
        frequencies: Counter[int] = Counter()
        number = 0
        for ids in documents:
            frequencies.update(set(ids))
            number += 1
        return cls(number, frequencies, smoothed)

    def __add__(self, other: Idf) -> Idf:
        """Of both collections of documents together."""
        frequencies = Counter(self.frequencies) + Counter(other.frequencies)
        return Idf(self.documents + other.documents, frequencies, self.smoothed)

    def __call__(self, token: int) -> float:
        if self.smoothed:
            return math.log((self.documents + 1) / (self.frequencies.get(token, 0) + 1))
        return math.log(self.documents / self.frequencies.get(token, 1))

    @cached_property
    def digest(self) -> str:
        """Equal digests give equal weights."""
        text = f"{self.smoothed} {self.documents} {sorted(self.frequencies.items())}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]


# --- a metric's worth of matching -------------------------------------------------------------------------

IDF = (False, "references", "unsmoothed")


@dataclass(frozen=True)
class Matched:
    """What `Matcher.score` returns: one match per example, and what was counted."""

    matches: list[Match]
    counts: dict[str, int]
    tokens: int

    def values(self, name: str, main: str = "f") -> Values:
        """As a metric of this name returns them: the main score, "f", "precision" or "recall", then the last two."""
        columns = {
            name: [getattr(match, main) for match in self.matches],
            f"{name}_precision": [match.precision for match in self.matches],
            f"{name}_recall": [match.recall for match in self.matches],
        }
        return Values(columns, self.counts, self.tokens)


@dataclass(frozen=True)
class Matcher:
    """Greedy matching of examples on one layer of an encoder."""

    encoder: Encoder
    layer: int
    idf: str | bool = False
    multi_reference: str = "max"
    floor: float = 0.0
    """In bert_score padding has similarity 0, so in its batches a token that resembles nothing counts 0, not
    less. Keeping that for every pair keeps its numbers without depending on the batch."""
    fixed: Idf | None = None
    """Weights that are the same for every corpus; without them `idf` is counted over the references."""

    def requests(self, examples: Sequence[Example]) -> list[Request]:
        return [Request(self.encoder, distinct_texts(examples), [self.layer])]

    def statistics(self, examples: Sequence[Example]) -> Idf | None:
        """Idf over the references, each counted as often as it is given."""
        if not self.idf or self.fixed is not None:
            return None
        times = Counter(reference for example in examples for reference in example.references)
        encoded = dict(zip(times, self.encoder.tokenize(times), strict=True))
        documents = (encoded[text].ids for text, number in times.items() for _ in range(number))
        return Idf.count(documents, smoothed=self.idf != "unsmoothed")

    def score(self, examples: Sequence[Example], statistics: Idf | None) -> Matched:
        self._check(statistics)
        texts = distinct_texts(examples)
        encoded = dict(zip(texts, self.encoder.encode(texts, [self.layer]), strict=True))
        bags = {text: self._bag(value, statistics) for text, value in encoded.items()}
        pairs = [(example.prediction, reference) for example in examples for reference in example.references]
        found = iter(greedy_match([bags[p] for p, _ in pairs], [bags[r] for _, r in pairs], self.floor))
        matches = []
        for example in examples:
            of_example = [
                # bert_score's rule: an empty text scores 0 against anything, another empty text included.
                NO_MATCH if encoded[example.prediction].is_empty or encoded[reference].is_empty else match
                for reference, match in zip(example.references, found, strict=False)
            ]
            matches.append(Match(*combined(of_example, self.multi_reference, attrgetter("f"))))
        return Matched(matches, count_texts(examples, encoded), sum(map(len, encoded.values())))

    def explain(
        self, metric: str, values: Mapping[str, Sequence[float]], example: Example, statistics: Idf | None
    ) -> Matches:
        """The scores of an example, and both directions of the matching with each reference."""
        return Matches(
            metric,
            {key: column[0] for key, column in values.items()},
            example.prediction,
            example.references,
            [
                self._align(number, example.prediction, reference, statistics)
                for number, reference in enumerate(example.references)
            ],
        )

    def _align(self, number: int, prediction: str, reference: str, statistics: Idf | None) -> Alignment:
        self._check(statistics)
        p, r = self.encoder.encode([prediction, reference], [self.layer])
        p_bag, r_bag = self._bag(p, statistics), self._bag(r, statistics)
        return Alignment(
            number,
            alignment(p_bag, r_bag, p.tokens, r.tokens, self.floor),
            alignment(r_bag, p_bag, r.tokens, p.tokens, self.floor),
        )

    def idf_name(self, statistics: Idf | None) -> str:
        """For the signature."""
        counted = statistics or self.fixed
        return f"{self.idf}@{counted.digest}" if counted else str(self.idf or "no")

    def _check(self, statistics: Idf | None) -> None:
        if self.idf and statistics is None and self.fixed is None:
            raise InputError(
                "idf is counted over a corpus and a single call has none: use score.explain(row) of a Score, "
                "or pass statistics=metric.statistics(examples)."
            )

    def _bag(self, encoded: Encoded, statistics: Idf | None) -> Bag:
        counted = statistics or self.fixed
        if counted is not None:
            weights = [counted(token) for token in encoded.ids]
        else:
            tokenizer = self.encoder.tokenizer
            unweighted = {tokenizer.cls_token_id, tokenizer.sep_token_id}
            weights = [0.0 if token in unweighted else 1.0 for token in encoded.ids]
        return Bag.of(encoded.states[self.layer], weights)


def count_texts(examples: Sequence[Example], encoded: Mapping[str, Encoded]) -> dict[str, int]:
    """How many of the examples' texts were empty or too long."""
    texts = (text for example in examples for text in (example.prediction, *example.references))
    truncated = sum(encoded[text].truncated for text in texts)
    return {"truncated": truncated, **count_empty(examples, lambda text: encoded[text].is_empty)}


def checked_idf(idf: str | bool) -> str | bool:
    """The `idf` option: False, "references" (also True) or "unsmoothed"."""
    return one_of("idf", "references" if idf is True else idf, IDF)
