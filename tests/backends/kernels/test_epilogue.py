"""Fused bias and activation against torch in float64, value and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from backends.kernels import bias_activation
from backends.kernels.checks import ACTIVATIONS

TORCH = {"none": lambda y: y, "relu": functional.relu, "elu": functional.elu}


@settings(max_examples=40)
@given(st.integers(0, 99), st.integers(1, 60), st.integers(1, 70), st.sampled_from(ACTIVATIONS))
def test_value_and_gradients_equal_torchs(seed, rows, columns, activation):
    draw = torch.Generator().manual_seed(seed)
    x, flow = (torch.randn(rows, columns, generator=draw, dtype=torch.float64) for _ in range(2))
    bias = torch.randn(columns, generator=draw, dtype=torch.float64)
    flow *= (x + bias).abs() > 1e-5  # a sign that rounding could flip says nothing
    exact = [x.requires_grad_(), bias.requires_grad_()]
    expected = TORCH[activation](x + bias)
    slopes = torch.autograd.grad(expected, exact, flow)
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 3e-6)):
        inputs = [part.detach().to(dtype).requires_grad_() for part in exact]
        actual = bias_activation(*inputs, activation)
        for one, other in zip(
            (actual, *torch.autograd.grad(actual, inputs, flow.to(dtype))), (expected, *slopes), strict=True
        ):
            assert one.shape == other.shape
            assert float((one.double() - other).detach().abs().max()) <= bound * float(other.detach().abs().max() + 1)


def test_gradients_of_a_loss_that_cancel_are_summed_as_exactly_as_torch_does():
    classes, each = 7, 20
    labels = torch.arange(classes).repeat_interleave(each)
    logits = 1e-3 * torch.randn(len(labels), classes, generator=torch.Generator().manual_seed(0))
    flow = (torch.softmax(logits.double(), 1) - functional.one_hot(labels, classes)) / len(labels)
    bias = torch.zeros(classes, requires_grad=True)
    (actual,) = torch.autograd.grad(bias_activation(logits, bias), [bias], flow.float())
    expected = flow.sum(0)
    least = (flow.float().sum(0).double() - expected).abs().max()
    assert float((actual.double() - expected).abs().max()) <= 2 * float(least) + 1e-12


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_many_rows_that_cancel_are_summed_as_exactly_as_torch_does(activation):
    draw = torch.Generator().manual_seed(1)
    y, flow = torch.rand(4000, 24, generator=draw) + 0.1, torch.randn(4000, 24, generator=draw)
    flow -= flow.mean(0)
    bias = torch.zeros(24, requires_grad=True)
    (actual,) = torch.autograd.grad(bias_activation(y, bias, activation), [bias], flow)
    least = (flow.sum(0).double() - flow.double().sum(0)).abs().max()
    assert float((actual.double() - flow.double().sum(0)).abs().max()) <= float(least)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("columns", [3, 40])
def test_nan_stays_nan(activation, columns):
    x = torch.randn(5, columns)
    x[2, 1] = float("nan")
    out = bias_activation(x, torch.zeros(columns), activation)
    assert torch.equal(out.isnan(), x.isnan())


@pytest.mark.parametrize("activation", ["none", "elu"])
def test_any_number_of_threads_gives_the_same_bits(activation):
    inputs, runs = [torch.randn(2500, 61, requires_grad=True), torch.randn(61, requires_grad=True)], []
    before = torch.get_num_threads()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        out = bias_activation(*inputs, activation)
        runs.append((out.detach(), *torch.autograd.grad(out.sin().sum(), inputs)))
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


def test_unknown_activations_and_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="allowed are none, relu, elu"):
        bias_activation(torch.ones(3, 2), torch.ones(2), "tanh")
    with pytest.raises(ValueError, match=r"needed are \[rows, f\]"):
        bias_activation(torch.ones(3, 2), torch.ones(3))
