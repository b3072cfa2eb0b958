"""Our Adam against torch's: one parameter, several steps, any size."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import AdamRates, adam, adam_step, dense, plain

SIZES = st.sampled_from([(1,), (17,), (0, 4), (33, 7), (1433, 16), (130, 129)])


def stepped(make_step, dtype, gradients, start, rates):
    parameter, mean, square = start.to(dtype, copy=True), *(torch.zeros_like(start, dtype=dtype) for _ in range(2))
    step = make_step(parameter, mean, square)
    for number, gradient in enumerate(gradients, 1):
        step(gradient.to(dtype), AdamRates(number, **rates))
    return parameter


@settings(max_examples=30)
@given(SIZES, st.integers(0, 99), st.sampled_from([0.0, 5e-4]), st.sampled_from([1e-3, 0.01, 1.0]))
def test_steps_equal_torchs(shape, seed, decay, rate):
    draw = torch.Generator().manual_seed(seed)
    start, *gradients = (torch.randn(shape, generator=draw, dtype=torch.float64) for _ in range(6))
    expected = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([expected], lr=rate, weight_decay=decay)
    for gradient in gradients:
        expected.grad = gradient.clone()
        optimizer.step()
    for make_step in (adam_step, plain.adam_step):
        for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
            actual = stepped(make_step, dtype, gradients, start, {"rate": rate, "decay": decay})
            assert torch.allclose(actual.double(), expected.detach(), rtol=bound, atol=1000 * bound * rate)


def test_a_gradient_and_a_parameter_that_are_views_are_read_right():
    whole, gradient = torch.rand(8, 12), torch.rand(6, 4).t()
    others, parameter = whole[1::2].clone(), whole[::2, 3:9]
    expected, means = parameter.clone(), [torch.zeros(4, 6) for _ in range(4)]
    adam(parameter, gradient, *means[:2], AdamRates(1, 0.1))
    adam(expected, gradient.contiguous(), *means[2:], AdamRates(1, 0.1))
    assert torch.allclose(parameter, expected)
    assert torch.equal(whole[1::2], others)


def test_any_number_of_threads_gives_the_same_bits():
    before, runs = torch.get_num_threads(), []
    draw = torch.Generator().manual_seed(0)
    start, gradient = (torch.randn(400, 133, generator=draw) for _ in range(2))
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        runs.append(stepped(adam_step, torch.float32, [gradient], start.clone(), {"rate": 0.1}))
    torch.set_num_threads(before)
    assert torch.equal(runs[0], runs[1]) and torch.equal(runs[0], runs[2])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.ones(3), "the parameter has"),
        (torch.ones(2).double(), "give both in one type"),
        (torch.ones(2).int(), "allowed are"),
    ],
)
def test_what_does_not_fit_the_parameter_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        adam(torch.ones(2), wrong, torch.zeros(2), torch.zeros(2), AdamRates(1, 0.1))


def test_a_step_between_two_backward_passes_is_noticed():
    weight = torch.ones(3, 2, requires_grad=True)
    loss = dense(torch.ones(4, 3, requires_grad=True), weight).sum()
    step = adam_step(weight, torch.zeros(3, 2), torch.zeros(3, 2))
    loss.backward(retain_graph=True)
    step(weight.grad, AdamRates(1, rate=0.1, decay=0.0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
