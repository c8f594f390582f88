"""A new BART that starts as a copier looks where it writes, learns sooner, and is asked for by a recipe."""

from __future__ import annotations

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from summarily.modeling.bart_surgery import sinusoids, start_as_copier
from summarily.modeling.training.building import build_model
from summarily.modeling.training.recipe import load_recipe
from summarily.support.errors import RecipeError

LENGTH = 24


def new_bart(seed: int = 0, copier: bool = True) -> BartForConditionalGeneration:
    torch.manual_seed(seed)
    width = 64
    config = BartConfig(
        vocab_size=100, d_model=width, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=width, decoder_ffn_dim=width, max_position_embeddings=64,
        init_std=width**-0.5, dropout=0.0, decoder_start_token_id=2, attn_implementation="eager",
    )  # fmt: skip
    model = BartForConditionalGeneration(config)
    if copier:
        start_as_copier(model)
    return model.eval()


def weight_where_it_writes(model: BartForConditionalGeneration) -> float:
    """Cross-attention of the last layer at the place of the token that is to be written, over chance."""
    ids = torch.randint(5, 100, (8, LENGTH), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        attention = model(input_ids=ids, labels=ids, output_attentions=True).cross_attentions[-1]
    return float(attention.diagonal(dim1=-2, dim2=-1).mean() * LENGTH)


def test_it_looks_where_it_writes():
    assert weight_where_it_writes(new_bart()) > 2
    assert weight_where_it_writes(new_bart(copier=False)) < 1.5


def test_it_copies_sooner():
    losses = {}
    for copier in (True, False):
        model = new_bart(copier=copier).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        generator = torch.Generator().manual_seed(2)
        for _ in range(60):
            ids = torch.randint(5, 100, (16, LENGTH), generator=generator)
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses[copier] = loss.item()
    assert losses[True] < losses[False] - 1, losses


def test_sinusoids():
    table = sinusoids(3, 4)
    assert table.shape == (3, 4)
    assert table[0].tolist() == [0, 0, 1, 1]
    assert table[2].tolist() == pytest.approx([0.909297, 0.019999, -0.416147, 0.9998], abs=1e-6)


def test_a_recipe_asks_for_it():
    recipe = load_recipe("denoiser", ["model.config.d_model=32", "model.config.init_std=0.1"])

    class Tokenizer:
        pad_token_id, bos_token_id, eos_token_id, unk_token_id = 1, 0, 2, 3
        model_max_length = 512

        def __len__(self):
            return 50

    weight = build_model(recipe, Tokenizer()).model.decoder.layers[0].encoder_attn.q_proj.weight
    assert (weight.diagonal() > 0.8).all()
    wrong = load_recipe("denoiser", ["model.name=pegasus"])
    with pytest.raises(RecipeError, match="is for a new BART"):
        build_model(wrong, Tokenizer())
