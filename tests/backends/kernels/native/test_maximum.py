"""The largest source row over in-edges: value, winner among equals, gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import spmm
from backends.kernels.extension import extension
from datasets.csr import Csr, csr_from_edges
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


NEAR = 1 << 20  # numbers of float32 in a gradient that one thread adds to
SPLIT_WIDTHS = st.sampled_from([1, 3, 16, 17, 64])


@st.composite
def split_cases(draw):
    """Matrices with more sources than one thread adds to: empty ones, empty rows, hubs among sources and rows."""
    width, random = draw(SPLIT_WIDTHS), np.random.default_rng(draw(st.integers(0, 999)))
    rows, columns, edges = draw(st.integers(0, 60)), NEAR // width + draw(st.integers(1, 99)), draw(st.integers(0, 300))
    ends, sources = random.integers(0, max(rows - rows // 3, 1), edges), random.integers(0, columns, edges)
    if draw(st.booleans()):
        sources[random.random(edges) < 0.5] = columns - 1
    if draw(st.booleans()):
        ends[random.random(edges) < 0.5] = rows // 2
    edges = edges if rows else 0
    return csr_from_edges(sources[:edges], ends[:edges], (rows, columns)), width


def gradients(csr: Csr, width, threads, weighted):
    """The gradient of x by native code, and by its definition: winners in the order of the rows."""
    random = np.random.default_rng(5)
    winner = np.full((csr.shape[0], width), -1, dtype=csr.indices.dtype)
    full = np.flatnonzero(csr.in_degrees)
    places = random.random((len(full), width)) * csr.in_degrees[full, None]
    winner[full] = csr.indptr[full, None] + places.astype(winner.dtype)
    grad = random.standard_normal(winner.shape).astype(np.float32)
    weight = random.standard_normal(csr.nnz).astype(np.float32) if weighted else None
    x, actual, expected = (np.zeros((csr.shape[1], width), dtype=np.float32) for _ in range(3))
    bounds = np.array([0, csr.shape[0]])
    extension.max_backward(csr.indptr, csr.indices, bounds, x, weight, winner, grad, actual, None, threads)
    parts = grad[full] if weight is None else weight[winner[full]] * grad[full]
    np.add.at(expected, (csr.indices[winner[full]], np.arange(width)), parts)
    return actual, expected


@settings(deadline=None)
@given(split_cases(), st.sampled_from([1, 2, 3, 7]), st.booleans())
def test_each_source_has_what_its_winners_give_back_with_any_number_of_threads(case, threads, weighted):
    csr, width = case
    actual, expected = gradients(csr, width, threads, weighted)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(actual, gradients(csr, width, 1, weighted)[0])


@pytest.mark.parametrize("width", [1, 16, 64])
def test_more_entries_than_are_added_together_lose_none(width):
    random = np.random.default_rng(1)
    columns = NEAR // width + 1
    csr = csr_from_edges(random.integers(0, columns, 20_000), random.integers(0, 4_000, 20_000), (4_000, columns))
    alone, expected = gradients(csr, width, 1, True)
    np.testing.assert_allclose(alone, expected, rtol=1e-4, atol=1e-4)
    for threads in (2, 3, 7):
        np.testing.assert_array_equal(gradients(csr, width, threads, True)[0], alone)
