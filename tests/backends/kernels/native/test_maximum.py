"""The largest source row over in-edges: value, winner among equals, gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels import spmm
from datasets.csr import csr_from_edges
from tests.backends.kernels.matrices import LAYOUTS, WIDTHS, close, hub_csr, matrices, numpy_spmm, tensor, use_plain


@pytest.fixture(params=["native", "plain", "scatter"])
def form(request, monkeypatch):
    if request.param == "plain":
        use_plain(monkeypatch)
    return request.param != "scatter"


@given(matrices(), WIDTHS, st.booleans(), LAYOUTS)
def test_the_largest_message_of_each_column(csr, width, weighted, layout):
    x, weight = tensor(1, csr.shape[1], width, layout=layout), tensor(2, csr.nnz) if weighted else None
    close(spmm(csr, x, weight, "max"), numpy_spmm(csr, x.numpy(), weight.numpy() if weighted else None, "max"))


@given(matrices(), st.integers(1, 40), st.booleans())
def test_native_and_plain_agree_in_value_and_gradients(csr, width, weighted):
    x, weight = tensor(1, csr.shape[1], width).requires_grad_(), tensor(2, csr.nnz).requires_grad_()
    inputs, flow = (x, weight) if weighted else (x,), tensor(3, csr.shape[0], width)
    forms = [spmm(csr, x, weight if weighted else None, "max", row_parallel) for row_parallel in (True, False)]
    torch.testing.assert_close(*forms)
    for one, other in zip(*(torch.autograd.grad(form, inputs, flow) for form in forms), strict=True):
        torch.testing.assert_close(one, other)


@given(matrices(), st.integers(1, 12))
def test_gradients_are_those_of_finite_differences(csr, width):
    x, weight = tensor(1, csr.shape[1], width).requires_grad_(), tensor(2, csr.nnz).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, weight: spmm(csr, x, weight, "max"), (x, weight), fast_mode=True)
    assert torch.autograd.gradcheck(lambda x: spmm(csr, x, reduce="max"), (x,), fast_mode=True)


@pytest.mark.parametrize("width", [1, 8, 33, 200])
def test_the_first_of_equals_wins(form, width):
    csr = csr_from_edges(np.array([2, 0, 1, 1]), np.array([0, 0, 0, 1]), (3, 3))
    x = torch.zeros(3, width, requires_grad=True)
    out = spmm(csr, x, reduce="max", row_parallel=form)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(grad, torch.tensor([1.0, 1.0, 0.0])[:, None].expand(3, width))


@pytest.mark.parametrize("width", [3, 8, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_infinity_and_nan_pass_as_in_torch(form, width, dtype):
    csr = csr_from_edges(np.array([0, 1, 2, 2, 3]), np.array([0, 0, 0, 1, 2]), (4, 4))
    x = torch.tensor([-torch.inf, -torch.inf, torch.nan, torch.inf], dtype=dtype)[:, None].repeat(1, width)
    x[2, ::2] = -torch.inf
    expected = torch.stack([x[:3].amax(0), x[2], x[3], torch.zeros(width, dtype=dtype)])
    torch.testing.assert_close(spmm(csr, x, reduce="max", row_parallel=form), expected, equal_nan=True)


@pytest.mark.parametrize("width", [5, 64])
def test_a_hub_keeps_the_largest_of_all_its_edges(width):
    csr = hub_csr(100_000)
    x, weight = tensor(1, 500, width), tensor(2, csr.nnz)
    close(spmm(csr, x, weight, "max"), numpy_spmm(csr, x.numpy(), weight.numpy(), "max"))
