"""The kernels of `window_attention`: blocks of queries through torch's flash kernel (CPU), in plain operations (any device,
and dropout), and flex attention (CUDA)."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from summarily.modeling.attention.window_plan import (
    WindowPlan,
    bias_at,
)

# A model that is loaded as remote code brings a copy of this file. Its operators have names of their own: defining one a
# second time would take it away from whoever holds the first.
_COPY = "" if __name__.startswith("summarily.") else f"_{zlib.crc32(__name__.encode()):08x}"


@dataclass(frozen=True)
class _Block:
    """Queries `start .. end - 1`, which see keys `first .. last - 1`."""

    start: int
    end: int
    first: int
    last: int


def _blocks(length: int, window: int, block: int) -> Iterator[_Block]:
    for start in range(0, length, block):
        end = min(start + block, length)
        yield _Block(start, end, max(0, start - window), min(length, end + window))


def _band(window: int, block: int, device) -> tuple[torch.Tensor, torch.Tensor]:
    """For queries 0..block-1 and keys -window..block+window-1: inside the window, and the query itself."""
    distance = torch.arange(block + 2 * window, device=device) - torch.arange(block, device=device)[:, None]
    return (distance >= 0) & (distance <= 2 * window), distance == window


def _seen_by(part: _Block, band, window: int, local, global_real) -> torch.Tensor | None:
    """The mask of one block, `[batch or 1, 1, queries, globals + keys]`; None where everything is seen."""
    rows, shift = part.end - part.start, window - part.start
    columns = slice(part.first + shift, part.last + shift)
    inside, itself = (table[:rows, columns] for table in band)
    reaches_all = part.end - 1 - part.first <= window and part.last - 1 - part.start <= window
    if local is None:
        return None if reaches_all else inside[None, None]
    # A query at padding keeps itself, so that no row is empty; its output is dropped.
    seen = inside & (local[:, None, part.first : part.last] | itself)
    if global_real is not None:
        seen = torch.cat([global_real[:, None, :].expand(-1, rows, -1), seen], dim=-1)
    return seen[:, None]


def spread_bias(
    bias, plan, query, window: int, block: int
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The bias of one block's queries and keys, `[heads, block, block + 2 window]` (the same for every block), and of
    all queries and the global keys, `[batch, heads, length, globals]`."""
    if bias is None:
        return None, None
    bias = bias.to(query.dtype)
    device, length = query.device, query.shape[1]
    keys = torch.arange(-window, block + window, device=device)
    near = bias_at(bias, keys - torch.arange(block, device=device)[:, None]).contiguous()
    if plan.global_index is None:
        return near, None
    far = bias_at(bias, plan.global_index[:, None, :] - torch.arange(length, device=device)[:, None])
    return near, far.transpose(0, 1)


