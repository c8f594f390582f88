"""The two attentions of the Reformer (Kitaev et al. 2020) for an encoder: by hash buckets, and by neighbouring chunks.

`lsh_attention` gives the numbers of transformers' `LSHSelfAttention` for the same rotations, at any length. What
differs is where the rotations come from: they are an argument, drawn once by a generator of their own, so a model
gives the same output every time, gradient checkpointing sees the same buckets, and nobody's random state changes.

    rotations = draw_rotations(heads=8, size=64, columns=64, seed=0)
    states = lsh_attention(query_key, value, rotations, chunk_length=64)

`plan_local` has no wrap-around: the first chunk does not see the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from summarily.modeling.attention.blocks import AttentionPlan, plan_blocks, plan_dense
from summarily.support.errors import InputError

# The scores of keys that are not to be seen, and of the query itself, which is seen only if nothing else is.
HIDDEN, ITSELF = -1e9, -1e5
HIDDEN_HALF, ITSELF_HALF = -1e4, -1e3  # float16 holds no more


def bucket_factors(length: int, chunk_length: int, max_length: int) -> list[int]:
    """How many buckets to hash `length` tokens into: about `2 length / chunk_length`, a power of two, in two
    factors when that is many. The product of the factors is the number of buckets.

    Example:

    >>> bucket_factors(1024, 64, 1024), bucket_factors(16384, 64, 16384)
    ([32], [16, 32])
    """
    power = max((2 * (length // chunk_length)).bit_length() - 1, 1)
    if 2**power <= 2 * max(math.isqrt(max_length // chunk_length), chunk_length):
        return [2**power]
    return [2 ** (power // 2), 2 ** (power - power // 2)]


def rotation_columns(chunk_length: int, max_length: int) -> int:
    """Columns of the rotations that are enough for every length up to `max_length`.

    Example:

    >>> rotation_columns(64, 16384)
    64
    """
    padded = (
        -(-max_length // chunk_length) * chunk_length
    )  # a document is hashed with its last chunk filled up
    lengths = {padded, *(chunk_length * 2**power for power in range(padded.bit_length()))}
    return max(sum(bucket_factors(min(length, padded), chunk_length, max_length)) // 2 for length in lengths)


def draw_rotations(heads: int, size: int, columns: int, hashes: int = 1, seed: int = 0) -> torch.Tensor:
    """Random directions `[heads, size, hashes, columns]` from a generator of their own.

    Example:

    >>> bool((draw_rotations(2, 4, 8) == draw_rotations(2, 4, 8)).all())
    True
    """
    return torch.randn(heads, size, hashes, columns, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def hash_buckets(vectors: torch.Tensor, rotations: torch.Tensor, factors: list[int]) -> torch.Tensor:
    """The bucket of each vector in each round, `[batch, heads, hashes, length]`: the nearest of the directions and
    their opposites, one digit per factor, the first the least significant.

    Example:

    >>> import torch
    >>> vectors = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])[None, None]
    >>> hash_buckets(vectors, torch.eye(2)[None, :, None, :], [4]).flatten().tolist()
    [0, 2]
    """
    needed = sum(factors) // 2
    if any(factor < 2 or factor % 2 for factor in factors):
        raise InputError(f"the factors of the number of buckets are {factors}; each must be even.")
    if rotations.shape[-1] < needed:
        raise InputError(
            f"{factors} buckets need {needed} columns of rotations, there are {rotations.shape[-1]}; "
            "draw more, or hash into fewer buckets."
        )
    directions = rotations[..., :needed].to(vectors.dtype)
    rotated = torch.einsum("bhld,hdnr->bhnlr", vectors, directions)
    buckets, radix = torch.zeros(rotated.shape[:-1], dtype=torch.int32, device=vectors.device), 1
    for factor, part in zip(factors, rotated.split([factor // 2 for factor in factors], -1), strict=True):
        buckets += radix * torch.cat([part, -part], -1).argmax(-1).int()
        radix *= factor
    return buckets


def lsh_attention(
    query_key: torch.Tensor,
    value: torch.Tensor,
    rotations: torch.Tensor,
    chunk_length: int,
    *,
    factors: list[int] | list[list[int]] | FactorChoice | None = None,
    max_length: int | None = None,
    padding: torch.Tensor | None = None,
    causal: bool = False,
    circular: bool = True,
    chunks_before: int = 1,
    chunks_after: int = 0,
    dropout: float = 0.0,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
    shown: list[torch.Tensor] | None = None,
) -> torch.Tensor:
    """Attention among tokens of like hash: sorted by bucket, cut into chunks, each chunk sees itself and its
    neighbours. Queries and keys are the same vectors, the keys brought to unit length.

    Args:
        query_key, value: `[batch, heads, length, size]`, any length.
        rotations: `[heads, size, hashes, columns]`.
        factors: of the number of buckets, or such a list for each row of the batch; by default `bucket_factors` of
            the padded length.
        max_length: the length from which `bucket_factors` decides when two factors are better.
        padding: `[batch, length]`, True (or 1) at real tokens. Padding has a bucket of its own and is never seen.
        causal: a query does not see what stands behind it.
        circular: the first chunk of a round sees the last one of the round before it, as in transformers. Without,
            and with factors that do not depend on the padding, neither does the output.
        dropout: of the attention weights.
        bias: by relative distance, `[2 reach + 1, heads]` from -reach to reach: it is added to the score of a pair by
            where its tokens stand in the document, whatever their place after sorting.
        scale: of the scores, before the bias, with keys whose mean square is one; `size ** -0.5` (keys of unit
            length) when left out.
        shown: a list to which the weights `[batch, heads, length, length]`, of all rounds together, are appended.

    Example:

    >>> import torch
    >>> states = torch.randn(1, 2, 300, 8)
    >>> lsh_attention(states, states, draw_rotations(2, 8, 64), chunk_length=64).shape
    torch.Size([1, 2, 300, 8])
    """
    batch, heads, length, size = query_key.shape
    hashes = rotations.shape[2]
    one_chunk = length <= chunk_length
    extra = 0 if one_chunk else -length % chunk_length
    if extra:
        padding = torch.ones(batch, length, device=value.device) if padding is None else padding
        padding = F.pad(padding.bool(), (0, extra))
        query_key, value = (F.pad(states, (0, 0, 0, extra)) for states in (query_key, value))
    padded = length + extra
    key = query_key * torch.rsqrt(query_key.square().mean(-1, keepdim=True) + 1e-6)
    key = key * (size**-0.5 if scale is None else scale)
    neighbours = (0, 0) if one_chunk else (chunks_before, chunks_after)
    if one_chunk:
        hashes, position, chunk_length = 1, torch.arange(length, device=value.device), length
        position = position.expand(batch, heads, length)
        arranged: tuple[torch.Tensor, ...] = (query_key, key, value)
    else:
        factors = factors or bucket_factors(padded, chunk_length, max_length or padded)
        order = _sorted_by_bucket(query_key, rotations, factors, padding)
        position = order % padded
        rows = position + torch.arange(batch * heads, device=value.device).view(batch, heads, 1) * padded
        arranged = tuple(_take(states, rows) for states in (query_key, key, value))
    per_round = None if circular else padded // chunk_length
    output, log_sum, chunked = _attend_in_chunks(
        arranged, position, padding, chunk_length, neighbours, per_round, bias, causal=causal, dropout=dropout
    )
    if not one_chunk:
        back = torch.empty_like(order).scatter_(
            -1, order, torch.arange(hashes * padded).to(order).expand_as(order)
        )
        output, log_sum = output.gather(2, back[..., None].expand_as(output)), log_sum.gather(2, back)
    share = None
    if hashes > 1:
        log_sum = log_sum.unflatten(2, (hashes, padded))
        # A softmax over the rounds, written as transformers writes it: where a token sees only itself, scores of
        # -1e5 round the shares, and the two forms part at the third digit.
        share = (log_sum - log_sum.logsumexp(2, keepdim=True)).exp()
        output = (output.unflatten(2, (hashes, padded)) * share[..., None]).sum(2)
    if shown is None:
        return output[:, :, :length]
    if share is not None:
        chunked = chunked * share.flatten(2).gather(2, order).view(*chunked.shape[:4], 1)
    dense = _dense(chunked, position, chunk_length, neighbours, padded)
    shown.append(dense[:, :, :length, :length])
    return (dense @ value)[:, :, :length]  # from these weights, so that what is shown has a gradient


def _dense(chunked, position, chunk_length, neighbours, length) -> torch.Tensor:
    """The weights of chunks at the places of their tokens, `[batch, heads, length, length]`."""
    queries = position.unflatten(2, (-1, chunk_length))
    keys = _with_neighbours(queries, *neighbours)
    places = queries[..., :, None] * length + keys[..., None, :]
    empty = chunked.new_zeros(*chunked.shape[:2], length * length)
    # A chunk of few may be its own neighbour, and a token is in a chunk of every round.
    return empty.scatter_add(2, places.flatten(2), chunked.flatten(2)).unflatten(2, (length, length))


@torch.no_grad()
def _sorted_by_bucket(vectors, rotations, factors, padding) -> torch.Tensor:
    """The order `[batch, heads, hashes * length]` of tokens by round and bucket, padding last in every round."""
    if isinstance(factors, FactorChoice):
        buckets, factors = factors.buckets(vectors, rotations), factors.options
    else:
        if isinstance(factors[0], int):
            factors = [factors] * len(vectors)
        alike = all(row == factors[0] for row in factors)
        groups = [slice(None)] if alike else [slice(row, row + 1) for row in range(len(vectors))]
        buckets = torch.cat(
            [hash_buckets(vectors[rows], rotations, factors[rows.start or 0]) for rows in groups]
        )
    count = max(math.prod(row) for row in factors)
    if padding is not None:
        buckets = buckets.masked_fill(~padding.bool()[:, None, None, :], count)
    rounds = torch.arange(buckets.shape[2], dtype=torch.int32, device=buckets.device)
    keys = buckets + rounds[:, None] * (count + 1)
    return keys.flatten(2).sort(dim=-1, stable=True).indices


def _take(states: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows of `[batch, heads, length, size]` by their number among all of `batch * heads * length`."""
    flat = states.reshape(-1, states.shape[-1])
    return flat.index_select(0, rows.flatten()).view(*rows.shape, states.shape[-1])


