"""The blocked kernels equal dense attention under the dense mask."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F

from summarily.modeling.attention.blocks import (
    AttentionPlan,
    attention,
    eager_attention,
    plan_attention,
    plan_blocks,
    plan_dense,
    plan_keys,
)
from summarily.modeling.attention.masks import MECHANISMS, attention_pattern

BLOCKED = [mechanism for mechanism in MECHANISMS if attention_pattern(mechanism).blocked]
SIZES = [
    {"block_length": 4, "width": 4, "gap": 2, "memory_length": 4, "memory_blocks": 2},
    {"block_length": 4, "width": 7, "gap": 0, "memory_length": 4, "memory_blocks": 2},  # W > B, no gap
    {"block_length": 5, "width": 2, "gap": 1, "memory_length": 3, "memory_blocks": 1},  # W < B
    {"block_length": 3, "width": 0, "gap": 3, "memory_length": 7, "memory_blocks": 3},  # W = 0, M > B
]


def lengths_around_blocks(block: int) -> list[int]:
    return [
        1,
        block - 1,
        block,
        block + 1,
        2 * block - 1,
        2 * block,
        2 * block + 1,
        5 * block - 1,
        5 * block + 2,
    ]


def states(length: int, dtype=torch.float32, batch: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(length)
    return [
        torch.randn(batch, 2, length, 8, generator=generator, dtype=dtype).requires_grad_() for _ in range(3)
    ]


def right_padding(length: int, batch: int = 3) -> torch.Tensor:
    """One example full, one half, one of a single token."""
    real = torch.tensor([length, (length + 1) // 2, 1])[:batch]
    return torch.arange(length) < real[:, None]


def dense(query, key, value, pattern, padding=None):
    """torch's attention under the explicit mask; queries that see nothing give zeros."""
    positions = torch.arange(query.shape[-2])
    mask = pattern.visible(positions[:, None], positions[None, :]).expand(len(query), 1, -1, -1)
    if padding is not None:
        mask = mask & padding[:, None, None, :]
    empty = ~mask.any(-1, keepdim=True)
    return F.scaled_dot_product_attention(query, key, value, mask | empty).masked_fill(empty, 0.0)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mechanism", BLOCKED)
def test_blocks_equal_dense_attention_around_every_boundary(mechanism, sizes, padded):
    for decoder in (False, True):
        pattern = attention_pattern(mechanism, decoder=decoder, leaky_decoder=True, **sizes)
        for length in lengths_around_blocks(sizes["block_length"]):
            inputs = states(length)
            padding = right_padding(length) if padded else None
            actual = attention(*inputs, plan_blocks(pattern, length, padding))
            torch.testing.assert_close(actual, dense(*inputs, pattern, padding))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("mechanism", BLOCKED)
def test_gradients_equal_those_of_dense_attention(mechanism, padded):
    pattern = attention_pattern(mechanism, **SIZES[0])
    length = 22
    padding = right_padding(length) if padded else None
    inputs, others = states(length, torch.float64), states(length, torch.float64)
    attention(*inputs, plan_blocks(pattern, length, padding)).square().sum().backward()
    dense(*others, pattern, padding).square().sum().backward()
    for one, other in zip(inputs, others, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize("mechanism", BLOCKED)
def test_tokens_behind_padding_are_never_seen(mechanism):
    pattern = attention_pattern(mechanism, **SIZES[0])
    padding = right_padding(22)
    query, key, value = states(22)
    plan = plan_blocks(pattern, 22, padding)
    before = attention(query, key, value, plan)
    hidden = ~padding[:, None, :, None]
    after = attention(query, key.masked_fill(hidden, 50.0), value.masked_fill(hidden, -50.0), plan)
    torch.testing.assert_close(before, after)


@pytest.mark.parametrize(
    ("mechanism", "make"),
    [
        *itertools.product(MECHANISMS, [plan_dense, plan_attention]),
        *itertools.product(BLOCKED, [plan_blocks]),
    ],
)
def test_queries_without_a_key_give_zeros_and_no_nan(mechanism, make):
    pattern = attention_pattern(mechanism, **SIZES[0])
    padding = torch.zeros(3, 22, dtype=torch.bool)
    padding[0] = True
    inputs = states(22)
    plan = make(pattern, 22, padding)
    output = attention(*inputs, plan)
    assert (output[1:] == 0).all() and output[0].abs().sum() > 0
    output.sum().backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in inputs)


def test_a_source_of_padding_only_gives_zeros_in_cross_attention():
    query, key, value = states(5)
    padding = torch.tensor([[True] * 5, [False] * 5, [True, False, True, False, True]])
    output = attention(query[:, :, :2], key, value, plan_keys(padding))
    assert (output[1] == 0).all() and torch.isfinite(output).all()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_cheapest_plan_gives_the_same_result_at_any_length(mechanism, padded):
    for decoder in (False, True):
        pattern = attention_pattern(mechanism, decoder=decoder, **SIZES[0])
        for length in (1, 4, 5, 8, 9, 40, 70):
            inputs = states(length)
            padding = right_padding(length) if padded else None
            expected = dense(*inputs, pattern, padding)
            actual = attention(*inputs, plan_attention(pattern, length, padding))
            torch.testing.assert_close(actual, expected)
            explicit = plan_attention(pattern, length, padding, explicit=True)
            torch.testing.assert_close(eager_attention(*inputs, explicit)[0], expected)


@pytest.mark.parametrize("mechanism", BLOCKED)
def test_long_inputs_are_blocked_and_cost_grows_linearly(mechanism):
    """Counted, not timed: the scores computed are those of the mask, blocks x queries x keys."""
    pattern = attention_pattern(mechanism, block_length=16, width=16, memory_length=16)
    scores = {length: plan_attention(pattern, length).mask.numel() for length in (512, 1024, 8192)}
    assert scores[1024] == 2 * scores[512] and scores[8192] == 16 * scores[512]
    assert scores[8192] < 8192**2 / 50


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_cached_step_sees_what_the_whole_sequence_would(mechanism):
    pattern = attention_pattern(mechanism, decoder=True, **SIZES[0])
    length = 30
    whole = plan_dense(pattern, length).mask[0, 0]
    for past in (0, 3, 4, 11, 29):
        first = max(0, past + 1 - (pattern.reach() or length))
        step = plan_dense(pattern, 1, past=past, first_key=first)
        assert torch.equal(step.mask[0, 0, 0], whole[past, first : past + 1])
        assert not whole[past, :first].any()


def test_dropout_reaches_the_blocked_kernels():
    pattern = attention_pattern("local", **SIZES[0])
    inputs = states(22)
    plan = plan_blocks(pattern, 22)
    torch.manual_seed(0)
    assert not torch.allclose(attention(*inputs, plan, dropout=0.5), attention(*inputs, plan))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("mechanism", BLOCKED)
def test_a_bias_is_added_to_the_scores_of_every_block(mechanism, scale, padded):
    pattern = attention_pattern(mechanism, **SIZES[2])
    length, block, offsets = 13, pattern.block_length, pattern.key_offsets()
    bias = torch.randn(2, block, len(offsets), generator=torch.Generator().manual_seed(1))
    query, key, value = states(length)
    padding = right_padding(length) if padded else None
    logits = query @ key.transpose(-1, -2) * (8**-0.5 if scale is None else scale)
    mask = torch.zeros(3, 1, length, length, dtype=torch.bool)
    for i, (place, offset) in itertools.product(range(length), enumerate(offsets)):
        j = i // block * block + offset
        if 0 <= j < length and pattern.visible(torch.tensor(i), torch.tensor(j)):
            mask[:, 0, i, j] = True if padding is None else padding[:, j]
            logits[:, :, i, j] += bias[:, i % block, place]
    weights = logits.masked_fill(~mask, -1e30).softmax(-1).masked_fill(~mask, 0.0)
    found = attention(query, key, value, plan_blocks(pattern, length, padding), bias=bias, scale=scale)
    torch.testing.assert_close(found, weights @ value)


