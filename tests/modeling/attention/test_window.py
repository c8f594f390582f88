"""Sliding-window attention with global tokens: every kernel equals the full matrix, forward and backward."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys

import pytest
import torch

from summarily.modeling.attention import window as window_module
from summarily.modeling.attention import window_kernels
from summarily.modeling.attention.window import (
    attend_everywhere,
    global_attention,
    is_its_weights,
    put_global_rows,
    window_attention,
)
from summarily.modeling.attention.window_plan import (
    WindowPlan,
    bias_at,
    plan_by_option,
    plan_first_token,
    plan_window,
    window_attention_dense,
    window_mask,
)

HEADS, SIZE = 2, 8


def masks(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Padding on the right of all rows but the first; several global tokens, none in the last of three rows."""
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    attention_mask = torch.ones(batch, length, dtype=torch.long)
    for row in range(1, batch):
        attention_mask[row, length - row * max(length // 5, 1) :] = 0
    global_mask = (torch.rand(batch, length, generator=generator) < 0.1).long()
    global_mask[:, 0] = 1
    if batch > 2:
        global_mask[-1] = 0
    return attention_mask, global_mask


def plans(batch: int, length: int) -> dict[str, WindowPlan]:
    attention_mask, global_mask = masks(batch, length)
    return {
        "padding and globals": plan_window(attention_mask, global_mask),
        "padding": plan_window(attention_mask),
        "globals": plan_window(None, global_mask),
        "nothing": plan_window(),
        "first token": plan_first_token(attention_mask, batch, length, None),
    }


def not_global(plan: WindowPlan, batch: int, length: int) -> torch.Tensor:
    """1 where the output of window_attention counts: rows of global queries are replaced."""
    keep = torch.ones(batch, length + 1)
    if plan.global_index is not None:
        keep.scatter_(1, plan.global_index.masked_fill(~plan.global_real, length), 0.0)
    return keep[:, :length, None, None]


def states(batch: int, length: int, dtype=torch.float32, grad: bool = True) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(length)
    shape = (batch, length, HEADS, SIZE)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_(grad) for _ in range(3)]


CASES = [(1, 1, 4), (1, 5, 8), (2, 37, 3), (3, 100, 16), (4, 65, 64)]


@pytest.mark.parametrize("backend", ["flash", "blocks"])
@pytest.mark.parametrize(("batch", "length", "window"), CASES)
def test_blocks_equal_the_full_matrix_forward_and_backward(backend, batch, length, window):
    for name, plan in plans(batch, length).items():
        inputs, keep = states(batch, length), not_global(plan, batch, length)
        gradient = torch.randn(batch, length, HEADS, SIZE) * keep
        expected = window_attention_dense(*inputs, plan, window)[0] * keep
        output = window_attention(*inputs, plan, window, backend=backend, block=16) * keep
        torch.testing.assert_close(output, expected, msg=name)
        for got, wanted in zip(
            torch.autograd.grad(output, inputs, gradient),
            torch.autograd.grad(expected, inputs, gradient),
            strict=True,
        ):
            torch.testing.assert_close(got, wanted, msg=name)


def distance_bias(length: int, dtype=torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randn(2 * length - 1, HEADS, generator=generator).to(dtype).requires_grad_()


@pytest.mark.parametrize("backend", ["flash", "blocks"])
@pytest.mark.parametrize(("batch", "length", "window"), CASES)
def test_a_bias_by_distance_is_that_of_the_full_matrix_forward_and_backward(backend, batch, length, window):
    for name, plan in plans(batch, length).items():
        inputs, keep = [*states(batch, length), distance_bias(length)], not_global(plan, batch, length)
        options = {"bias": inputs[-1], "scale": 0.7}
        gradient = torch.randn(batch, length, HEADS, SIZE) * keep
        expected = window_attention_dense(*inputs[:3], plan, window, **options)[0] * keep
        output = window_attention(*inputs[:3], plan, window, backend=backend, block=16, **options) * keep
        torch.testing.assert_close(output, expected, msg=name)
        for got, wanted in zip(
            torch.autograd.grad(output, inputs, gradient),
            torch.autograd.grad(expected, inputs, gradient),
            strict=True,
        ):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5, msg=name)


def test_a_bias_by_distance_is_added_at_key_minus_query():
    bias = torch.tensor([[0.0], [1.0], [5.0]])  # one before, itself, one behind
    same, value = torch.zeros(1, 2, 1, 1), torch.tensor([0.0, 1.0]).view(1, 2, 1, 1)
    output = window_attention(same, same, value, WindowPlan(), window=1, bias=bias).flatten()
    expected = [torch.tensor([1.0, 5.0]).softmax(0)[1], torch.tensor([0.0, 1.0]).softmax(0)[1]]
    torch.testing.assert_close(output, torch.stack(expected))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_bias_by_distance_in_other_precisions(dtype):
    plan = plans(2, 50)["padding and globals"]
    inputs, keep = [*states(2, 50, dtype), distance_bias(50, dtype)], not_global(plan, 2, 50).to(dtype)
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected = window_attention_dense(*exact[:3], plan, 6, bias=exact[3])[0] * keep.double()
    output = window_attention(*inputs[:3], plan, 6, bias=inputs[3], block=16) * keep
    tolerance = 3e-2 if dtype == torch.bfloat16 else 1e-6
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=tolerance)
    wanted = torch.autograd.grad(expected.sum(), exact)
    for got, gradient in zip(torch.autograd.grad(output.sum(), inputs), wanted, strict=True):
        assert got.dtype == dtype
        torch.testing.assert_close(got.double(), gradient, rtol=tolerance, atol=5 * tolerance)