def _with_neighbours(chunks: torch.Tensor, before: int, after: int) -> torch.Tensor:
    """Each chunk `[batch, heads, chunks, chunk, ...]` behind those before it and in front of those after it, in a
    circle."""
    if not before and not after:
        return chunks
    return torch.cat([chunks.roll(-shift, dims=2) for shift in range(-before, after + 1)], dim=3)


def _outside_round(chunks: int, per_round: int, neighbours: tuple[int, int], device) -> torch.Tensor:
    """`[chunks, 1 + neighbours]`, True where a neighbour belongs to another round of hashing, or to the other end."""
    chunk = torch.arange(chunks, device=device)[:, None]
    offsets = torch.arange(-neighbours[0], neighbours[1] + 1, device=device)
    return (chunk + offsets).div(per_round, rounding_mode="floor") != chunk // per_round


def _attend_in_chunks(
    arranged, position, padding, chunk_length, neighbours, per_round=None, bias=None, *, causal, dropout
):
    """Output `[batch, heads, hashes * length, size]`, log-sum-exp of the scores and weights `[batch, heads, chunks,
    chunk, keys]`, in the arranged order."""
    query, key, value = (states.unflatten(2, (-1, chunk_length)) for states in arranged)
    query_position = position.unflatten(2, (-1, chunk_length))
    key, value, key_position = (
        _with_neighbours(states, *neighbours) for states in (key, value, query_position)
    )
    scores = query @ key.transpose(-1, -2)
    if bias is not None:
        distances = key_position[..., None, :] - query_position[..., :, None]
        scores = scores + _bias_of_pairs(bias.to(scores.dtype), distances)
    half = scores.dtype == torch.float16
    seen = None
    if padding is not None:
        flat = key_position.flatten(1)
        seen = padding.bool().gather(1, flat).view(key_position.shape)[..., None, :]
    if causal:
        earlier = query_position[..., :, None] >= key_position[..., None, :]
        seen = earlier if seen is None else seen & earlier
    if per_round is not None:
        outside = _outside_round(query.shape[2], per_round, neighbours, query.device)
        inside = ~outside.repeat_interleave(chunk_length, dim=1)[:, None, :]
        seen = inside if seen is None else seen & inside
    if seen is not None:
        scores = scores.masked_fill(~seen, HIDDEN_HALF if half else HIDDEN)
    itself = query_position[..., :, None] == key_position[..., None, :]
    scores = scores.masked_fill(itself, ITSELF_HALF if half else ITSELF)
    log_sum = scores.logsumexp(-1, keepdim=True)
    weights = F.dropout((scores - log_sum).exp(), dropout)
    return (weights @ value).flatten(2, 3), log_sum.squeeze(-1).flatten(2), weights


