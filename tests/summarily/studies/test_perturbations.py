"""Synthetic pairs: each kind does what its name says, and a seed decides everything."""

from __future__ import annotations

import random

import pytest

from summarily.studies.bleurt import perturbations
from summarily.studies.bleurt.perturbations import drop, make_pairs, passages, shorten, swap
from summarily.support.sample import load_sample

WORDS = [f"w{number}" for number in range(30)]


@pytest.fixture(scope="module")
def documents() -> dict[str, list[str]]:
    sources = [row["source"] for row in load_sample()]
    return {"news": sources[: len(sources) // 2], "more": sources[len(sources) // 2 :]}


def test_dropping_keeps_the_order_and_leaves_something():
    for seed in range(50):
        kept = drop(WORDS, random.Random(seed))
        assert 0 < len(kept) < len(WORDS) and kept == sorted(kept, key=WORDS.index)
    assert drop(["one"], random.Random(0)) == ["one"]


def test_swapping_keeps_every_word():
    results = [swap(WORDS, random.Random(seed)) for seed in range(50)]
    assert all(sorted(result) == sorted(WORDS) for result in results)
    assert sum(result != WORDS for result in results) > 45
    assert swap(["one"], random.Random(0)) == ["one"]


def test_shortening_leaves_out_a_sentence_or_an_end():
    text = "Snow fell in Oslo. Trains stood still. Nobody was hurt."
    for seed in range(20):
        assert shorten(text, random.Random(seed)).count(".") == 2
        single = shorten("one two three four five", random.Random(seed))
        assert single and single in "one two three four five" and single != "one two three four five"


def test_passages_are_sentences_that_do_not_overlap():
    text = " ".join(f"This is sentence number {number} of the text." for number in range(20))
    for seed in range(20):
        found = passages(text, random.Random(seed))
        assert 1 <= len(found) <= 2
        assert all(passage in text and passage.endswith(".") for passage in found)
        if len(found) == 2:
            assert not set(found[0].split(". ")) & set(found[1].split(". "))


def test_a_seed_decides_everything(documents):
    counts = {"news": 8, "more": 6}
    pairs = make_pairs(documents, counts, seed=3)
    assert len(pairs) == 14
    assert pairs == make_pairs(documents, counts, seed=3)
    assert pairs != make_pairs(documents, counts, seed=4)


def test_every_kind_of_pair_differs_as_it_says(documents, monkeypatch):
    many = {"news": documents["news"] + documents["more"]}
    for kind in ("drop", "swap", "replace", "shorten", "same", "same document", "other document"):
        monkeypatch.setattr(perturbations, "KINDS", {kind: 1.0})
        pairs = make_pairs(many, {"news": 12}, seed=0)
        words = [(pair.reference.split(), pair.candidate.split()) for pair in pairs]
        if kind == "drop":
            assert all(len(b) < len(a) and set(b) <= set(a) for a, b in words)
        elif kind == "swap":
            assert all(sorted(a) == sorted(b) for a, b in words) and any(a != b for a, b in words)
        elif kind == "replace":
            assert all(len(a) == len(b) for a, b in words)
            changed = [sum(x != y for x, y in zip(a, b, strict=True)) / len(a) for a, b in words]
            assert 0 < sum(changed) / len(changed) < 0.4
        elif kind == "shorten":
            assert all(len(pair.candidate) < len(pair.reference) for pair in pairs)
        elif kind == "same":
            assert all(pair.reference == pair.candidate for pair in pairs)
        else:
            assert all(pair.reference != pair.candidate for pair in pairs)
            where = [
                sum(pair.reference[:40] in text and pair.candidate[:40] in text for text in many["news"])
                for pair in pairs
                if pair.kind == kind
            ]
            assert all(bool(count) == (kind == "same document") for count in where)