def test_half_a_precision_rounds_no_sum_of_the_backward_pass():
    """What all keys of a query share drops out of the softmax: where the keys are equal, queries get no gradient.

    The weights' gradients are rounded one by one, and the 65 errors mostly cancel (0.0013); were their mean, which is
    taken from all of them, rounded too, its error would be left (0.007).
    """
    generator, shape = torch.Generator().manual_seed(0), (1, 100, HEADS, 64)
    query, value = (draw(shape, generator=generator).bfloat16() for draw in (torch.randn, torch.rand))
    bias = torch.zeros(65, HEADS, dtype=torch.bfloat16)
    query.requires_grad_()
    output = window_attention(
        query, torch.ones_like(value), value, WindowPlan(), window=32, bias=bias, block=32
    )
    output.sum().backward()
    assert query.grad.double().square().mean().sqrt() < 0.003


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(("batch", "length", "window"), CASES)
def test_the_block_mask_of_flex_attention_says_the_same(batch, length, window):
    """The plain form of flex attention, forward only: what a GPU compiles, without its speed."""
    for name, plan in plans(batch, length).items():
        inputs, keep = states(batch, length, grad=False), not_global(plan, batch, length)
        expected = window_attention_dense(*inputs, plan, window)[0] * keep
        output = window_attention(*inputs, plan, window, backend="flex") * keep
        torch.testing.assert_close(output, expected, msg=name)
        options = {"bias": distance_bias(length).detach(), "scale": 1.0}
        expected = window_attention_dense(*inputs, plan, window, **options)[0] * keep
        output = window_attention(*inputs, plan, window, backend="flex", **options) * keep
        torch.testing.assert_close(output, expected, msg=f"{name}, biased")


def test_the_mask_counts_a_global_token_in_the_window_once():
    plan = plan_window(torch.tensor([[1, 1, 1, 1, 1, 0]]), torch.tensor([[0, 1, 0, 0, 0, 0]]))
    seen = window_mask(6, 1, plan)[0].int().tolist()
    assert seen[0] == [1, 1, 0, 0, 0, 0]
    assert seen[4] == [0, 1, 0, 1, 1, 0]  # position 5 is padding, position 1 is seen from everywhere
    # One softmax, one share: twice the same key would give two thirds.
    value = torch.zeros(1, 6, 1, 1)
    value[0, 1] = 1.0
    same = torch.ones(1, 6, 1, 1)
    output = window_attention(same, same, value, plan, window=1)
    torch.testing.assert_close(output[0, 2].flatten(), torch.tensor([1 / 3]))


