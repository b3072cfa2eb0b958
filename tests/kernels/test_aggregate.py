"""Aggregation against dense products, with gradients, in both forms."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels import gat, spmm
from tests.graphs import awkward_graph


def dense_of(csr, weight):
    matrix = torch.zeros(csr.shape, dtype=torch.float64)
    rows, columns = torch.from_numpy(csr.destinations.astype(np.int64)), torch.from_numpy(csr.indices.astype(np.int64))
    return matrix.index_put((rows, columns), weight, accumulate=True)


@given(st.integers(0, 30), st.integers(1, 9), st.booleans(), st.sampled_from(["sum", "mean"]))
def test_spmm_and_its_gradients_equal_the_dense_product(seed, width, row_parallel, reduce):
    csr = awkward_graph(seed, nodes=15, edges=30).csr
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(15, width, generator=draw, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(csr.nnz, generator=draw, dtype=torch.float64, requires_grad=True)
    wanted = dense_of(csr, weight) @ x
    if reduce == "mean":
        wanted = wanted / torch.from_numpy(np.maximum(csr.in_degrees, 1))[:, None]
    found = spmm(csr, x, weight, reduce, row_parallel)
    torch.testing.assert_close(found, wanted)
    seedling = torch.randn(wanted.shape, generator=draw, dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad(found, (x, weight), seedling),
        torch.autograd.grad(wanted, (x, weight), seedling),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("row_parallel", [True, False])
def test_gat_gradients_are_those_of_finite_differences(row_parallel):
    csr = awkward_graph(3, nodes=8, edges=10).csr
    draw = torch.Generator().manual_seed(1)
    shapes = ((8, 2, 3), (8, 2), (8, 2))
    inputs = [torch.randn(shape, generator=draw, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(lambda z, a, b: gat(csr, z, a, b, row_parallel=row_parallel), inputs)


def test_bad_input_is_refused_with_what_is_allowed():
    csr = awkward_graph().csr
    with pytest.raises(ValueError, match="allowed are sum, mean"):
        spmm(csr, torch.ones(40, 2), reduce="median")
    with pytest.raises(ValueError, match="40 columns"):
        spmm(csr, torch.ones(39, 2))
    with pytest.raises(ValueError, match="0 heads"):
        gat(csr, torch.ones(40, 0, 2), torch.ones(40, 0), torch.ones(40, 0))
