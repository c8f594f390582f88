"""Relative attention against a loop over every pair."""

from __future__ import annotations

import pytest
import torch

from summarily.modeling.attention.blocks import AttentionPlan, plan_dense
from summarily.modeling.attention.masks import attention_pattern
from summarily.modeling.attention.relative import relative_attention, relative_index


def naive(query, key, value, key_table, value_table, mask):
    """logit_ij = q_i . (k_j + a_c) / sqrt(d); output_i = sum_j p_ij (v_j + b_c); c = clip(j - i)."""
    batch, heads, queries, size = query.shape
    keys, limit = key.shape[-2], len(key_table) // 2
    rows = []
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                position = keys - queries + i
                seen = [j for j in range(keys) if mask[b, i, j]]
                if not seen:
                    rows.append(torch.zeros(size, dtype=query.dtype))
                    continue
                at = [max(-limit, min(limit, j - position)) + limit for j in seen]
                logits = torch.stack(
                    [
                        query[b, h, i] @ (key[b, h, j] + key_table[c]) / size**0.5
                        for j, c in zip(seen, at, strict=True)
                    ]
                )
                weights = logits.softmax(0)
                rows.append(
                    sum(
                        w * (value[b, h, j] + value_table[c])
                        for w, j, c in zip(weights, seen, at, strict=True)
                    )
                )
    return torch.stack(rows).view(batch, heads, queries, size)


def inputs(queries: int, keys: int, limit: int):
    torch.manual_seed(queries + keys)
    shapes = [(2, 2, queries, 4), (2, 2, keys, 4), (2, 2, keys, 4), (2 * limit + 1, 4), (2 * limit + 1, 4)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 20])
def test_equals_a_naive_loop_forward_and_backward(decoder, padded, limit):
    length = 7
    pattern = attention_pattern("relative", decoder=decoder)
    padding = torch.tensor([[1] * 7, [1] * 4 + [0] * 3]).bool() if padded else None
    plan = plan_dense(pattern, length, padding)
    mask = plan.mask.expand(2, 1, length, length)[:, 0]
    tensors, others = inputs(length, length, limit), inputs(length, length, limit)
    actual, weights = relative_attention(*tensors, plan)
    expected = naive(*others, mask)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, length, dtype=torch.float64))
    actual.square().sum().backward()
    expected.square().sum().backward()
    for one, other in zip(tensors, others, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=1e-10)


def test_the_last_queries_of_a_cache_keep_their_distances():
    tensors = inputs(2, 9, 3)
    plan = plan_dense(attention_pattern("relative", decoder=True), 2, past=7)
    mask = plan.mask.expand(2, 1, 2, 9)[:, 0]
    torch.testing.assert_close(
        relative_attention(*tensors, plan)[0], naive(*tensors, mask), rtol=0, atol=1e-12
    )


def test_a_query_without_a_key_gives_zeros_and_no_nan():
    tensors = inputs(3, 3, 2)
    padding = torch.tensor([[True, True, True], [False, False, False]])
    output, _ = relative_attention(*tensors, plan_dense(attention_pattern("relative"), 3, padding))
    assert (output[1] == 0).all() and output[0].abs().sum() > 0
    output.sum().backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in tensors)


def test_zero_tables_leave_plain_attention():
    query, key, value, table, _ = (tensor.detach() for tensor in inputs(5, 5, 2))
    table = torch.zeros_like(table)
    output, _ = relative_attention(query, key, value, table, table, AttentionPlan())
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(output, expected)


def test_no_tensor_of_every_pair_and_channel_is_made():
    """Of one head, nothing is larger than the scores: [length, length], never [length, length, size]."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, tuple | list) else [result]:
                if isinstance(tensor, torch.Tensor):
                    self.seen = max(self.seen, tensor.untyped_storage().nbytes() // tensor.element_size())
            return result

    length, size = 256, 64
    states, table = torch.randn(1, 1, length, size), torch.randn(41, size)
    with Largest() as largest:
        relative_attention(states, states, states, table, table, AttentionPlan())
    assert largest.seen <= length * length


def test_index_is_clipped_on_both_sides():
    assert relative_index(1, 9, 2, past=4).tolist() == [[0, 0, 0, 1, 2, 3, 4, 4, 4]]
