"""LSH attention equals transformers' `LSHSelfAttention` for the same rotations; local layers have no circle."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from transformers import ReformerConfig
from transformers.models.reformer.modeling_reformer import LocalSelfAttention, LSHSelfAttention

from summarily.modeling.attention.blocks import AttentionPlan, attention
from summarily.modeling.attention.lsh import (
    ChunkPattern,
    bucket_factors,
    draw_rotations,
    hash_buckets,
    lsh_attention,
    plan_local,
    plan_reformer,
    rotation_columns,
)

HEADS, SIZE, CHUNK = 2, 16, 32


def theirs(kind, length: int, **options):
    torch.manual_seed(length)
    config = ReformerConfig(
        hidden_size=HEADS * SIZE,
        num_attention_heads=HEADS,
        attention_head_size=SIZE,
        lsh_attn_chunk_length=CHUNK,
        local_attn_chunk_length=CHUNK,
        lsh_attention_probs_dropout_prob=0.0,
        local_attention_probs_dropout_prob=0.0,
        max_position_embeddings=1024,
        axial_pos_shape=(32, 32),
        **options,
    )
    return kind(config, 0).eval()


def split(states: torch.Tensor) -> torch.Tensor:
    return states.unflatten(-1, (HEADS, SIZE)).transpose(1, 2)


def merge(states: torch.Tensor) -> torch.Tensor:
    return states.transpose(1, 2).flatten(2)


def padding_of(length: int) -> torch.Tensor:
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, length // 2 + 3 :] = 0
    return mask


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("buckets", [None, 16, [4, 8]])
@pytest.mark.parametrize(("length", "hashes"), [(32, 1), (256, 1), (256, 2), (512, 3)])
def test_equals_transformers_given_the_same_rotations(monkeypatch, length, hashes, buckets, causal, padded):
    module = theirs(LSHSelfAttention, length, num_hashes=hashes, num_buckets=buckets, is_decoder=causal)
    rotations = draw_rotations(HEADS, SIZE, rotation_columns(CHUNK, 1024), hashes, seed=3)
    mask = padding_of(length) if padded else None
    hidden = torch.randn(2, length, HEADS * SIZE, requires_grad=True)
    with monkeypatch.context() as patch:  # they draw their rotations from the global generator
        patch.setattr(torch, "randn", lambda shape, **_: rotations[..., : shape[-1]])
        expected = module(hidden, attention_mask=mask).hidden_states
    output = merge(
        lsh_attention(
            split(module.query_key(hidden)),
            split(module.value(hidden)),
            rotations,
            CHUNK,
            factors=[buckets] if isinstance(buckets, int) else buckets,
            max_length=1024,
            padding=mask,
            causal=causal,
        )
    )
    torch.testing.assert_close(output, expected)
    gradient = torch.randn_like(output)
    (got,), (wanted,) = (torch.autograd.grad(states, hidden, gradient) for states in (output, expected))
    torch.testing.assert_close(got, wanted)


def sample(length: int, batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(length)
    return tuple(torch.randn(batch, HEADS, length, SIZE, generator=generator) for _ in range(2))


def test_repeats_exactly_and_leaves_the_global_generator_alone():
    query_key, value = sample(200)
    before = torch.get_rng_state()
    rotations = draw_rotations(HEADS, SIZE, 32, seed=1)
    first = lsh_attention(query_key, value, rotations, CHUNK)
    assert torch.equal(lsh_attention(query_key, value, rotations, CHUNK), first)
    assert torch.equal(torch.get_rng_state(), before)
    other = lsh_attention(query_key, value, draw_rotations(HEADS, SIZE, 32, seed=2), CHUNK)
    assert not torch.allclose(first, other)


def test_any_length_without_padding_by_the_caller():
    """Padding to a multiple of the chunk by hand, with a mask, gives what the function does inside."""
    query_key, value = sample(150)
    rotations = draw_rotations(HEADS, SIZE, 32)
    longer = [torch.nn.functional.pad(states, (0, 0, 0, 10)) for states in (query_key, value)]
    mask = torch.nn.functional.pad(torch.ones(2, 150), (0, 10))
    inside = lsh_attention(query_key, value, rotations, CHUNK, factors=[8])
    by_hand = lsh_attention(*longer, rotations, CHUNK, factors=[8], padding=mask)[:, :, :150]
    torch.testing.assert_close(inside, by_hand)


@pytest.mark.parametrize("hashes", [1, 2])
def test_without_the_circle_padding_changes_nothing(hashes):
    query_key, value = sample(100, batch=1)
    rotations = draw_rotations(HEADS, SIZE, 32, hashes)
    longer = [torch.nn.functional.pad(states, (0, 0, 0, 200), value=3.0) for states in (query_key, value)]
    mask = torch.nn.functional.pad(torch.ones(1, 100), (0, 200))
    alone = lsh_attention(query_key, value, rotations, CHUNK, factors=[8], circular=False)
    padded = lsh_attention(*longer, rotations, CHUNK, factors=[8], padding=mask, circular=False)
    torch.testing.assert_close(padded[:, :, :100], alone)


def test_rows_of_a_batch_can_be_hashed_into_different_numbers_of_buckets():
    query_key, value = sample(128)
    rotations = draw_rotations(HEADS, SIZE, 32)
    together = lsh_attention(query_key, value, rotations, CHUNK, factors=[[4], [2, 8]])
    for row, factors in enumerate(([4], [2, 8])):
        rows = slice(row, row + 1)
        alone = lsh_attention(query_key[rows], value[rows], rotations, CHUNK, factors=factors)
        torch.testing.assert_close(together[rows], alone)


def test_like_vectors_share_a_bucket_and_opposite_ones_do_not():
    rotations = draw_rotations(1, SIZE, 8, hashes=2)
    vector = torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
    vectors = torch.stack([vector, 2.5 * vector, -vector])[None, None]
    buckets = hash_buckets(vectors, rotations, [16])
    assert (buckets[..., 0] == buckets[..., 1]).all() and (buckets[..., 0] != buckets[..., 2]).all()


def test_the_reformers_rule_for_buckets():
    """`2 length / chunk`, rounded down to a power of two (Reformer, section 2); 32 for the thesis' 1024 tokens."""
    assert bucket_factors(1024, 64, 1024) == [32]
    assert bucket_factors(1000, 64, 1024) == [16]
    assert bucket_factors(64 * 1024, 64, 64 * 1024) == [32, 64]


