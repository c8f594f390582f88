"""The pictures of attention are the masks that the kernels are tested against."""

from __future__ import annotations

import csv
import io

import pytest
import torch

from summarily.modeling.attention.masks import MECHANISMS
from summarily.spaces.attention import masks
from summarily.spaces.attention.interface import read
from summarily.spaces.attention.masks import Settings, checked_words, page, scores_computed, seen
from summarily.support.errors import InputError
from tests.modeling.attention.dense import dense_mask

CONTROLS = (1, "encoder", 8, 4, 2, 2, 4, 6, 1, 1)


@pytest.mark.parametrize("kind", MECHANISMS)
@pytest.mark.parametrize("decoder", [False, True])
def test_masks_are_the_definition(kind, decoder):
    settings = Settings(length=50, decoder=decoder, block_length=6, width=3, gap=1, memory_length=5)
    expected = dense_mask(kind, 50, decoder=decoder, block_length=6, width=3, gap=1, memory_length=5)
    assert torch.equal(seen(kind, settings), expected)
    if decoder:
        assert not seen(kind, settings).triu(1).any(), "a decoder sees the future"


def test_a_global_token_sees_and_is_seen():
    mask = seen("window", Settings(length=20, window=2, global_tokens=3))
    assert mask[:3].all() and mask[:, :3].all()
    assert int(mask[10].sum()) == 5 + 3


def test_no_window_and_no_global_tokens_is_the_diagonal():
    mask = seen("window", Settings(length=7, window=0, global_tokens=0))
    assert torch.equal(mask, torch.eye(7, dtype=torch.bool))


def test_hashing_sees_at_most_two_chunks_a_round():
    for hashes in (1, 3):
        mask = seen("hashing", Settings(length=64, block_length=8, hashes=hashes))
        assert int(mask.sum(1).min()) >= 1 and int(mask.sum(1).max()) <= 16 * hashes


@pytest.mark.parametrize("kind", list(masks.KINDS))
def test_computed_products_hold_all_that_is_seen(kind):
    settings = Settings(length=96, block_length=8, hashes=2)
    assert int(seen(kind, settings).sum()) <= scores_computed(kind, 96, settings)


def test_blocked_mechanisms_grow_linearly_and_full_attention_does_not():
    settings = Settings()
    for kind in masks.KINDS:
        growth = scores_computed(kind, 8192, settings) / scores_computed(kind, 4096, settings)
        assert growth == pytest.approx(4 if kind in ("dot_product", "relative") else 2, rel=0.01)


def test_the_download_says_who_sees_whom():
    settings = Settings(length=12, window=2)
    rows = list(csv.DictReader(io.StringIO(masks.to_csv(["window", "local"], settings))))
    for kind in ("window", "local"):
        found = [[int(key) - 1 for key in row["sees"].split()] for row in rows if row["mechanism"] == kind]
        assert found == [row.nonzero()[:, 0].tolist() for row in seen(kind, settings)]


def test_words_are_escaped():
    html = page(["local"], Settings(length=2), 1, ["<script>", "b"])
    assert "<script>" not in html and "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Settings(length=161), "length is 161; it goes from 2 to 160"),
        (lambda: Settings(block_length=0), "block length is 0"),
        (lambda: read(["local"], "", 1.5, *CONTROLS), "length is 1.5; please give a whole number"),
        (lambda: read(["local"], "", None, *CONTROLS), "length is empty"),
        (lambda: checked_words("a " * 161), "161 words; up to 160"),
        (lambda: checked_words("a" * 4001), "4,001 characters"),
        (lambda: checked_words("one"), "at least two words"),
        (lambda: page([], Settings(), 1), "at least one mechanism"),
        (lambda: page(["local"], Settings(length=4), 5), "position 5 is not one of the 4"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
