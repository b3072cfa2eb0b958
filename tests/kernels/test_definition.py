"""Each aggregation against its meaning in numpy, on awkward matrices, from tensors in awkward layouts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels import gat, spmm
from tests.kernels.matrices import LAYOUTS, WIDTHS, close, hub_csr, matrices, numpy_gat, numpy_spmm, tensor

REDUCE = st.sampled_from(["sum", "mean"])


@given(matrices(), WIDTHS, st.booleans(), REDUCE, LAYOUTS)
def test_sums_and_means(csr, width, weighted, reduce, layout):
    x, weight = tensor(1, csr.shape[1], width, layout=layout), tensor(2, csr.nnz, layout=layout) if weighted else None
    close(spmm(csr, x, weight, reduce), numpy_spmm(csr, x.numpy(), weight.numpy() if weighted else None, reduce))


@given(matrices(), st.integers(1, 20), REDUCE)
def test_sums_and_means_have_the_gradients_of_finite_differences(csr, width, reduce):
    x, weight = tensor(1, csr.shape[1], width).requires_grad_(), tensor(2, csr.nnz).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: spmm(csr, x, w, reduce), (x, weight), fast_mode=True)
    assert torch.autograd.gradcheck(lambda x: spmm(csr, x, reduce=reduce), (x,), fast_mode=True)


@given(matrices(), st.one_of(st.integers(1, 5), st.just(8)), WIDTHS, LAYOUTS)
def test_attention(csr, heads, width, layout):
    z = tensor(1, csr.shape[1], heads, width, layout=layout)
    src, dst = (tensor(seed, n, heads, layout=layout) for seed, n in ((2, csr.shape[1]), (3, csr.shape[0])))
    close(gat(csr, z, src, dst), numpy_gat(csr, z.numpy(), src.numpy(), dst.numpy()))


@given(matrices(), st.integers(1, 4), st.integers(1, 12))
def test_attention_has_the_gradients_of_finite_differences(csr, heads, width):
    z = tensor(1, csr.shape[1], heads, width).requires_grad_()
    src, dst = (tensor(seed, n, heads).requires_grad_() for seed, n in ((2, csr.shape[1]), (3, csr.shape[0])))
    assert torch.autograd.gradcheck(lambda z, src, dst: gat(csr, z, src, dst), (z, src, dst), fast_mode=True)


@pytest.mark.parametrize("width", [5, 64])
def test_a_hubs_pieces_make_one_row(width):
    csr = hub_csr(100_000)
    x, weight, src, dst = tensor(1, 500, width), tensor(2, csr.nnz), tensor(3, 500, 1), tensor(4, 500, 1)
    for reduce in ("sum", "mean"):
        close(spmm(csr, x, weight, reduce), numpy_spmm(csr, x.numpy(), weight.numpy(), reduce))
    close(gat(csr, x[:, None], src, dst), numpy_gat(csr, x[:, None].numpy(), src.numpy(), dst.numpy()))
