"""Attention over rows that need no gradient: the scores' gradients are those where they do, without a transpose."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels import gat, operand
from tests.backends.kernels.matrices import matrices, random_csr, tensor


def gradients(csr, z, scores, **options):
    out = gat(csr, z, *scores, **options)
    return out.detach(), *torch.autograd.grad(out, scores, tensor(9, *out.shape, dtype=out.dtype))


@given(
    csr=matrices(),
    heads=st.sampled_from([1, 2, 4, 8, 9]),
    width=st.sampled_from([1, 7, 33]),
    shared=st.booleans(),
    edges=st.booleans(),
    dropout=st.sampled_from([0.0, 0.4]),
)
def test_gradients_of_scores_are_those_where_rows_need_one(csr, heads, width, shared, edges, dropout):
    (rows, columns), options = csr.shape, {"slope": 0.3, "dropout": dropout, "seed": 5}
    z = tensor(1, columns, 1 if shared else heads, width)
    sizes = (columns, rows, csr.nnz) if edges else (columns, rows)
    scores = [tensor(seed, size, heads).requires_grad_() for seed, size in enumerate(sizes, 2)]
    fixed, free = (gradients(csr, rows, scores, **options) for rows in (z, z.clone().requires_grad_()))
    for one, other in zip(fixed, free, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 4])
def test_no_transpose_is_built(heads):
    csr = random_csr(3, 40, 60, 300)
    scores = [tensor(2, 60, heads).requires_grad_(), tensor(3, 40, heads).requires_grad_()]
    gradients(csr, tensor(1, 60, heads, 8), scores)
    assert "transpose" not in vars(operand.operand(csr))
