"""Relative position attention (Shaw et al. 2018), for keys and values, without any `[length, length, size]` tensor."""

from __future__ import annotations

import torch

from summarily.modeling.attention.blocks import AttentionPlan, weigh


def relative_index(queries: int, keys: int, max_distance: int, *, past: int = 0, device=None) -> torch.Tensor:
    """`[queries, keys]`: the row of the relative tables for each pair, clip(j - i, -m, m) + m.

    The queries are at positions `past .. past + queries - 1`, the keys at `0 .. keys - 1`.

    Example:

    >>> relative_index(2, 4, max_distance=2).tolist()
    [[2, 3, 4, 4], [1, 2, 3, 4]]
    """
    query = torch.arange(past, past + queries, device=device)
    key = torch.arange(keys, device=device)
    return (key[None, :] - query[:, None]).clamp(-max_distance, max_distance) + max_distance


def relative_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_table: torch.Tensor,
    value_table: torch.Tensor,
    plan: AttentionPlan,
    dropout: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`logit_ij = q_i . (k_j + a_c)`, `output_i = sum_j p_ij (v_j + b_c)`, c the clipped distance j - i.

    Args:
        query, key, value: `[batch, heads, length, size]`; queries are the last positions of the keys.
        key_table, value_table: a and b, `[2 m + 1, size]`, shared by all heads.
        plan: a dense plan with an explicit mask, or an empty one.

    Returns the output and the weights `[batch, heads, queries, keys]`.

    Example:

    >>> import torch
    >>> states, table = torch.randn(1, 2, 5, 4), torch.randn(2 * 3 + 1, 4)
    >>> output, weights = relative_attention(states, states, states, table, table, AttentionPlan())
    >>> output.shape, weights.shape
    (torch.Size([1, 2, 5, 4]), torch.Size([1, 2, 5, 5]))
    """
    queries, keys = query.shape[-2], key.shape[-2]
    buckets = key_table.shape[0]
    index = relative_index(queries, keys, buckets // 2, past=keys - queries, device=query.device)
    index = index.expand(*query.shape[:2], queries, keys)
    query = query * query.shape[-1] ** -0.5
    # q . a for every distance once, then picked per pair: [length, 2m + 1] products, not [length, length].
    logits = query @ key.transpose(-1, -2) + (query @ key_table.T).gather(-1, index)
    output, weights = weigh(logits, value, plan, dropout)
    # All keys at the same distance share a row of the table, so their weights are summed first.
    by_distance = weights.new_zeros(*query.shape[:3], buckets).scatter_add(-1, index, weights)
    return output + by_distance @ value_table, weights