def test_queries_at_padding_get_zeros_and_no_gradient_flows_to_padding():
    attention_mask, _ = masks(2, 40)
    plan = plan_window(attention_mask)
    inputs = states(2, 40)
    output = window_attention(*inputs, plan, window=4)
    padded = attention_mask == 0
    assert (output[padded] == 0).all() and torch.isfinite(output).all()
    output.square().sum().backward()
    for tensor in inputs:
        assert (tensor.grad[padded] == 0).all() and torch.isfinite(tensor.grad).all()


def test_a_row_of_nothing_but_padding_is_zero():
    plan = plan_first_token(torch.tensor([[1, 1, 1], [0, 0, 0]]), 2, 3, None)
    output = window_attention(*states(2, 3), plan, window=2)
    assert (output[1] == 0).all() and torch.isfinite(output).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions(dtype):
    plan = plans(2, 50)["padding and globals"]
    inputs, keep = states(2, 50, dtype), not_global(plan, 2, 50).to(dtype)
    output = window_attention(*inputs, plan, window=6, block=16) * keep
    assert output.dtype == dtype
    exact = [tensor.detach().double() for tensor in inputs]
    expected = window_attention_dense(*exact, plan, window=6)[0] * keep.double()
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-6
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=tolerance)
    output.sum().backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in inputs)


def test_dropout_keeps_the_mean_and_repeats_with_the_seed():
    plan = plans(2, 60)["padding"]
    inputs = states(2, 60, grad=False)
    expected = window_attention(*inputs, plan, window=8)
    torch.manual_seed(0)
    first = window_attention(*inputs, plan, window=8, dropout=0.3)
    drawn = [window_attention(*inputs, plan, window=8, dropout=0.3) for _ in range(400)]
    torch.manual_seed(0)
    assert torch.equal(window_attention(*inputs, plan, window=8, dropout=0.3), first)
    assert not torch.allclose(first, expected)
    torch.testing.assert_close(torch.stack(drawn).mean(0), expected, rtol=0, atol=0.15)


def test_dropout_drops_the_same_weights_in_the_backward_pass():
    """The block is computed again there: d output / d value must be the weights of the forward pass."""
    plan = plan_window()
    query, key, value = states(1, 20)
    output = window_attention(query, key, value, plan, window=3, dropout=0.5, block=8)
    (gradient,) = torch.autograd.grad(output.sum(), value)
    # The output is linear in the values, so the product with them gives it back.
    torch.testing.assert_close((gradient * value).sum(), output.sum())


def test_a_backend_without_dropout_says_so():
    with pytest.raises(ValueError, match="'flash' has no dropout; use 'blocks'"):
        window_attention(*states(1, 4), plan_window(), window=1, dropout=0.1, backend="flash")
    with pytest.raises(ValueError, match="'sparse' is unknown"):
        window_attention(*states(1, 4), plan_window(), window=1, backend="sparse")


def test_compiles_without_a_graph_break_and_gives_the_same():
    plan = plan_first_token(masks(2, 70)[0], 2, 70, None)

    def run(query, key, value):
        return window_attention(query, key, value, plan, window=8)

    inputs = states(2, 70)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    expected, output = run(*inputs), compiled(*inputs)
    torch.testing.assert_close(output, expected)
    gradient = torch.randn_like(output)
    for got, wanted in zip(
        torch.autograd.grad(output, inputs, gradient),
        torch.autograd.grad(expected, inputs, gradient),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted)


def test_a_second_copy_of_the_file_does_no_harm():
    """A model loaded as remote code brings one, beside that of the package."""
    spec = importlib.util.spec_from_file_location("kernels_again", window_kernels.__file__)
    again = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "kernels_again", again)
        spec.loader.exec_module(again)
        inputs = states(1, 30)
        results = []
        assert again.flash_windows._qualname != window_kernels.flash_windows._qualname, (
            "one would undo the other"
        )
        for kernel in (again.flash_windows, window_kernels.flash_windows):
            patch.setattr(window_module, "flash_windows", kernel)
            output = window_attention(*inputs, plan_window(), window=4)
            results.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_the_window():
    def kept(window: int) -> int:
        sizes = []
        inputs = states(1, 512)
        plan = plan_first_token(None, 1, 512, None)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: sizes.append(tensor.numel()) or tensor, lambda tensor: tensor
        ):
            window_attention(*inputs, plan, window)
        return sum(sizes)

    assert kept(8) == kept(256)


