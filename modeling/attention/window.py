"""Sliding-window attention with global tokens (Longformer, Beltagy et al. 2020), exact, in memory linear in the length.

Every token is padding, local or global. With `w` tokens on each side:

    a local query i     sees the local keys |i - j| <= w, and every global token, under one softmax
    a global query      sees every token that is not padding, through projections of its own
    a query at padding  gets zeros

`window_mask` and `window_attention_dense` are that definition; `window_attention` equals them without ever
holding a row longer than a block's window. The kernel is chosen by device:

    CPU     blocks of queries through torch's flash kernel, forward and backward, in one operator
    CUDA    flex attention over one block mask
    else    (and wherever attention dropout is on) blocks of queries through `scaled_dot_product_attention`,
            computed again in the backward pass so that nothing as wide as the window is kept

    plan = plan_window(attention_mask, global_mask)        # once per forward pass, for all layers
    states = window_attention(query, key, value, plan, window=512)
    rows = global_attention(hidden_states, global_query, key_projection, value_projection, plan)
    states = put_global_rows(states, rows, plan)

Queries, keys and values are `[batch, length, heads, head size]`, as the projections leave them. A bias by relative
distance (T5's) is one row for each distance, `[2 reach + 1, heads]` from -reach to reach: it is added to the scores of
all pairs, and has a gradient, without ever being as large as the pairs are many.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from summarily.modeling.attention.window_kernels import (
    block_attention,
    flash_windows,
    flex_windows,
    spread_bias,
)
from summarily.modeling.attention.window_plan import (
    WindowPlan,
    bias_at,
    scale_of,
)
from summarily.support.errors import InputError

BLOCK = 256  # queries that share one key slice; the time is flat from 128 to 512
BIASED_BLOCK = 64  # with a bias, whose gradient needs the scores: these stay in the cache


def window_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: WindowPlan,
    window: int,
    dropout: float = 0.0,
    backend: str | None = None,
    block: int | None = None,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """Each query's softmax over its window and the global tokens; see the top of this file.

    Args:
        query, key, value: `[batch, length, heads, head size]`, any length.
        window: tokens on each side, the query's own not counted.
        dropout: of the attention weights.
        backend: "flash" (CPU), "flex" (CUDA) or "blocks"; chosen by device when left out.
        block: queries that share one key slice.
        bias: by relative distance, `[2 reach + 1, heads]`; see the top of this file.
        scale: of the scores, before the bias; `head size ** -0.5` when left out.

    The rows of global queries are to be replaced by `put_global_rows`.

    Example:

    >>> import torch
    >>> states = torch.randn(2, 1000, 4, 16)
    >>> plan = plan_first_token(None, 2, 1000, None)
    >>> window_attention(states, states, states, plan, window=64).shape
    torch.Size([2, 1000, 4, 16])
    """
    if backend is None:
        backend = "blocks" if dropout else {"cpu": "flash", "cuda": "flex"}.get(query.device.type, "blocks")
    if backend != "blocks" and dropout:
        raise InputError(f"backend={backend!r} has no dropout; use 'blocks', or leave the backend out.")
    block = block or (BLOCK if bias is None else BIASED_BLOCK)
    scale = scale_of(query, scale)
    if backend == "flash":
        globals_ = (plan.global_index, plan.global_real)
        spread = spread_bias(bias, plan, query, window, block)
        output = flash_windows(query, key, value, plan.local, *globals_, *spread, window, block, scale)[0]
    elif backend == "flex":
        output = flex_windows(query, key, value, plan, window, bias, scale)
    elif backend == "blocks":
        output = block_attention(query, key, value, plan, window, dropout, block, bias, scale)
    else:
        raise InputError(f"backend={backend!r} is unknown; choose 'flash', 'flex' or 'blocks'.")
    return output if plan.real is None else output.masked_fill(~plan.real[:, :, None, None], 0.0)


# --- global queries ---------------------------------------------------------------------------------------


def global_attention(
    hidden_states: torch.Tensor,
    query: torch.Tensor,
    key_projection: torch.nn.Linear,
    value_projection: torch.nn.Linear,
    plan: WindowPlan,
    dropout: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of the global tokens to every real token.

    A few queries do not need a key and a value of every token: q (W x + b) = (q W) x + q b, so the query goes
    through the key projection instead and attends to the hidden states themselves, and their weighted mean goes
    through the value projection. Two of six projections of the whole document are saved. A projection that is more than
    its weights (an adapter, a quantized or an offloaded one) is called instead, like any module.

    Args:
        hidden_states: `[batch, length, width]`.
        query: `[batch, globals, heads, head size]`, projected but not scaled.

    Returns:
        the rows `[batch, globals, heads, head size]` and the weights `[batch, heads, globals, length]`.
    """
    heads, size = query.shape[2:]
    around = is_its_weights(key_projection) and is_its_weights(value_projection)
    if query.shape[1] >= size or not around:  # with many queries it is as cheap to project every token
        key, value = (
            projection(hidden_states).unflatten(-1, (heads, size))
            for projection in (key_projection, value_projection)
        )
        return attend_everywhere(query, key, value, plan, dropout)
    query = query * size**-0.5
    weight = key_projection.weight.unflatten(0, (heads, size))
    # The bias adds the same to all of a query's scores. It is there so that it has a gradient: zero.
    bias = torch.einsum("bghd,hd->bhg", query, key_projection.bias.unflatten(0, (heads, size)))
    scores = torch.einsum("bhgc,blc->bhgl", torch.einsum("bghd,hdc->bhgc", query, weight), hidden_states)
    weights = _weights_of(scores + bias[..., None], plan, dropout).to(hidden_states.dtype)
    mean = torch.einsum("bhgl,blc->bhgc", weights, hidden_states)
    rows = torch.einsum("bhgc,hdc->bghd", mean, value_projection.weight.unflatten(0, (heads, size)))
    # Dropout leaves weights that do not sum to one.
    mass = weights.sum(-1).transpose(1, 2)[..., None]
    return rows + mass * value_projection.bias.unflatten(0, (heads, size)), weights


