"""Which tokens see which in sliding-window attention with global tokens: the plan, and attention by its definition.

`window.py` says what is meant, and computes the same in less memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class WindowPlan:
    """Which tokens are padding, local and global; made once per forward pass by `plan_window`.

    Args:
        local: `[batch, length]`, True where a token is seen through the window; None where all are.
        real: `[batch, length]`, False at padding; None where nothing is.
        global_index: `[batch, globals]`, positions of the global tokens; rows with fewer of them hold any position.
        global_real: `[batch, globals]`, False where `global_index` holds no token.
    """

    local: torch.Tensor | None = None
    real: torch.Tensor | None = None
    global_index: torch.Tensor | None = None
    global_real: torch.Tensor | None = None

    def index_with(self, beyond: int) -> torch.Tensor:
        """`global_index`, `beyond` where it holds no token."""
        assert self.global_index is not None and self.global_real is not None, "there are global tokens"
        return self.global_index.masked_fill(~self.global_real, beyond)


def plan_window(
    attention_mask: torch.Tensor | None = None,
    global_mask: torch.Tensor | None = None,
    *,
    max_globals: int | None = None,
) -> WindowPlan:
    """Sort the tokens into padding, local and global ones.

    Args:
        attention_mask: `[batch, length]`, 1 at real tokens.
        global_mask: `[batch, length]`, 1 at global tokens; padding is never global.
        max_globals: the most global tokens in a row. Counted when left out, which waits for the device and
            stops `torch.compile`.

    Example:

    >>> import torch
    >>> plan = plan_window(torch.tensor([[1, 1, 1, 0]]), torch.tensor([[1, 0, 0, 0]]))
    >>> plan.local.tolist(), plan.global_index.tolist()
    ([[False, True, True, False]], [[0]])
    """
    real = None if attention_mask is None else attention_mask.bool()
    if global_mask is None:
        return WindowPlan(local=real, real=real)
    is_global = global_mask.bool() if real is None else global_mask.bool() & real
    if max_globals is None:
        max_globals = int(is_global.sum(1).max())
    if max_globals == 0:
        return WindowPlan(local=real, real=real)
    index = is_global.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :max_globals]
    local = ~is_global if real is None else real & ~is_global
    return WindowPlan(local, real, index, is_global.gather(1, index))


def plan_first_token(attention_mask: torch.Tensor | None, batch: int, length: int, device) -> WindowPlan:
    """The plan with one global token per row, its first real one: no waiting for the device.

    Example:

    >>> import torch
    >>> plan_first_token(torch.tensor([[0, 1, 1]]), 1, 3, None).global_index.tolist()
    [[1]]
    """
    if attention_mask is None:
        index = torch.zeros(batch, 1, dtype=torch.long, device=device)
        local = (torch.arange(length, device=device) > 0).expand(batch, length)
        return WindowPlan(local, None, index, torch.ones_like(index, dtype=torch.bool))
    real = attention_mask.bool()
    index = real.to(torch.uint8).argmax(1, keepdim=True)
    return WindowPlan(real.scatter(1, index, False), real, index, real.gather(1, index))


def plan_by_option(
    global_tokens: str,
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor | None,
    global_mask: torch.Tensor | None = None,
) -> WindowPlan:
    """The plan of a model: global tokens by the mask, or else the first of each row if `global_tokens` is "bos"."""
    if global_mask is not None:
        return plan_window(attention_mask, global_mask)
    if global_tokens == "bos":
        batch, length, _ = hidden_states.shape
        return plan_first_token(attention_mask, batch, length, hidden_states.device)
    return plan_window(attention_mask)


# --- the definition ---------------------------------------------------------------------------------------


def window_mask(length: int, window: int, plan: WindowPlan, device=None) -> torch.Tensor:
    """`[batch or 1, length, length]`, True where a query that is not global sees a key. The row of a query at
    padding is as the window leaves it: its output is set to zero instead.

    Example:

    >>> import torch
    >>> plan = plan_window(None, torch.tensor([[1, 0, 0, 0]]))
    >>> window_mask(4, 1, plan)[0].int().tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 1, 1]]
    """
    positions = torch.arange(length, device=device)
    seen = ((positions[:, None] - positions).abs() <= window)[None]
    if plan.local is not None:
        seen = seen & plan.local[:, None, :]
    if plan.global_index is not None:
        # A padded entry of the index writes into a column that is cut off.
        index = plan.index_with(length)
        columns = torch.zeros(index.shape[0], length + 1, dtype=torch.bool, device=device)
        seen = seen | columns.scatter(1, index, True)[:, None, :length]
    return seen


def window_attention_dense(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: WindowPlan,
    window: int,
    dropout: float = 0.0,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`window_attention` from the full matrix of scores; also returns the weights `[batch, heads, queries, keys]`."""
    length = query.shape[1]
    seen = window_mask(length, window, plan, query.device)[:, None]
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * scale_of(query, scale)
    if bias is not None:
        positions = torch.arange(length, device=query.device)
        scores = scores + bias_at(bias, positions - positions[:, None])
    weights = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1, dtype=torch.float32)
    if plan.real is not None:
        weights = weights.masked_fill(~plan.real[:, None, :, None], 0.0)
    weights = F.dropout(weights.to(value.dtype), dropout)
    return torch.einsum("bhqk,bkhd->bqhd", weights, value), weights


def bias_at(bias: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
    """`[heads, ...]`: the bias `[2 reach + 1, heads]` at `distances` `[...]`, key position minus query position.

    Example:

    >>> import torch
    >>> bias_at(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[0, 1], [-1, 0]])).tolist()
    [[[2.0, 3.0], [1.0, 2.0]]]
    """
    reach = bias.shape[0] // 2
    # No two tokens are further apart than the reach; further distances belong to pairs that nobody sees.
    return F.embedding(distances.clamp(-reach, reach) + reach, bias).movedim(-1, 0)


def scale_of(query: torch.Tensor, scale: float | None) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale
