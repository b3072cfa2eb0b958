"""The fused losses against torch's, value and gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from backends.kernels import bias_activation, binary_cross_entropy, cross_entropy
from backends.kernels.recording import recorded


@given(st.integers(0, 99), st.integers(1, 60), st.integers(1, 70), st.booleans(), st.sampled_from([0.1, 5.0, 60.0]))
def test_value_and_gradient_equal_torchs(seed, rows, columns, shared, scale):
    draw = torch.Generator().manual_seed(seed)
    exact = (scale * torch.randn(rows, columns, generator=draw, dtype=torch.float64)).requires_grad_()
    targets = torch.randint(0, 2, exact.shape, generator=draw).double()
    share = torch.rand(exact.shape, generator=draw, dtype=torch.float64) if shared else None
    reduction = "sum" if shared else "mean"
    expected = functional.binary_cross_entropy_with_logits(exact, targets, share, reduction=reduction)
    (slope,) = torch.autograd.grad(3.0 * expected, exact)
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        logits = exact.detach().to(dtype).requires_grad_()
        actual = binary_cross_entropy(logits, targets.to(dtype), None if share is None else share.to(dtype))
        (gradient,) = torch.autograd.grad(3.0 * actual, logits)
        assert abs(actual.item() - expected.item()) <= bound * max(1e-3, expected.item()) * 5
        # sigmoid minus target is off by the rounding of 1, however small it is itself
        assert float((gradient - slope).abs().max()) <= bound * (
            3.0 * float(share.max()) if shared else 3.0 / exact.numel()
        )


@given(st.integers(0, 99), st.integers(1, 300), st.integers(1, 200), st.sampled_from([0.1, 5.0, 60.0]), st.booleans())
def test_the_loss_of_classes_equals_torchs(seed, rows, classes, scale, partly):
    draw = torch.Generator().manual_seed(seed)
    exact = (scale * torch.randn(rows, classes, generator=draw, dtype=torch.float64)).requires_grad_()
    labels = torch.randint(-1 if partly else 0, classes, (rows,), generator=draw)
    labels[seed % rows] = seed % classes
    expected = functional.cross_entropy(exact, labels, ignore_index=-1)
    (slope,) = torch.autograd.grad(3.0 * expected, exact)
    share = 1.0 / int((labels >= 0).sum())
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        logits = exact.detach().to(dtype).requires_grad_()
        actual = cross_entropy(logits, labels)
        (gradient,) = torch.autograd.grad(3.0 * actual, logits)
        # a difference of two logits is off by their rounding
        assert abs(actual.item() - expected.item()) <= bound * (1.0 + 4.0 * scale)
        assert float((gradient - slope).abs().max()) <= 3.0 * share * bound * (1.0 + 4.0 * scale)


def test_the_loss_of_classes_at_the_edges_of_its_input():
    assert bool(cross_entropy(torch.ones(2, 3), torch.tensor([-1, -1])).isnan())
    assert bool(cross_entropy(torch.tensor([[1.0, torch.nan]]), torch.tensor([0])).isnan())
    logits = torch.tensor([[0.0, -torch.inf, 0.0], [torch.nan, 0.0, 0.0]], requires_grad=True)
    value = cross_entropy(logits, torch.tensor([0, -1]))
    value.backward()
    assert value.item() == pytest.approx(0.693147)
    assert logits.grad.tolist() == [[-0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]
    for label in (3, -2):
        with pytest.raises(IndexError):
            cross_entropy(torch.ones(2, 3), torch.tensor([0, label]))
    with pytest.raises(ValueError, match="allowed are float32, float64"):
        cross_entropy(torch.ones(2, 3).half(), torch.tensor([0, 1]))
    for labels in (torch.zeros(3, dtype=torch.int64), torch.zeros(2), torch.zeros(2, 3, dtype=torch.int64)):
        with pytest.raises(ValueError, match="are needed"):
            cross_entropy(torch.ones(2, 3), labels)


@pytest.mark.parametrize("loss", [
    lambda logits: binary_cross_entropy(logits, torch.ones(300, 301)),
    lambda logits: cross_entropy(logits, torch.arange(300)),
])  # fmt: skip
def test_any_number_of_threads_gives_the_same_bits(loss):
    logits, before, runs = torch.randn(300, 301, requires_grad=True), torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        value = loss(logits)
        runs.append((value.detach(), *torch.autograd.grad(value, logits)))
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


def test_few_entries_start_no_second_thread():
    before, logits = torch.get_num_threads(), torch.zeros(4, 3, requires_grad=True)
    torch.set_num_threads(64)
    with recorded() as recording:
        binary_cross_entropy(logits, torch.ones(4, 3)).backward()
        bias_activation(logits, torch.zeros(3)).sum().backward()
    torch.set_num_threads(before)
    threads = {
        name.split()[1]: call[1][-1] for name, call in zip(recording.names, recording.calls, strict=True) if name
    }
    assert threads["binary_cross_entropy"] == threads["bias_activation"] == 1


def test_unequal_shapes_are_refused():
    with pytest.raises(ValueError, match="must have the same"):
        binary_cross_entropy(torch.ones(3, 2), torch.ones(3))


@pytest.mark.parametrize("name", ["targets", "share"])
def test_a_gradient_of_anything_but_the_logits_is_refused(name):
    values = {"targets": torch.ones(3, 2), "share": torch.ones(3, 2)}
    values[name].requires_grad_()
    with pytest.raises(ValueError, match=f"{name} needs a gradient, only logits get one"):
        binary_cross_entropy(torch.ones(3, 2, requires_grad=True), **values)
    with torch.no_grad():
        assert binary_cross_entropy(torch.ones(3, 2), **values) > 0


def test_an_entry_that_is_no_number_has_no_number_as_gradient():
    logits = torch.tensor([[0.5, float("nan"), -2.0] * 5], requires_grad=True)
    loss = binary_cross_entropy(logits, torch.ones(1, 15))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.isnan() and torch.equal(gradient.isnan(), logits.isnan())
