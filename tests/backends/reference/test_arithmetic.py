"""Arithmetics of the definition: sums over edges by brute force, in memory of the rows alone."""

import numpy as np
import pytest
import torch

from backends.reference.arithmetic import Arithmetic, single
from datasets.high_water import HighWater
from tests.graphs import awkward_graph


def operands(edges, nodes, heads, width, dtype):
    draw = torch.Generator().manual_seed(3)
    weight = torch.randn(edges, heads, generator=draw, dtype=dtype)
    return weight, torch.randn(nodes, heads, width, generator=draw, dtype=dtype).requires_grad_()


@pytest.mark.parametrize("learned", [False, True], ids=["fixed weights", "learned weights"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sums_over_edges_and_their_gradients(dtype, learned):
    csr = awkward_graph(1).csr
    source, destination = (torch.from_numpy(ends.astype(np.int64)) for ends in (csr.indices, csr.destinations))
    weight, x = operands(csr.nnz, csr.shape[0], 2, 5, dtype)
    arithmetic = Arithmetic() if dtype == torch.float64 else single([])
    out = arithmetic.aggregate(weight.requires_grad_(learned), x, source, destination)
    out.square().sum().backward()
    matrix = torch.zeros(2, *csr.shape, dtype=dtype).index_put((torch.arange(2)[:, None], destination, source),
                                                               weight.detach().T, accumulate=True)  # fmt: skip
    expected = torch.einsum("hij,jhw->ihw", matrix, x.detach())
    torch.testing.assert_close(out.detach(), expected)
    torch.testing.assert_close(x.grad, torch.einsum("hij,ihw->jhw", matrix, 2 * expected))


def test_wide_rows_of_a_dense_graph_take_no_array_over_edges_and_columns():
    nodes, width = 100, 4000
    source, destination = torch.arange(nodes).repeat(nodes), torch.arange(nodes).repeat_interleave(nodes)
    weight, x = operands(nodes * nodes, nodes, 1, width, torch.float64)
    mark = HighWater()
    Arithmetic().aggregate(weight, x, source, destination).sum().backward()
    assert mark.growth() < weight.numel() * width * 8 / 4
