"""BART's noise: what it takes away, what it keeps, that it repeats; and a run that learns from it."""

from __future__ import annotations

import gzip
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarily.modeling.training.recipe import Recipe
from summarily.modeling.training.tasks.denoising import (
    Noise,
    NoisyTexts,
    infill,
    load_texts,
    noisy_splits,
    permute_sentences,
    pieces,
)
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.modeling.training.train import train
from summarily.support.errors import RecipeError

MASK = 4


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(10, 99), max_size=60), st.floats(0.0, 0.9), st.floats(0.5, 6.0), st.integers(0, 99)
)
def test_infilling_keeps_what_it_does_not_mask_in_order(ids, masked, span, seed):
    noisy = infill(ids, MASK, masked, span, np.random.default_rng(seed))
    kept = [token for token in noisy if token != MASK]
    iterator = iter(ids)
    assert all(token in iterator for token in kept), "the kept tokens are a subsequence"
    assert len(ids) - len(kept) <= round(masked * len(ids))
    assert not any(a == b == MASK for a, b in itertools.pairwise(noisy)), "spans are apart"


def test_thirty_percent_are_masked_in_spans_of_three_on_average():
    generator = np.random.default_rng(0)
    ids = list(range(10, 2010))
    noisy = infill(ids, MASK, 0.3, 3.0, generator)
    masks = noisy.count(MASK)
    assert len(noisy) - masks == 1400
    assert 600 / masks == pytest.approx(3.0, abs=0.4)


def test_some_masks_stand_for_nothing():
    """A span of length 0 inserts a mask: with Poisson(0.5) most do."""
    noisy = infill(list(range(10, 210)), MASK, 0.1, 0.5, np.random.default_rng(1))
    assert noisy.count(MASK) > 20 + 5


def test_sentences_are_permuted_whole():
    ids = [11, 12, 9, 21, 9, 31, 32, 33, 9, 41]
    seen = {tuple(permute_sentences(ids, frozenset({9}), np.random.default_rng(seed))) for seed in range(200)}
    assert len(seen) == 24
    assert all("11, 12, 9" in str(order) and "31, 32, 33, 9" in str(order) for order in seen)


def test_noise_depends_on_seed_epoch_and_text_only():
    texts = NoisyTexts([list(range(10, 40)), list(range(50, 90))], Noise(MASK), [0], [2], seed=3)
    first, again, other = (sorted(map(str, texts(epoch))) for epoch in (0, 0, 1))
    assert first == again and first != other
    assert str(texts.row(1, epoch=0)) in first
    assert sorted(map(str, NoisyTexts(texts.pieces, Noise(MASK), [0], [2], seed=4)(0))) != first


def test_pieces_have_the_lengths_asked_for_and_cover_the_document():
    found = list(pieces(list(range(1000)), [8, 16], np.random.default_rng(0)))
    assert [token for piece in found for token in piece] == list(range(1000))
    assert {len(piece) for piece in found[:-1]} == {8, 16}


@pytest.fixture
def recipe(tmp_path):
    places = ("Oslo", "Bergen", "Lima", "Quito", "Turin", "Delhi")
    with gzip.open(tmp_path / "news.jsonl.gz", "wt") as file:
        for i in range(1200):
            text = f"The bank of {places[i % 6]} sold {i} halls. Rain fell in {places[i % 5]}. It cost {i} francs."
            file.write(json.dumps({"article": text, "part": "train" if i % 2 else "dev"}) + "\n")
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in
             (("layers", 1), ("attention_heads", 2), ("ffn_dim", 32))}  # fmt: skip
    values = {
        "model": {"name": "bart", "config": {"d_model": 16, "max_position_embeddings": 64, **sizes}},
        "tokenizer": {"kind": "bpe", "special_tokens": "bart", "vocabulary_size": 320},
        "data": {"max_source_tokens": 64, "max_target_tokens": 64, "limits": {"validation": 2, "test": 2}},
        "denoising": {
            "texts": [{"file": "news.jsonl.gz", "column": "article", "only": {"part": "train"}}],
            "lengths": [16, 64],
        },
        "batch": {"tokens": 512, "pool": 32},
        "training": {"max_steps": 4, "evaluate_every": 2, "tensorboard": False, "log_every": 1},
        "generation": {"max_new_tokens": 8},
    }
    values["model"]["config"] |= {"decoder_start_token_id": 2}
    return values