@pytest.mark.parametrize("count", [1, 3, 12])
def test_global_rows_equal_attention_through_full_projections(count):
    """Few rows take the way around the projections, many (12 > head size) do not; both are the same attention."""
    torch.manual_seed(0)
    hidden = torch.randn(2, 30, 16, requires_grad=True)
    key_projection, value_projection = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
    query = torch.randn(2, count, HEADS, SIZE)
    attention_mask, _ = masks(2, 30)
    plan = plan_window(attention_mask)
    rows, weights = global_attention(hidden, query, key_projection, value_projection, plan)
    key, value = (
        projection(hidden).unflatten(-1, (HEADS, SIZE)).transpose(1, 2)
        for projection in (key_projection, value_projection)
    )
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(1, 2), key, value, attention_mask.bool()[:, None, None, :]
    ).transpose(1, 2)
    torch.testing.assert_close(rows, expected)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    parameters = [hidden, *key_projection.parameters(), *value_projection.parameters()]
    gradient = torch.randn_like(rows)
    for got, wanted in zip(
        torch.autograd.grad(rows, parameters, gradient),
        torch.autograd.grad(expected, parameters, gradient),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted)


def test_rows_without_a_global_token_are_left_alone():
    plan = plan_window(None, torch.tensor([[1, 0, 1], [0, 0, 0]]))
    rows = torch.full((2, 2, 1, 1), 5.0, requires_grad=True)
    output = put_global_rows(torch.zeros(2, 3, 1, 1), rows, plan)
    assert output.flatten(1).tolist() == [[5.0, 0.0, 5.0], [0.0, 0.0, 0.0]]
    output.sum().backward()
    assert rows.grad.flatten(1).tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_padding_is_never_global():
    plan = plan_window(torch.tensor([[1, 1, 0]]), torch.tensor([[0, 0, 1]]))
    assert plan.global_index is None


def test_global_queries_see_every_real_token_with_bias_and_scale():
    attention_mask, global_mask = masks(3, 20)
    plan = plan_window(attention_mask, global_mask)
    _, key, value = states(3, 20, grad=False)
    query = torch.randn(
        3, plan.global_index.shape[1], HEADS, SIZE, generator=torch.Generator().manual_seed(1)
    )
    bias = distance_bias(20).detach()
    rows, weights = attend_everywhere(query, key, value, plan, bias=bias, scale=0.7)
    for b, g, h in ((0, 0, 0), (0, 1, 1), (1, 0, 1)):
        at = int(plan.global_index[b, g])
        scores = torch.stack([0.7 * query[b, g, h] @ key[b, j, h] + bias[j - at + 19, h] for j in range(20)])
        expected = scores.masked_fill(attention_mask[b] == 0, -torch.inf).softmax(0)
        torch.testing.assert_close(weights[b, h, g], expected)
        torch.testing.assert_close(rows[b, g, h], expected @ value[b, :, h])
    plain = attend_everywhere(query, key, value, plan)[1]
    torch.testing.assert_close(plain, attend_everywhere(query, key, value, plan, scale=SIZE**-0.5)[1])


