"""Sliding-window attention with global tokens: every kernel equals the full matrix, forward and backward."""

from __future__ import annotations

import importlib.util
import sys

import pytest
import torch

from summarily.modeling.attention import window as window_module
from summarily.modeling.attention.window import (
    WindowPlan,
    global_attention,
    plan_first_token,
    plan_window,
    put_global_rows,
    window_attention,
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
    spec = importlib.util.spec_from_file_location("window_again", window_module.__file__)
    again = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "window_again", again)
        spec.loader.exec_module(again)
        inputs = states(1, 30)
        results = []
        for module in (again, window_module):
            output = module.window_attention(*inputs, module.plan_window(), window=4)
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