def is_its_weights(projection: torch.nn.Module) -> bool:
    """Whether calling a projection is W x + b and nothing else: no adapter, no hook, nothing put in its place.

    Example:

    >>> is_its_weights(torch.nn.Linear(2, 2)), is_its_weights(torch.nn.Identity())
    (True, False)
    """
    hooked = projection._forward_hooks or projection._forward_pre_hooks or projection._backward_hooks
    # accelerate, which loads weights when a module is called, puts its own method in the place of `forward`.
    return type(projection) is torch.nn.Linear and not hooked and not hasattr(projection, "_hf_hook")


def attend_everywhere(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: WindowPlan,
    dropout: float = 0.0,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of `query` `[batch, globals, heads, head size]`, the plan's global tokens, to every real token's key
    and value. Returns the rows, shaped as the queries, and the weights `[batch, heads, globals, length]`."""
    scores = torch.einsum("bghd,blhd->bhgl", query * scale_of(query, scale), key)
    if bias is not None:
        assert plan.global_index is not None, "the queries are those of global tokens"
        positions = torch.arange(key.shape[1], device=key.device)
        scores = scores + bias_at(bias, positions - plan.global_index[..., None]).transpose(0, 1)
    weights = _weights_of(scores, plan, dropout).to(value.dtype)
    return torch.einsum("bhgl,blhd->bghd", weights, value), weights


def _weights_of(scores: torch.Tensor, plan: WindowPlan, dropout: float) -> torch.Tensor:
    if plan.real is not None:
        scores = scores.masked_fill(~plan.real[:, None, None, :], torch.finfo(scores.dtype).min)
    return F.dropout(scores.softmax(-1, dtype=torch.float32), dropout)


def put_global_rows(states: torch.Tensor, rows: torch.Tensor, plan: WindowPlan) -> torch.Tensor:
    """`states` `[batch, length, heads, head size]` with `rows` at the global tokens.

    Example:

    >>> import torch
    >>> plan = plan_first_token(None, 1, 3, None)
    >>> put_global_rows(torch.zeros(1, 3, 1, 1), torch.ones(1, 1, 1, 1), plan).flatten().tolist()
    [1.0, 0.0, 0.0]
    """
    length = states.shape[1]
    # Entries of the index that hold no token write into one more row, which is cut off again.
    index = plan.index_with(length)
    index = index[:, :, None, None].expand(-1, -1, *states.shape[2:])
    return F.pad(states, (0, 0, 0, 0, 0, 1)).scatter(1, index, rows.to(states.dtype))[:, :length]
