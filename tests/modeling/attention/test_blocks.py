"""The blocked kernels equal dense attention under the dense mask."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from summarily.modeling.attention.blocks import (
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