@pytest.mark.parametrize("longest", [10, 64, 200, 1024, 5000, 16384])
def test_rotations_are_enough_for_every_length(longest):
    columns = rotation_columns(64, longest)
    for chunks in range(1, -(-longest // 64) + 1):
        assert sum(bucket_factors(64 * chunks, 64, longest)) // 2 <= columns


def test_too_few_rotations_name_both_numbers():
    with pytest.raises(ValueError, match=r"\[64\] buckets need 32 columns of rotations, there are 8"):
        hash_buckets(torch.randn(1, 1, 4, SIZE), draw_rotations(1, SIZE, 8), [64])
    with pytest.raises(ValueError, match=r"\[5\]; each must be even"):
        hash_buckets(torch.randn(1, 1, 4, SIZE), draw_rotations(1, SIZE, 8), [5])


@pytest.mark.parametrize("length", [32, 256])
def test_causal_local_layer_equals_transformers(length):
    module = theirs(LocalSelfAttention, length, is_decoder=True)
    hidden = torch.randn(2, length, HEADS * SIZE)
    mask = padding_of(length)
    expected = module(hidden, attention_mask=mask).hidden_states
    plan = plan_local(length, CHUNK, mask, causal=True, chunks_after=0)
    states = (split(projection(hidden)) for projection in (module.query, module.key, module.value))
    output = merge(attention(*states, plan))
    real = mask.bool()  # a query at padding whose keys are all padding: zeros here, a mean of padding there
    torch.testing.assert_close(output[real], expected[real])


def test_the_first_chunk_does_not_see_the_last():
    pattern, positions = ChunkPattern(4, before=1, after=1), torch.arange(16)
    seen = pattern.visible(positions[:, None], positions)
    assert seen[0].nonzero().flatten().tolist() == list(range(8))
    assert seen[15].nonzero().flatten().tolist() == list(range(8, 16))
    states = torch.randn(1, 1, 16, 4)
    changed = states.clone()
    changed[:, :, -1] += 1.0
    plan = plan_local(16, 4)
    before, after = attention(states, states, states, plan), attention(states, states, changed, plan)
    assert torch.equal(before[:, :, :8], after[:, :, :8]) and not torch.equal(before, after)


def dense_lsh(query_key, value, rotations, factors, padding, bias, scale, chunk=CHUNK):
    """LSH attention without a circle from full matrices, round by round: who shares a chunk, or has the one behind."""
    length = query_key.shape[2]
    real = torch.ones(len(value), length, dtype=torch.bool) if padding is None else padding.bool()
    buckets = hash_buckets(query_key, rotations, factors)
    buckets = buckets.masked_fill(~real[:, None, None], 10**6)
    place = buckets.argsort(dim=-1, stable=True).argsort(-1)  # of each token among the sorted ones
    chunks = place // chunk
    key = query_key / (query_key.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    scores = (query_key @ key.transpose(-1, -2) * scale)[:, :, None]
    positions = torch.arange(length)
    scores = scores + bias[positions - positions[:, None] + len(bias) // 2].permute(2, 0, 1)[None, :, None]
    behind = chunks[..., :, None] - chunks[..., None, :]
    seen = ((behind == 0) | (behind == 1)) & real[:, None, None, None, :]
    scores = scores.masked_fill(~seen, -1e9).masked_fill(torch.eye(length, dtype=torch.bool), -1e5)
    share = scores.logsumexp(-1, keepdim=True).softmax(2)
    return (share * (scores.softmax(-1) @ value[:, :, None])).sum(2)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("length", "hashes"), [(200, 1), (131, 1), (131, 2), (20, 1)])
def test_a_bias_by_distance_is_that_of_the_tokens_places_in_the_document(length, hashes, padded):
    query_key, value = (states.requires_grad_() for states in sample(length))
    bias = torch.randn(2 * length - 1, HEADS, requires_grad=True)
    rotations = draw_rotations(HEADS, SIZE, 4, hashes)
    padding = padding_of(length) if padded else None
    options = {"factors": [8], "padding": padding, "circular": False, "bias": bias, "scale": 0.5}
    output = lsh_attention(query_key, value, rotations, CHUNK, **options)
    chunk = CHUNK if length > CHUNK else length
    expected = dense_lsh(query_key, value, rotations, [8], padding, bias, 0.5, chunk)
    real = torch.ones(2, length, dtype=torch.bool) if padding is None else padding.bool()
    kept = real[:, None, :, None]
    torch.testing.assert_close(output * kept, expected * kept)
    inputs, gradient = (query_key, value, bias), torch.randn_like(output) * kept
    for got, wanted in zip(
        torch.autograd.grad(output, inputs, gradient),
        torch.autograd.grad(expected, inputs, gradient),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_bias_of_local_layers_is_the_same_for_every_chunk():
    query_key, value = sample(100)
    bias = torch.randn(HEADS, 16, 48)
    output = attention(query_key, query_key, value, plan_local(100, 16), bias=bias, scale=0.5)
    row = 37  # chunk 2: keys 16 .. 63
    scores = query_key[:, :, row, None] @ query_key[:, :, 16:64].transpose(-1, -2) * 0.5 + bias[:, None, 5]
    torch.testing.assert_close(output[:, :, row], (scores.softmax(-1) @ value[:, :, 16:64])[:, :, 0])
    with pytest.raises(ValueError, match="needs a blocked plan"):
        attention(query_key, query_key, value, AttentionPlan(), bias=bias)


def test_every_document_is_hashed_by_its_own_length():
    padding = (torch.arange(300) < torch.tensor([[300], [65], [64], [10]])).long()
    plan = plan_reformer(4, 300, 32, padding, local=False, max_length=1024)
    # Filled up to whole chunks: 320, 96, 64 and 32 tokens, about 2 buckets for each chunk.
    assert plan.factors == [[16], [4], [4], [2]] and plan.local is None and plan.padding is padding
    assert plan_reformer(2, 300, 32, None, local=False, max_length=1024).factors == [[16], [16]]
    given = plan_reformer(2, 300, 32, padding[:2], local=False, factors=[2, 4], max_length=1024)
    assert given.factors == [[2, 4], [2, 4]]
    options = {"causal": True, "chunks_before": 2, "chunks_after": 0}
    local = plan_reformer(4, 300, 32, padding, local=True, max_length=1024, **options).local
    expected = plan_local(300, 32, padding, **options)
    assert torch.equal(local.mask, expected.mask) and torch.equal(local.keys_of_block, expected.keys_of_block)


def test_a_local_layer_sees_one_chunk_on_each_side_unless_asked_for_more():
    expected = plan_local(96, 16, None, causal=False, chunks_before=1, chunks_after=1)
    for plan in (plan_local(96, 16), plan_reformer(1, 96, 16, None, local=True, max_length=128).local):
        assert torch.equal(plan.mask, expected.mask)
        assert torch.equal(plan.keys_of_block, expected.keys_of_block)
    position = torch.arange(96)
    chunks = position // 16
    dense = plan_reformer(1, 96, 16, None, local=True, max_length=128, dense=True).local
    near = (chunks[:, None] - chunks).abs() <= 1
    assert torch.equal(dense.mask.reshape(96, 96), near) and dense.keys_of_block is None


@pytest.mark.parametrize(
    ("before", "after", "circular"), [(0, 0, True), (2, 1, True), (0, 1, False), (2, 0, False)]
)
def test_neighbours_are_as_many_as_asked_for(before, after, circular):
    """Tokens in order of their buckets, by construction: who sees whom follows from the chunks alone."""
    chunk, length = 4, 24
    query_key = torch.zeros(1, 1, length, 2)
    query_key[0, 0, :, 0] = 1e-3  # all in one bucket: the order stays
    value = torch.eye(length)[None, None]
    output = lsh_attention(
        query_key, value, torch.eye(2)[None, :, None], chunk,
        factors=[4], circular=circular, chunks_before=before, chunks_after=after,
    )[0, 0]  # fmt: skip
    chunks = length // chunk
    for i in range(length):
        own = i // chunk
        near = range(own - before, own + after + 1)
        seen = {c % chunks for c in near if circular or 0 <= c < chunks}
        expected = {j for j in range(length) if j // chunk in seen and j != i}
        assert set(output[i].nonzero().flatten().tolist()) == expected


def test_dropout_of_lsh_drops_weights():
    query_key, _ = sample(256)
    value = torch.eye(256).expand(2, HEADS, 256, 256)
    rotations = draw_rotations(HEADS, SIZE, 32)
    torch.manual_seed(0)
    whole, dropped = (lsh_attention(query_key, value, rotations, CHUNK, dropout=rate) for rate in (0.0, 0.25))
    seen = whole > 0
    assert (dropped[seen] == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    kept = dropped > 0
    torch.testing.assert_close(dropped[kept], whole[kept] / 0.75)


def test_rotations_differ_by_seed_head_and_round():
    rotations = draw_rotations(2, 4, 8, hashes=3, seed=5)
    assert rotations.shape == (2, 4, 3, 8)
    assert torch.equal(rotations, torch.randn(2, 4, 3, 8, generator=torch.Generator().manual_seed(5)))


def test_digits_of_a_bucket():
    """Two factors: the nearest of two directions and their opposites, then of one and its opposite, times four."""
    rotations = torch.eye(3)[None, :, None]
    vectors = torch.tensor([[2.0, 1, 1], [1, 2, -1], [-2, 1, 1], [1, -2, -1]])[None, None]
    assert hash_buckets(vectors, rotations, [4, 2]).flatten().tolist() == [0, 1 + 4, 2, 3 + 4]


def test_half_precision_hides_what_float32_does():
    query_key, value = (states.half() for states in sample(64))
    mask = padding_of(64)
    output = lsh_attention(
        query_key.float(), value.float(), draw_rotations(HEADS, SIZE, 32), CHUNK, padding=mask
    )
    half = lsh_attention(query_key, value, draw_rotations(HEADS, SIZE, 32), CHUNK, padding=mask)
    real = mask.bool()[:, None, :, None]
    assert torch.isfinite(half).all()
    close = ((half.float() - output).abs() < 0.02) | ~real
    assert close.all(-1).float().mean() > 0.95, "but for tokens whose hash falls on another side"


def test_what_is_shared_cannot_be_changed():
    """One plan serves all layers."""
    for shared, name in (
        (ChunkPattern(4), "before"),
        (plan_reformer(1, 9, 4, None, local=False, max_length=9), "factors"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shared, name, None)