def _rows_at(states: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The tokens `index` `[batch, globals]` of `states` `[batch, length, ...]`."""
    return states[torch.arange(index.shape[0], device=index.device)[:, None], index]


def _with_globals(rows: torch.Tensor | None, states: torch.Tensor, part: _Block) -> torch.Tensor:
    """Keys or values of one block behind those of the global tokens, heads first."""
    window = states[:, part.first : part.last]
    return (window if rows is None else torch.cat([rows, window], dim=1)).transpose(1, 2)


def _additive(
    seen: torch.Tensor | None, dtype: torch.dtype, bias: torch.Tensor | None = None
) -> torch.Tensor | None:
    """What is added to the scores of a block: its bias, and minus infinity where a key is not seen."""
    if seen is None:
        return bias
    if bias is None:
        bias = torch.zeros((), dtype=dtype, device=seen.device)
    return bias.masked_fill(~seen, float("-inf"))


def _bias_of(part: _Block, window: int, near, far) -> torch.Tensor | None:
    """The bias of one block, `[batch or 1, heads, queries, globals + keys]`."""
    if near is None:
        return None
    shift = window - part.start
    bias = near[None, :, : part.end - part.start, part.first + shift : part.last + shift]
    if far is None:
        return bias
    columns = far[:, :, part.start : part.end]
    return torch.cat([columns, bias.expand(columns.shape[0], -1, -1, -1)], dim=-1)


def _simplified(local, near, band) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """`local` only where it hides something, and the bias with the window's edges in it: a block without padding then
    needs no mask of its own."""
    if local is not None and bool(local.all()):
        local = None
    return local, None if near is None else near.masked_fill(~band[0], float("-inf"))


def _says_all(near, local) -> bool:
    """The bias alone tells what is seen."""
    return near is not None and local is None


# One operator, opaque to `torch.compile`: what autograd would keep of every block (its copy of the keys, its mask)
# is as wide as the window, while the output and the log-sum-exp of each row are enough to go back.
@torch.library.custom_op(f"summarily::window_attention{_COPY}", mutates_args=(), device_types="cpu")
def flash_windows(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    local: torch.Tensor | None,
    global_index: torch.Tensor | None,
    global_real: torch.Tensor | None,
    near: torch.Tensor | None,
    far: torch.Tensor | None,
    window: int,
    block: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output `[batch, length, heads, size]` and the log-sum-exp `[batch, length, heads]`."""
    band = _band(window, block, query.device)
    local, near = _simplified(local, near, band)
    global_keys, global_values = (
        None if global_index is None else _rows_at(states, global_index) for states in (key, value)
    )
    output = torch.empty(query.shape, dtype=query.dtype)
    normalizer = torch.empty(query.shape[:3], dtype=torch.promote_types(query.dtype, torch.float32))
    for part in _blocks(query.shape[1], window, block):
        rows = slice(part.start, part.end)
        seen = None if _says_all(near, local) else _seen_by(part, band, window, local, global_real)
        states, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query[:, rows].transpose(1, 2),
            _with_globals(global_keys, key, part),
            _with_globals(global_values, value, part),
            attn_mask=_additive(seen, query.dtype, _bias_of(part, window, near, far)),
            scale=scale,
        )
        output[:, rows] = states.transpose(1, 2)
        normalizer[:, rows] = log_sum.transpose(1, 2)
    return output, normalizer


@flash_windows.register_fake
def _(query, *rest):
    normalizer = query.new_empty(query.shape[:3], dtype=torch.promote_types(query.dtype, torch.float32))
    return query.new_empty(query.shape), normalizer


@torch.library.custom_op(f"summarily::window_attention_backward{_COPY}", mutates_args=(), device_types="cpu")
def _flash_windows_backward(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    local: torch.Tensor | None,
    global_index: torch.Tensor | None,
    global_real: torch.Tensor | None,
    output: torch.Tensor,
    normalizer: torch.Tensor,
    window: int,
    block: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    band = _band(window, block, query.device)
    local, _ = _simplified(local, None, band)
    global_index = global_index if global_index is not None and global_index.shape[1] else None
    count = 0 if global_index is None else global_index.shape[1]
    global_keys, global_values = (
        None if global_index is None else _rows_at(states, global_index) for states in (key, value)
    )
    grad_query = torch.empty(query.shape, dtype=query.dtype)
    grad_key, grad_value = (torch.zeros(key.shape, dtype=key.dtype) for _ in range(2))
    grad_globals = [torch.zeros_like(states) for states in (global_keys, global_values) if states is not None]
    for part in _blocks(query.shape[1], window, block):
        rows = slice(part.start, part.end)
        grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad[:, rows].transpose(1, 2),
            query[:, rows].transpose(1, 2),
            _with_globals(global_keys, key, part),
            _with_globals(global_values, value, part),
            output[:, rows].transpose(1, 2),
            normalizer[:, rows].transpose(1, 2),
            0.0,
            False,
            attn_mask=_additive(_seen_by(part, band, window, local, global_real), query.dtype),
            scale=scale,
        )
        grad_query[:, rows] = grads[0].transpose(1, 2)
        for i, (total, grad_part) in enumerate(zip((grad_key, grad_value), grads[1:], strict=True)):
            grad_part = grad_part.transpose(1, 2)
            total[:, part.first : part.last] += grad_part[:, count:]
            if count:
                grad_globals[i] += grad_part[:, :count]
    if global_index is not None:
        batch = torch.arange(global_index.shape[0])[:, None].expand_as(global_index)
        for total, global_rows in zip((grad_key, grad_value), grad_globals, strict=True):
            total.index_put_((batch, global_index), global_rows, accumulate=True)
    return grad_query, grad_key, grad_value