def _bias_of_pairs(bias: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
    """The bias `[2 reach + 1, heads]` at `distances` `[batch, heads, ...]`, which differ from head to head."""
    reach, heads = bias.shape[0] // 2, bias.shape[1]
    head = torch.arange(heads, device=bias.device).view(heads, *[1] * (distances.dim() - 2))
    # Padding behind the document may be further away than the reach; nobody sees it.
    rows = (distances.clamp(-reach, reach) + reach) * heads + head
    return bias.flatten().gather(0, rows.flatten()).view(rows.shape)


@dataclass(frozen=True)
class ChunkPattern:
    """A chunk sees itself, `before` chunks in front of it and `after` behind it: a pattern for `blocks.plan_blocks`."""

    block_length: int
    before: int = 1
    after: int = 1
    causal: bool = False

    def key_offsets(self) -> list[int]:
        return list(range(-self.before * self.block_length, (self.after + 1) * self.block_length))

    def visible(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        start = query // self.block_length * self.block_length
        seen = (key >= start - self.before * self.block_length) & (
            key < start + (self.after + 1) * self.block_length
        )
        return seen & (key <= query) if self.causal else seen


@dataclass(frozen=True)
class FactorChoice:
    """Factors of the number of buckets for documents whose lengths nobody may ask for, as in what is compiled."""

    options: list[list[int]]
    choice: torch.Tensor  # [batch], which of the options

    @classmethod
    def by_length(
        cls, lengths: torch.Tensor, longest: int, chunk_length: int, max_length: int
    ) -> FactorChoice:
        """The same factors that each of `lengths`, none above `longest`, has by itself."""
        own = [
            bucket_factors(max(chunks, 1) * chunk_length, chunk_length, max_length)
            for chunks in range(-(-longest // chunk_length) + 1)
        ]
        options = [factors for number, factors in enumerate(own) if factors not in own[:number]]
        table = torch.tensor([options.index(factors) for factors in own], device=lengths.device)
        return cls(options, table[(lengths + chunk_length - 1) // chunk_length])

    def buckets(self, vectors: torch.Tensor, rotations: torch.Tensor) -> torch.Tensor:
        each = torch.stack([hash_buckets(vectors, rotations, factors) for factors in self.options], dim=1)
        return each[torch.arange(len(each), device=each.device), self.choice]


@dataclass(frozen=True)
class ReformerPlan:
    """What the layers have to know: the padding, the neighbours of the local layers, the buckets of each document."""

    padding: torch.Tensor | None
    local: AttentionPlan | None
    factors: list[list[int]] | FactorChoice


def plan_reformer(
    batch: int,
    length: int,
    chunk_length: int,
    padding: torch.Tensor | None,
    *,
    local: bool,
    causal: bool = False,
    chunks_before: int = 1,
    chunks_after: int = 1,
    factors: list[int] | None = None,
    max_length: int,
    dense: bool = False,
    device: torch.device | None = None,
) -> ReformerPlan:
    """The plan for an encoder of hashing and, if `local`, local layers; made once per forward pass.

    Args:
        dense: make the local layers' plan one mask for all tokens, as showing their weights needs it.
        factors: of the number of buckets; when left out, a document is hashed by its own length, not by that of its
            batch.
    """
    neighbours = None
    if local:
        neighbours = plan_local(
            length,
            chunk_length,
            padding,
            causal=causal,
            chunks_before=chunks_before,
            chunks_after=chunks_after,
            dense=dense,
            device=device,
        )
    if factors:
        return ReformerPlan(padding, neighbours, [factors] * batch)
    if padding is not None and torch.compiler.is_compiling():
        choice = FactorChoice.by_length(padding.sum(1), length, chunk_length, max_length)
        return ReformerPlan(padding, neighbours, choice)
    lengths = [length] * batch if padding is None else padding.sum(1).tolist()
    own = [
        bucket_factors(-(-tokens // chunk_length) * chunk_length, chunk_length, max_length)
        for tokens in lengths
    ]
    return ReformerPlan(padding, neighbours, own)


def plan_local(
    length: int,
    chunk_length: int,
    padding: torch.Tensor | None = None,
    *,
    causal: bool = False,
    chunks_before: int = 1,
    chunks_after: int = 1,
    dense: bool = False,
    device: torch.device | None = None,
) -> AttentionPlan:
    """The plan for `blocks.attention` of the Reformer's local layer: every chunk attends to itself and its
    neighbours, without a circle.

    Example:

    >>> import torch
    >>> from summarily.modeling.attention.blocks import attention
    >>> states = torch.randn(1, 2, 100, 8)
    >>> attention(states, states, states, plan_local(100, chunk_length=16)).shape
    torch.Size([1, 2, 100, 8])
    """
    pattern = ChunkPattern(chunk_length, chunks_before, chunks_after, causal)
    plan = plan_dense if dense else plan_blocks
    return plan(pattern, length, padding, device=device)  # type: ignore[arg-type]