@pytest.mark.parametrize("count", [1, 12])
def test_dropout_of_global_rows_drops_weights_and_what_they_bring(count):
    """Both ways: the weights that are returned are those that were used, the bias of the values included."""
    torch.manual_seed(0)
    hidden, query = torch.randn(2, 400, 16), torch.randn(2, count, HEADS, SIZE)
    key_projection, value_projection = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
    rows, weights = global_attention(
        hidden, query, key_projection, value_projection, plan_window(), dropout=0.25
    )
    assert (weights == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    value = value_projection(hidden).unflatten(-1, (HEADS, SIZE))
    torch.testing.assert_close(rows, torch.einsum("bhgl,blhd->bghd", weights, value))


def test_a_projection_that_is_more_than_its_weights_is_called():
    torch.manual_seed(0)
    hidden, query = torch.randn(1, 9, 16), torch.randn(1, 1, HEADS, SIZE)
    key_projection, value_projection = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
    plain, _ = global_attention(hidden, query, key_projection, value_projection, plan_window())
    for register in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"):
        linear = torch.nn.Linear(2, 2)
        assert is_its_weights(linear)
        handle = getattr(linear, register)(lambda *_: None)
        assert not is_its_weights(linear)
        handle.remove()
        assert is_its_weights(linear)
    offloaded = torch.nn.Linear(2, 2)
    offloaded._hf_hook = object()
    assert not is_its_weights(offloaded) and not is_its_weights(torch.nn.Identity())
    value_projection.register_forward_hook(lambda module, inputs, output: 2 * output)
    doubled, _ = global_attention(hidden, query, key_projection, value_projection, plan_window())
    torch.testing.assert_close(doubled, 2 * plain)


def test_plans_by_option():
    hidden, padded = torch.zeros(2, 4, 3), torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0]])
    first = plan_by_option("bos", hidden, padded)
    assert first.global_index.tolist() == [[1], [0]] and first.local.int().tolist() == [
        [0, 0, 1, 1],
        [0, 1, 0, 0],
    ]
    assert first.real.int().tolist() == padded.tolist() and first.global_real.all()
    whole = plan_by_option("bos", hidden, None)
    assert whole.global_index.tolist() == [[0], [0]] and whole.local.int().tolist() == [[0, 1, 1, 1]] * 2
    assert whole.real is None
    none = plan_by_option("none", hidden, padded)
    assert (
        none.global_index is None and none.local.int().tolist() == none.real.int().tolist() == padded.tolist()
    )
    given = plan_by_option("bos", hidden, padded, torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0]]))
    assert given.global_index[0].tolist() == [2, 3] and given.global_real.tolist() == [
        [True, True],
        [False, False],
    ]
    assert given.local.int().tolist() == [[0, 1, 0, 0], [1, 1, 0, 0]]
    fewer = plan_window(padded, torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0]]), max_globals=3)
    assert fewer.global_index.shape == (2, 3) and fewer.global_real.sum(1).tolist() == [2, 1]


def test_the_backend_follows_from_device_and_dropout(monkeypatch):
    called = []
    real = window_module.block_attention
    monkeypatch.setattr(window_module, "block_attention", lambda *a: called.append(a[5:7]) or real(*a))
    inputs = states(1, 10, grad=False)
    window_attention(*inputs, plan_window(), window=2)
    assert not called, "the CPU has a kernel of its own"
    window_attention(*inputs, plan_window(), window=2, dropout=0.5)
    window_attention(*inputs, plan_window(), window=2, backend="blocks", bias=distance_bias(10))
    assert called == [(0.5, 256), (0.0, 64)]


def test_the_weights_of_the_full_matrix_are_those_it_used():
    plan = plans(2, 30)["padding and globals"]
    inputs = states(2, 30, grad=False)
    torch.manual_seed(0)
    output, weights = window_attention_dense(*inputs, plan, 4, dropout=0.5)
    torch.testing.assert_close(output, torch.einsum("bhqk,bkhd->bqhd", weights, inputs[2]))
    whole = window_attention_dense(*inputs, plan, 4)[1]
    assert ((weights == 0) | torch.isclose(weights, 2 * whole)).all() and (weights == 0)[whole > 0].any()
    seen = window_mask(30, 4, plan)[:, None] & plan.real[:, None, :, None]
    assert torch.equal(whole > 0, seen.expand_as(whole))


def test_a_bias_beyond_its_reach_is_that_of_its_end():
    bias = torch.tensor([[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]])
    assert bias_at(bias, torch.tensor([-5, -1, 0, 1, 9])).tolist() == [[1, 1, 2, 3, 3], [-1, -1, -2, -3, -3]]


def test_what_is_shared_cannot_be_changed():
    """One plan serves all layers."""
    for shared, name in ((WindowPlan(), "real"), (next(window_kernels._blocks(4, 1, 2)), "end")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shared, name, None)