@_flash_windows_backward.register_fake
def _(grad, query, key, value, *rest):
    return tuple(states.new_empty(states.shape) for states in (query, key, value))


# torch's kernel gives no gradient of what is added to the scores, so with a bias the backward pass is written out. A
# block's scores are computed again from its queries and keys, as the kernel does, and no two blocks are held at once.
@torch.library.custom_op(
    f"summarily::biased_window_attention_backward{_COPY}", mutates_args=(), device_types="cpu"
)
def _biased_windows_backward(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    local: torch.Tensor | None,
    global_index: torch.Tensor | None,
    global_real: torch.Tensor | None,
    near: torch.Tensor,
    far: torch.Tensor | None,
    output: torch.Tensor,
    normalizer: torch.Tensor,
    window: int,
    block: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    batch, length, heads, _ = query.shape
    dtype, exact = query.dtype, normalizer.dtype
    band = _band(window, block, query.device)
    local, near = _simplified(local, near, band)[0], near.masked_fill(~band[0], float("-inf"))
    global_index = global_index if global_index is not None and global_index.shape[1] else None
    count = 0 if global_index is None else global_index.shape[1]
    keys = [key] if global_index is None else [_rows_at(key, global_index), key]
    values = [value] if global_index is None else [_rows_at(value, global_index), value]
    # Heads first, the tokens of one head side by side; the globals in front of all others.
    grad, query, key, value = (
        states.transpose(1, 2).reshape(batch * heads, -1, states.shape[-1])
        for states in (grad, query * scale, torch.cat(keys, dim=1), torch.cat(values, dim=1))
    )
    output, normalizer = (states.transpose(1, 2).flatten(0, 1) for states in (output, normalizer))
    mean = (grad * output).sum(-1, keepdim=True, dtype=exact)
    grad_query, grad_key, grad_value = (torch.zeros_like(states) for states in (query, key, value))
    grad_near = torch.zeros(near.shape, dtype=exact)
    grad_far = torch.zeros((batch, heads, length, count), dtype=exact)
    for part in _blocks(length, window, block):
        rows, near_keys = slice(part.start, part.end), slice(count + part.first, count + part.last)
        pieces = [near_keys] if not count else [slice(0, count), near_keys]

        def beside(states, pieces=pieces):
            return states[:, pieces[0]] if len(pieces) == 1 else torch.cat([states[:, p] for p in pieces], 1)

        seen = None if _says_all(near, local) else _seen_by(part, band, window, local, global_real)
        added = _additive(seen, dtype, _bias_of(part, window, near, far))
        assert added is not None, "there is a bias"
        added = added.expand(batch, -1, -1, -1).flatten(0, 1)
        scores = torch.baddbmm(added, query[:, rows], beside(key).transpose(1, 2))
        weights = scores.to(exact).sub_(normalizer[:, rows, None]).exp_()
        grad_weights = torch.bmm(grad[:, rows], beside(value).transpose(1, 2))
        grad_scores = grad_weights.to(exact).sub_(mean[:, rows]).mul_(weights)
        by_head = grad_scores.unflatten(0, (batch, heads))
        shift = window - part.start
        columns = slice(part.first + shift, part.last + shift)
        near_scores = by_head[0] if batch == 1 else by_head.sum(0)
        grad_near[:, : part.end - part.start, columns] += near_scores[..., count:]
        grad_far[:, :, rows] = by_head[..., :count]
        grad_scores = grad_scores.to(dtype)
        torch.bmm(grad_scores, beside(key), out=grad_query[:, rows])
        for total, part_scores, source in (
            (grad_key, grad_scores, query[:, rows]),
            (grad_value, weights.to(dtype), grad[:, rows]),
        ):
            first = 0
            for piece in pieces:
                last = first + piece.stop - piece.start
                total[:, piece].baddbmm_(part_scores[:, :, first:last].transpose(1, 2), source)
                first = last
    grads = [
        states.unflatten(0, (batch, heads)).transpose(1, 2)
        for states in (grad_query.mul_(scale), grad_key, grad_value)
    ]
    if global_index is not None:
        row = torch.arange(batch)[:, None].expand_as(global_index)
        for i in (1, 2):
            far_rows, grads[i] = grads[i][:, :count], grads[i][:, count:].contiguous()
            grads[i].index_put_((row, global_index), far_rows, accumulate=True)
    return (*(states.contiguous() for states in grads), grad_near.to(dtype), grad_far.to(dtype))


@_biased_windows_backward.register_fake
def _(grad, query, key, value, local, global_index, global_real, near, far, *rest):
    count = 0 if global_index is None else global_index.shape[1]
    batch, length, heads, _ = query.shape
    grads = (states.new_empty(states.shape) for states in (query, key, value, near))
    return (*grads, query.new_empty(batch, heads, length, count))


def _keep_for_backward(ctx, inputs, output):
    *tensors, ctx.window, ctx.block, ctx.scale = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[1])