def test_scales_and_biases_of_dense_plans():
    query, key, value = states(6)
    padding = right_padding(6)
    expected = (query @ key.transpose(-1, -2) * 0.3).masked_fill(~padding[:, None, None], -1e30).softmax(
        -1
    ) @ value
    torch.testing.assert_close(attention(query, key, value, plan_keys(padding), scale=0.3), expected)
    with pytest.raises(ValueError, match="it needs a blocked plan"):
        attention(query, key, value, plan_keys(padding), bias=torch.zeros(2, 6, 6))


def test_every_kind_of_plan_drops_weights_as_often_as_asked():
    pattern = attention_pattern("local", block_length=64, width=64)
    ones = torch.ones(1, 1, 256, 4)
    value = torch.eye(256)[None, None]
    torch.manual_seed(0)
    plans = (plan_keys(None), plan_dense(pattern, 256))
    wide = torch.ones(1, 1, 256, 256)
    outputs = [attention(wide, wide, value, plan, 0.25) for plan in plans]
    outputs += [eager_attention(ones, ones, value, plans[1], 0.25)[0]]
    for output, plan in zip(outputs, (plans[0], plans[1], plans[1]), strict=True):
        seen = torch.ones(256, 256, dtype=torch.bool) if plan.mask is None else plan.mask[0, 0]
        dropped = (output[0, 0] == 0)[seen].float().mean()
        assert dropped.item() == pytest.approx(0.25, abs=0.02)
        assert (output[0, 0][~seen] == 0).all()
    whole, weights = eager_attention(ones, ones, value, plans[0])
    assert (whole == 1 / 256).all() and (weights == 1 / 256).all()


@pytest.mark.parametrize(
    ("mechanism", "length", "kind"),
    [
        ("dot_product", 50, "everything"),
        ("local", 4, "everything"),
        ("local", 5, "dense"),  # 8 queries of 12 keys are more than 5 times 5
        ("local", 12, "dense"),  # 12 times 12 is not less
        ("local", 13, "dense"),  # 16 queries of 12 keys
        ("local", 14, "blocked"),
        ("local_block_masked", 4, "causal"),
        ("local_block_masked", 6, "blocked"),  # 8 times 4 is less than 6 times 6
        ("local_block_masked", 5, "dense"),
        ("dilated_masked", 4, "causal"),
    ],
)
def test_the_cheapest_plan_is_chosen(mechanism, length, kind):
    pattern = attention_pattern(mechanism, **SIZES[0])
    for padding in (None, torch.ones(2, length, dtype=torch.long)):
        plan = plan_attention(pattern, length, padding)
        found = "blocked" if plan.keys_of_block is not None else "causal" if plan.causal else "dense"
        assert ("everything" if found == "dense" and plan.mask is None else found) == kind
    padded = torch.tensor([[1] * length, [1] * (length - 1) + [0]])
    assert plan_attention(pattern, length, padded).mask is not None
    assert plan_attention(pattern, length, explicit=True).mask.shape == (1, 1, length, length)


def test_a_cached_step_sees_no_padding():
    pattern = attention_pattern("local_masked", decoder=True, block_length=3)
    padding = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]])
    plan = plan_dense(pattern, 2, padding, past=5, first_key=2)
    # Queries 5 and 6 (blocks 3-5 and 6-8) against keys 2 to 6.
    assert plan.mask[:, 0].int().tolist() == [
        [[0, 0, 1, 1, 0], [0, 0, 1, 1, 1]],
        [[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]],
    ]


def test_what_is_shared_cannot_be_changed():
    """One plan serves all layers."""
    for shared, name in ((AttentionPlan(), "mask"), (attention_pattern("local"), "width")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shared, name, None)
