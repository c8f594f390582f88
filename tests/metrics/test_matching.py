"""Greedy matching and idf against plain loops."""

from __future__ import annotations

import math

import pytest
import torch

from summarily.metrics import matching
from summarily.metrics.matching import Bag, Idf, Match, alignment, greedy_match, harmonic_mean


def some_bags(count: int, seed: int) -> list[Bag]:
    """Few dimensions and tokens: often all similarities of a token are negative, and padding would be better."""
    generator = torch.Generator().manual_seed(seed)
    bags = []
    for size in torch.randint(1, 5, (count,), generator=generator).tolist():
        weights = torch.rand(size, generator=generator).tolist()
        bags.append(Bag.of(torch.randn(size, 3, generator=generator), weights))
    return bags


def plain(prediction: Bag, reference: Bag, floor: float) -> Match:
    sides = []
    for own, other in ((prediction, reference), (reference, prediction)):
        best = [max(min(max(float(a @ b), floor), 1.0) for b in other.vectors) for a in own.vectors]
        weights = own.weights.tolist()
        sides.append(sum(w * s for w, s in zip(weights, best, strict=True)) / sum(weights))
    precision, recall = sides
    return Match(precision, recall, 2 * precision * recall / (precision + recall or 1.0))


@pytest.mark.parametrize("floor", [-1.0, 0.0, -0.3])
@pytest.mark.parametrize("cells", [matching._CELLS, 16, 1])
def test_matches_are_those_of_a_plain_loop_in_any_batch(floor, cells, monkeypatch):
    monkeypatch.setattr(matching, "_CELLS", cells)
    predictions, references = some_bags(30, 0), some_bags(30, 1)
    found = greedy_match(predictions, references, floor)
    assert any(match.precision < 0 for match in found) == (floor < 0)
    for pair, match in zip(zip(predictions, references, strict=True), found, strict=True):
        expected = plain(*pair, floor)
        assert match[:2] == pytest.approx(expected[:2], abs=1e-6)
        if abs(match.precision + match.recall) > 0.05:
            assert match.f == pytest.approx(expected.f, rel=1e-4)


def test_equal_vectors_are_never_more_than_alike():
    bag = Bag.of(torch.randn(50, 7, generator=torch.Generator().manual_seed(2)) * 1e3, [1.0] * 50)
    (match,) = greedy_match([bag], [bag])
    assert match.precision <= 1 and match.recall <= 1 and match.f == pytest.approx(1.0)


def test_a_text_whose_tokens_weigh_nothing_matches_nothing():
    nothing, something = Bag.of(torch.eye(2), [0.0, 0.0]), Bag.of(torch.eye(2), [1.0, 3.0])
    assert greedy_match([nothing], [something]) == [(0.0, 1.0, 0.0)]
    assert greedy_match([something], [nothing]) == [(1.0, 0.0, 0.0)]
    assert harmonic_mean(0.5, 0.25) == 1 / 3 and harmonic_mean(0.0, 0.0) == 0.0


def test_an_alignment_adds_up_to_the_score():
    prediction, reference = Bag.of(torch.eye(3), [1.0, 0.0, 3.0]), Bag.of(torch.eye(3)[[2, 0]], [1.0, 1.0])
    assert alignment(prediction, reference, "abc", "xy") == [
        {"token": "a", "match": "y", "similarity": 1.0, "weight": 0.25},
        {"token": "c", "match": "x", "similarity": 1.0, "weight": 0.75},
    ]


@pytest.mark.parametrize("smoothed", [True, False])
def test_idf_counts_documents_not_occurrences(smoothed):
    idf = Idf.count([[1, 1, 1, 2], [1, 3], [1, 2]], smoothed)
    expected = {1: 3, 2: 2, 3: 1}
    for token, n in expected.items():
        assert idf(token) == pytest.approx(math.log(4 / (n + 1)) if smoothed else math.log(3 / n))
    assert idf(9) == pytest.approx(math.log(4) if smoothed else math.log(3))
    assert idf.digest == Idf(3, {3: 1, 2: 2, 1: 3}, smoothed).digest, "in whatever order"
    others = [
        Idf(4, expected, smoothed),
        Idf(3, {**expected, 3: 2}, smoothed),
        Idf(3, expected, not smoothed),
    ]
    assert len({idf.digest, *(other.digest for other in others)}) == 4
