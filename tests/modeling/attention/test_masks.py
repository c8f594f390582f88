"""The patterns against their definition, written out as sets of keys."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from summarily.modeling.attention.masks import MASKED_TWIN, MECHANISMS, AttentionPattern, attention_pattern
from tests.modeling.attention.dense import dense_mask

SIZES = {
    "block_length": st.integers(1, 6),
    "width": st.integers(0, 9),
    "gap": st.integers(0, 3),
    "memory_blocks": st.integers(0, 3),
    "memory_length": st.integers(1, 5),
}
ALWAYS_CAUSAL = ("local_block_masked", "dilated_masked")


def keys_of(i, length, mechanism, preset, decoder, *, block_length, width, gap, memory_blocks, memory_length):
    """The allowed keys of query i, as the definitions say them; tensor2tensor's rule for short inputs included."""
    B, W, g, n, M = block_length, width, gap, memory_blocks, memory_length
    if mechanism in ("dot_product", "relative"):
        return set(range(i + 1)) if decoder else set(range(length))
    if mechanism == "local_masked" and (decoder or preset == "t2t"):
        if length < 2 * B:
            B = length
        s = B * (i // B)
        return set(range(i + 1)) if s == 0 else set(range(s - B, i + 1))
    s = B * (i // B)
    e = s + B
    if mechanism == "local":
        keys = set(range(s - W, e + W))
    elif mechanism == "local_masked":
        keys = set(range(s - B, e))
    elif mechanism == "local_block_masked":
        keys = set(range(s, i + 1))
    else:
        keys = set(range(s, e if mechanism == "dilated" else i + 1))
        for b in range(n):
            keys |= set(range(s - (b + 1) * (M + g), s - (b + 1) * (M + g) + M))
            if mechanism == "dilated":
                keys |= set(range(e + (b + 1) * g + b * M, e + (b + 1) * (g + M)))
    return keys & set(range(length))


@settings(max_examples=150, deadline=None)
@given(
    mechanism=st.sampled_from(MECHANISMS),
    preset=st.sampled_from(["paper", "t2t"]),
    decoder=st.booleans(),
    length=st.integers(1, 40),
    sizes=st.fixed_dictionaries(SIZES),
)
def test_dense_mask_is_the_set_of_keys_of_the_definition(mechanism, preset, decoder, length, sizes):
    mask = dense_mask(mechanism, length, preset=preset, decoder=decoder, leaky_decoder=True, **sizes)
    for i in range(length):
        expected = keys_of(i, length, mechanism, preset, decoder, **sizes)
        assert set(mask[i].nonzero().flatten().tolist()) == expected


@settings(max_examples=100, deadline=None)
@given(mechanism=st.sampled_from(MECHANISMS), length=st.integers(1, 40), sizes=st.fixed_dictionaries(SIZES))
def test_a_decoder_is_causal_and_every_token_sees_itself(mechanism, length, sizes):
    mask = dense_mask(mechanism, length, decoder=True, **sizes)
    assert torch.equal(mask, mask.tril())
    assert mask.diagonal().all()


@pytest.mark.parametrize("mechanism", ALWAYS_CAUSAL)
@pytest.mark.parametrize("preset", ["paper", "t2t"])
def test_masked_mechanisms_make_the_encoder_causal(mechanism, preset):
    mask = dense_mask(mechanism, 20, preset=preset, block_length=4, memory_length=3)
    assert torch.equal(mask, mask.tril())


@settings(max_examples=100, deadline=None)
@given(
    mechanism=st.sampled_from(MECHANISMS),
    decoder=st.booleans(),
    length=st.integers(1, 30),
    sizes=st.fixed_dictionaries(SIZES),
)
def test_short_form_and_reach_describe_the_mask(mechanism, decoder, length, sizes):
    pattern = attention_pattern(mechanism, decoder=decoder, leaky_decoder=True, **sizes)
    mask = dense_mask(mechanism, length, decoder=decoder, leaky_decoder=True, **sizes)
    full = torch.ones(length, length, dtype=torch.bool)
    forms = {"full": full, "causal": full.tril()}
    if (form := pattern.short_form(length)) is not None:
        assert torch.equal(mask, forms[form])
    if (reach := pattern.reach()) is not None:
        assert not mask.tril(-reach).any()
        long = dense_mask(mechanism, 3 * reach, decoder=decoder, leaky_decoder=True, **sizes)
        if mechanism != "dilated_masked" or sizes["memory_blocks"]:
            assert long.tril(1 - reach).any(), "reach is larger than needed"


def test_presets_differ_in_the_gap_and_in_the_own_block_of_local_masked():
    assert attention_pattern("dilated").gap == 2
    assert attention_pattern("dilated", preset="t2t").gap == 0
    assert dense_mask("local_masked", 8, block_length=4)[0, 3]
    assert not dense_mask("local_masked", 8, block_length=4, preset="t2t")[0, 3]
    assert not dense_mask("local_masked", 8, block_length=4, decoder=True)[0, 3]


@pytest.mark.parametrize("mechanism", MASKED_TWIN)
def test_only_a_leaky_decoder_keeps_an_unmasked_mechanism(mechanism):
    safe = attention_pattern(mechanism, decoder=True)
    assert safe.mechanism == MASKED_TWIN[mechanism] and safe.causal
    leaky = dense_mask(mechanism, 9, decoder=True, leaky_decoder=True, block_length=3)
    assert leaky.triu(1).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": "sparse"}, "mechanism='sparse' is unknown; choose one of dot_product"),
        ({"block_length": 0}, "block_length is 0; it must be at least 1"),
        ({"width": -1}, "width is -1; it must be at least 0"),
        ({"memory_length": 0}, "memory_length is 0"),
    ],
)
def test_bad_sizes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        AttentionPattern(**{"mechanism": "local", "causal": False, **options})


def test_bad_preset_is_named():
    with pytest.raises(ValueError, match="preset='google' is unknown; choose one of paper, t2t"):
        attention_pattern("local", preset="google")


def test_mechanisms_without_blocks_have_no_offsets():
    with pytest.raises(ValueError, match="dot_product has no blocks"):
        attention_pattern("dot_product").key_offsets()


def test_what_is_shared_cannot_be_changed():
    """One pattern serves all layers."""
    for shared, name in ((attention_pattern("local"), "width"), (attention_pattern("dilated"), "gap")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shared, name, None)


def test_sizes_by_default():
    for pattern in (AttentionPattern("dilated", False), attention_pattern("dilated")):
        assert (pattern.block_length, pattern.width, pattern.gap) == (128, 128, 2)
        assert (pattern.memory_blocks, pattern.memory_length) == (2, 128)
    for name in ("gap", "memory_blocks"):
        assert getattr(attention_pattern("dilated", **{name: 0}), name) == 0
        with pytest.raises(ValueError, match=f"{name} is -1; it must be at least 0"):
            attention_pattern("dilated", **{name: -1})