def _go_back(ctx, grad, _):
    *tensors, near, far, output, normalizer = ctx.saved_tensors
    numbers = (ctx.window, ctx.block, ctx.scale)
    if near is None:
        grads = _flash_windows_backward(grad, *tensors, output, normalizer, *numbers)
        grad_near, grad_far = None, None
    else:
        *grads, grad_near, grad_far = _biased_windows_backward(
            grad, *tensors, near, far, output, normalizer, *numbers
        )
    return (*grads, None, None, None, grad_near, None if far is None else grad_far, None, None, None)


flash_windows.register_autograd(_go_back, setup_context=_keep_for_backward)


def block_attention(query, key, value, plan, window, dropout, block, bias, scale):
    """The same blocks in plain operations: any device, and dropout."""
    band = _band(window, block, query.device)
    spread = spread_bias(bias, plan, query, window, block)
    outputs = []
    for part in _blocks(query.shape[1], window, block):
        arguments = (query, key, value, plan, window, dropout, band, *spread, scale, part)
        if torch.is_grad_enabled() and query.requires_grad:
            states = checkpoint(_one_block, *arguments, use_reentrant=False)
        else:
            states = _one_block(*arguments)
        outputs.append(states)
    return torch.cat(outputs, dim=1)


def _one_block(query, key, value, plan, window, dropout, band, near, far, scale, part):
    index = plan.global_index
    keys, values = (
        _with_globals(None if index is None else _rows_at(source, index), source, part)
        for source in (key, value)
    )
    seen = _seen_by(part, band, window, plan.local, plan.global_real)
    if near is not None:
        seen = _additive(seen, query.dtype, _bias_of(part, window, near, far))
    rows = query[:, part.start : part.end].transpose(1, 2)
    return F.scaled_dot_product_attention(rows, keys, values, seen, dropout, scale=scale).transpose(1, 2)


@functools.cache
def _compiled_flex():
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)


def flex_block_mask(plan: WindowPlan, batch: int, length: int, window: int, device):
    """The block mask of flex attention: window or global column, and not padding; a query always sees itself."""
    from torch.nn.attention.flex_attention import create_block_mask

    everywhere = torch.zeros(batch, length + 1, dtype=torch.bool, device=device)
    if plan.global_index is not None:
        everywhere.scatter_(1, plan.index_with(length), True)
    local = plan.local if plan.local is not None else torch.ones_like(everywhere)

    def seen(b, h, i, j):
        return (((i - j).abs() <= window) & local[b, j]) | everywhere[b, j] | (i == j)

    return create_block_mask(seen, batch, None, length, length, device=device)


def flex_windows(query, key, value, plan, window, bias, scale):
    from torch.nn.attention.flex_attention import flex_attention

    batch, length = query.shape[:2]
    mask = flex_block_mask(plan, batch, length, window, query.device)
    # Only compiled flex attention skips the blocks outside the window; on CPU the plain form checks the mask.
    run = _compiled_flex() if query.device.type == "cuda" else flex_attention
    states = (states.transpose(1, 2) for states in (query, key, value))
    if bias is None:
        return run(*states, block_mask=mask, scale=scale).transpose(1, 2)
    reach = bias.shape[0] // 2

    def biased(score, b, h, i, j):
        return score + bias[(j - i).clamp(-reach, reach) + reach, h]

    return run(*states, score_mod=biased, block_mask=mask, scale=scale).transpose(1, 2)
