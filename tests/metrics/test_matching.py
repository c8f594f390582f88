"""Greedy matching and idf against plain loops."""

from __future__ import annotations

import dataclasses
import math
from operator import itemgetter
from types import SimpleNamespace

import pytest
import torch

from summarily.metrics import matching
from summarily.metrics.base import Example
from summarily.metrics.encoding import Encoded
from summarily.metrics.explanations import Aligned
from summarily.metrics.matching import (
    Bag,
    Idf,
    Match,
    Matcher,
    alignment,
    checked_idf,
    greedy_match,
    harmonic_mean,
)
from summarily.metrics.references import combined
from summarily.support.errors import InputError


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
        Aligned("a", "y", 1.0, 0.25),
        Aligned("c", "x", 1.0, 0.75),
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


def test_references_are_combined_by_the_rule():
    matches = [Match(0.9, 0.1, 0.18), Match(0.4, 0.6, 0.48), Match(0.2, 0.8, 0.32)]
    assert combined(matches, "max") == (0.9, 0.8, 0.48)
    assert combined(matches, "best", main=itemgetter(2)) == (0.4, 0.6, 0.48)
    assert combined(matches, "best") == (0.9, 0.1, 0.18)
    assert combined(matches, "mean") == pytest.approx((0.5, 0.5, 0.98 / 3), rel=1e-15)
    with pytest.raises(InputError, match="multi_reference='min'"):
        combined(matches, "min")


def test_the_idf_option():
    assert [checked_idf(idf) for idf in (False, True, "references", "unsmoothed")] == [
        False,
        "references",
        "references",
        "unsmoothed",
    ]
    with pytest.raises(InputError, match="idf='sources'"):
        checked_idf("sources")


class Letters:
    """An encoder whose tokens are letters, each a direction of its own; layer 2 turns all vowels to one."""

    tokenizer = SimpleNamespace(cls_token_id=0, sep_token_id=1)

    def tokenize(self, texts):
        return self.encode(texts, [])

    def encode(self, texts, layers):
        return [self._encode(text, layers) for text in texts]

    def _encode(self, text, layers):
        letters = ["[", *text[:4], "]"]
        ids = [0, *(ord(letter) for letter in text[:4]), 1]
        special = [True, *(False for _ in text[:4]), True]
        states = {
            layer: torch.eye(128)[[ord("a") if layer == 2 and x in "eiou" else ord(x) for x in letters]] * 3
            for layer in layers
        }
        return Encoded(ids, letters, None, special, len(text) > 4, states)


EXAMPLES = [Example("abc", ("abd", "xbc")), Example("", ("abcde",)), Example("abc", ("", "abd"))]


def test_a_matcher_scores_counts_and_asks_for_what_it_needs():
    matcher = Matcher(Letters(), layer=1, multi_reference="mean")
    matched = matcher.score(EXAMPLES, None)
    third = 1 / 3
    expected = [(2 * third,) * 3, (0.0,) * 3, (third,) * 3]
    for match, values in zip(matched.matches, expected, strict=True):
        assert match == pytest.approx(values, abs=1e-6)
    assert matched.counts == {"truncated": 1, "empty_predictions": 1, "empty_references": 1}
    assert matched.tokens == 5 + 5 + 5 + 2 + 6, "each distinct text once"
    (request,) = matcher.requests(EXAMPLES)
    assert request.encoder is matcher.encoder and list(request.layers) == [1]
    assert list(request.texts) == ["abc", "abd", "xbc", "", "abcde"]
    vowels = Matcher(Letters(), layer=2).score([Example("ab", ("eb",))], None)
    assert vowels.matches == [pytest.approx((1.0, 1.0, 1.0), abs=1e-6)]


@pytest.mark.parametrize(("idf", "smoothed"), [("references", True), ("unsmoothed", False)])
def test_idf_counts_a_reference_as_often_as_it_is_given(idf, smoothed):
    matcher = Matcher(Letters(), layer=1, idf=idf)
    statistics = matcher.statistics(EXAMPLES)
    documents = [
        [0, 97, 98, 100, 1],
        [0, 120, 98, 99, 1],
        [0, 97, 98, 99, 100, 1],
        [0, 1],
        [0, 97, 98, 100, 1],
    ]
    assert statistics == Idf.count(documents, smoothed)
    assert statistics.documents == 5 and statistics.frequencies[ord("d")] == 3
    assert Matcher(Letters(), layer=1).statistics(EXAMPLES) is None
    with pytest.raises(InputError, match="a single call has none"):
        matcher.score(EXAMPLES, None)
    with pytest.raises(InputError, match="a single call has none"):
        matcher.explain("x", {}, Example("abc", ("abd",)), None)
    # Every weight comes from the statistics, those of the marks at both ends too.
    (match,) = matcher.score([Example("ax", ("ab",))], statistics).matches
    precision = (statistics(0) + statistics(97) + statistics(1)) / sum(map(statistics, (0, 97, 120, 1)))
    recall = (statistics(0) + statistics(97) + statistics(1)) / sum(map(statistics, (0, 97, 98, 1)))
    assert match[:2] == pytest.approx((precision, recall), rel=1e-5) and precision != recall


def test_an_alignment_has_both_directions():
    told = Matcher(Letters(), layer=1).explain("x", {"x": [0.5]}, Example("ab", ("", "bcd")), None)
    assert told.values == {"x": 0.5} and [one.reference for one in told.alignments] == [0, 1]
    aligned = told.alignments[1]
    assert [(t.token, t.similarity, t.weight) for t in aligned.precision] == [
        ("a", 0.0, 0.5),
        ("b", pytest.approx(1.0), 0.5),
    ]
    assert [t.token for t in aligned.recall] == ["b", "c", "d"]
    assert aligned.recall[0].match == "b" and aligned.recall[0].weight == pytest.approx(1 / 3)


def test_what_is_shared_cannot_be_changed():
    """Bags and weights are those of a text, whoever reads it."""
    for shared, name in (
        (Bag.of(torch.eye(2), [1.0, 1.0]), "weights"),
        (Idf(1, {}), "documents"),
        (Matcher(Letters(), 1), "layer"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shared, name, None)


def test_opposites_count_fully_unless_a_floor_is_asked_for():
    one, other = Bag.of(torch.tensor([[1.0, 0.0]]), [1.0]), Bag.of(torch.tensor([[-1.0, 0.0]]), [1.0])
    assert greedy_match([one], [other]) == [Match(-1.0, -1.0, -1.0)]
    assert alignment(one, other, ["a"], ["b"]) == [Aligned("a", "b", -1.0, 1.0)]
    assert alignment(one, other, ["a"], ["b"], -0.25) == [Aligned("a", "b", -0.25, 1.0)]