def test_rows_that_are_not_asked_for_and_duplicates_are_left_out(recipe, tmp_path):
    corpus = load_texts(Recipe.from_dict(recipe), tmp_path)
    assert sum(map(len, corpus.splits.values())) == 600
    recipe["denoising"]["texts"] *= 2
    again = load_texts(Recipe.from_dict(recipe), tmp_path)
    assert sum(counts["duplicate text"] for counts in again.dropped.values()) == 600
    ids = [set(rows["id"]) for rows in again.splits.values()]
    assert not ids[0] & ids[1] and not ids[1] & ids[2]


def test_held_out_rows_are_noisy_texts_and_what_they_were(recipe, tmp_path):
    recipe = Recipe.from_dict(recipe)
    corpus = load_texts(recipe, tmp_path)
    tokenizer = train_tokenizer(corpus["train"]["source"], recipe.tokenizer)
    assert tokenizer.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]) == [0, 1, 2, 3, 4]
    row = noisy_splits(corpus, tokenizer, recipe)["test"][0]
    assert row["input_ids"].count(tokenizer.mask_token_id) > 0
    assert tokenizer.decode(row["labels"], skip_special_tokens=True) == row["references"][0]
    assert (row["labels"][0], row["labels"][-1], row["input_ids"][0]) == (0, 2, 0)


def test_a_stopped_denoiser_goes_on_as_if_it_had_not_stopped(recipe, tmp_path):
    whole = train(Recipe.from_dict(recipe), tmp_path / "whole", data=tmp_path)
    recipe["training"]["max_steps"] = 2
    train(Recipe.from_dict(recipe), tmp_path / "parts", data=tmp_path)
    recipe["training"]["max_steps"] = 4
    parts = train(Recipe.from_dict(recipe), tmp_path / "parts", data=tmp_path)
    assert whole.step == parts.step == 4 and whole.best_score == parts.best_score
    losses = [
        [json.loads(line).get("loss") for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        for name in ("whole", "parts")
    ]
    assert losses[0] == losses[1]
    assert "restored from noise" in (tmp_path / "whole" / "hub" / "README.md").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [4]}, "at least 8"),
        ({"lengths": [128]}, "has 128, but data.max_source_tokens"),
        ({"masked": 1.5}, "denoising.masked is 1.5"),
        ({"texts": [{"file": "no.jsonl", "column": "article"}]}, "there is no file"),
    ],
)
def test_what_cannot_be_denoised_is_refused(recipe, tmp_path, change, message):
    recipe["denoising"] |= change
    with pytest.raises(RecipeError, match=message):
        load_texts(Recipe.from_dict(recipe), tmp_path)


def test_texts_and_pairs_exclude_each_other(recipe):
    recipe["data"]["name"] = "some/pairs"
    with pytest.raises(RecipeError, match=r"take the place of data\.name"):
        Recipe.from_dict(recipe)


def test_what_denoising_does_not_read_is_refused(recipe):
    recipe["data"]["headings"] = "sections[].heading"
    with pytest.raises(RecipeError, match=r"data\.headings is .*, but denoising does not read it"):
        Recipe.from_dict(recipe)


def test_a_tokenizer_without_a_mask_is_refused(recipe, tmp_path):
    recipe["tokenizer"]["special_tokens"] = "end"
    with pytest.raises(RecipeError, match='special_tokens = "bart"'):
        train(Recipe.from_dict(recipe), tmp_path / "run", data=tmp_path)
