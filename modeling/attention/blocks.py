"""Self-attention over an `AttentionPattern`, at a cost linear in the length where the pattern allows it.

A plan says which keys each query sees. It is made once per forward pass and shared by all layers:

    pattern = attention_pattern("local", block_length=64, width=64)
    plan = plan_blocks(pattern, length, padding)           # linear; or plan_dense(...), or plan_attention(...)
    output = attention(query, key, value, plan)

Queries are cut into blocks; the keys that a block may see are gathered beside it and go through torch's
`scaled_dot_product_attention`, blocks being part of the batch. A query that sees no key at all (padding, mostly)
gets zeros, forward and backward: no NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from summarily.modeling.attention.masks import AttentionPattern
from summarily.support.errors import InputError


@dataclass(frozen=True)
class AttentionPlan:
    """Which keys each query sees, ready for `scaled_dot_product_attention`.

    `mask` is boolean and broadcasts to `[batch, heads, queries, keys]` (blocked: `[batch * blocks, ...]`), or None
    where everything is visible. Queries without a key see everything in `mask` and are zeroed through `empty`.
    """

    mask: torch.Tensor | None = None
    empty: torch.Tensor | None = None
    causal: bool = False  # lower-triangular, so that no mask has to be built
    keys_of_block: torch.Tensor | None = None  # [blocks, keys]: the tokens gathered for each block of queries


def known(condition: torch.Tensor) -> bool:
    """Whether a condition holds, for a shortcut that changes no result: what is compiled cannot ask, and goes without.

    Example:

    >>> known(torch.ones(3).all())
    True
    """
    return not torch.compiler.is_compiling() and bool(condition)


def _guard_empty_rows(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    empty = ~mask.any(-1, keepdim=True)
    return (mask, None) if known(~empty.any()) else (mask | empty, empty)


def plan_keys(padding: torch.Tensor | None) -> AttentionPlan:
    """Every query sees every key that is not padding: encoder self-attention and cross-attention.

    Args:
        padding: `[batch, keys]`, True (or 1) at real tokens; None where there is no padding.

    Example:

    >>> import torch
    >>> plan_keys(torch.tensor([[1, 1, 0]])).mask.tolist()
    [[[[True, True, False]]]]
    """
    if padding is None or known(padding.all()):
        return AttentionPlan()
    return AttentionPlan(*_guard_empty_rows(padding.bool()[:, None, None, :]))


def plan_dense(
    pattern: AttentionPattern,
    queries: int,
    padding: torch.Tensor | None = None,
    *,
    past: int = 0,
    first_key: int = 0,
    device: torch.device | None = None,
) -> AttentionPlan:
    """Queries `past .. past + queries - 1` against keys `first_key .. past + queries - 1`, one explicit mask.

    Args:
        padding: `[batch, past + queries]`, True at real tokens.
        past: how many tokens a cache already holds; `first_key` is the first that it still keeps.
    """
    total = past + queries
    positions = torch.arange(total, device=device)
    mask = pattern.visible(positions[past:, None], positions[None, first_key:])[None, None]
    if padding is not None:
        mask = mask & padding.bool()[:, None, None, first_key:]
    return AttentionPlan(*_guard_empty_rows(mask))


def plan_blocks(
    pattern: AttentionPattern,
    length: int,
    padding: torch.Tensor | None = None,
    *,
    device: torch.device | None = None,
) -> AttentionPlan:
    """The blocked form of `plan_dense`: memory and time linear in `length`.

    Example:

    >>> from summarily.modeling.attention.masks import attention_pattern
    >>> plan = plan_blocks(attention_pattern("local_masked", block_length=2), length=5)
    >>> plan.keys_of_block.tolist()
    [[0, 0, 0, 1], [0, 1, 2, 3], [2, 3, 4, 4]]
    >>> plan.mask[0].int().tolist()
    [[[0, 0, 1, 1], [0, 0, 1, 1]]]
    """
    block = pattern.block_length
    blocks = -(-length // block)
    offsets = torch.tensor(pattern.key_offsets(), device=device)
    keys = torch.arange(blocks, device=device)[:, None] * block + offsets  # [blocks, keys]
    inside = (keys >= 0) & (keys < length)
    keys = keys.clamp(0, length - 1)
    real = inside[None]  # [batch or 1, blocks, keys]
    if padding is not None:
        real = real & padding.bool()[:, keys]
    alike = pattern.visible(torch.arange(block, device=device)[:, None], offsets)  # the same for every block
    mask = real[:, :, None, :] & alike
    mask, empty = _guard_empty_rows(mask.flatten(0, 1)[:, None])  # [batch * blocks, 1, queries, keys]
    return AttentionPlan(mask, empty, keys_of_block=keys)


def plan_attention(
    pattern: AttentionPattern,
    length: int,
    padding: torch.Tensor | None = None,
    *,
    explicit: bool = False,
    device: torch.device | None = None,
) -> AttentionPlan:
    """The cheapest plan for self-attention over `length` tokens.

    Full and causal attention need no mask, a sequence of few blocks is cheaper dense, a long one blocked.
    `explicit=True` asks for the dense mask in any case, as eager and relative attention need it.
    """
    if padding is not None and known(padding.all()):
        padding = None
    short = None if explicit else pattern.short_form(length)
    if short == "full":
        return plan_keys(padding)
    if short == "causal" and padding is None:
        return AttentionPlan(causal=True)
    if pattern.blocked and not explicit:
        padded_length = -(-length // pattern.block_length) * pattern.block_length
        if padded_length * len(pattern.key_offsets()) < length * length:
            return plan_blocks(pattern, length, padding, device=device)
    return plan_dense(pattern, length, padding, device=device)


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: AttentionPlan,
    dropout: float = 0.0,
    *,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """softmax(q k' / sqrt(d)) v over the keys that `plan` allows; tensors are `[batch, heads, length, head size]`.

    Args:
        bias: added to the scores of every block of a blocked plan, `[heads, block length, keys]`.
        scale: of the scores in place of 1 / sqrt(d).

    Example:

    >>> import torch
    >>> from summarily.modeling.attention.masks import attention_pattern
    >>> states = torch.randn(2, 4, 100, 16)
    >>> plan = plan_blocks(attention_pattern("dilated", block_length=8, memory_length=8), length=100)
    >>> attention(states, states, states, plan).shape
    torch.Size([2, 4, 100, 16])
    """
    if plan.keys_of_block is not None:
        return _blocked_attention(query, key, value, plan, dropout, bias, scale)
    if bias is not None:
        raise InputError("a bias is the same for every block: it needs a blocked plan, see plan_blocks.")
    output = F.scaled_dot_product_attention(
        query, key, value, plan.mask, dropout, is_causal=plan.causal, scale=scale
    )
    return output if plan.empty is None else output.masked_fill(plan.empty, 0.0)


def eager_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: AttentionPlan,
    dropout: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attention` under a dense plan, step by step, which also returns the weights `[batch, heads, queries, keys]`."""
    logits = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return weigh(logits, value, plan, dropout)


def weigh(
    logits: torch.Tensor, value: torch.Tensor, plan: AttentionPlan, dropout: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax of `logits` under a dense plan, applied to `value`; returns the output and the weights."""
    if plan.mask is not None:
        logits = logits.masked_fill(~plan.mask, float("-inf"))
    weights = logits.softmax(-1)
    if plan.empty is not None:
        weights = weights.masked_fill(plan.empty, 0.0)
    if dropout:
        weights = F.dropout(weights, dropout)
    return weights @ value, weights


def _blocked_attention(query, key, value, plan, dropout, bias=None, scale=None):
    batch, heads, length, size = query.shape
    blocks, keys = plan.keys_of_block.shape
    block = plan.mask.shape[-2]

    # Rows of all heads together are longer, hence faster to gather, than rows of one head.
    def token_rows(states):
        return states.transpose(1, 2).reshape(batch * length, heads * size)

    rows = plan.keys_of_block + torch.arange(batch, device=query.device)[:, None, None] * length

    def gather(states):
        gathered = F.embedding(rows, token_rows(states))  # [batch, blocks, keys, heads * size]
        return gathered.view(batch * blocks, keys, heads, size).transpose(1, 2)

    padded = F.pad(query, (0, 0, 0, blocks * block - length))
    queries = padded.view(batch, heads, blocks, block, size).transpose(1, 2).reshape(-1, heads, block, size)
    mask, empty = plan.mask, plan.empty
    if mask.shape[0] != batch * blocks:  # no padding: one mask for the whole batch
        mask = mask.repeat(batch, 1, 1, 1)
        empty = None if empty is None else empty.repeat(batch, 1, 1, 1)
    if bias is not None:
        mask = bias.to(query.dtype).masked_fill(~mask, float("-inf"))
    output = F.scaled_dot_product_attention(queries, gather(key), gather(value), mask, dropout, scale=scale)
    if empty is not None:
        output = output.masked_fill(empty, 0.0)
    output = output.view(batch, blocks, heads, block, size).transpose(1, 2)
    return output.reshape(batch, heads, blocks * block, size)[:, :, :length]
