"""Products of sparse rows: both weights of a layer in one pass equal two products."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import random as random_sparse

from backends.base.sparse_rows import SparseRows, product, product_pair
from backends.kernels import Mask, mask_key
from backends.kernels.operand import build_transpose
from datasets.csr import Csr


@given(st.integers(0, 99), st.integers(1, 30), st.integers(1, 40), st.integers(1, 20), st.booleans(), st.booleans())
def test_one_pass_with_two_weights_equals_two_products(seed, rows, columns, width, drops, keeps):
    stored = random_sparse(rows, columns, density=0.3, format="csr", random_state=seed)
    values = torch.from_numpy(stored.data.astype(np.float32))
    x = SparseRows(Csr(stored.indptr, stored.indices, (rows, columns)), values)
    if keeps:
        build_transpose(x.csr, x.values)
    x = x.dropped(Mask(0.5, mask_key(seed, 0, 0))) if drops else x
    draw, count = torch.Generator().manual_seed(seed), seed % rows + 1
    weights = [torch.randn(columns, width, generator=draw, requires_grad=True) for _ in range(2)]
    flows = [torch.randn(size, width, generator=draw) for size in (rows, count)]
    expected = product(x, weights[0]), product(x, weights[1])[:count]
    actual = product_pair(x, *weights, count)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    pairs = zip(torch.autograd.grad(actual, weights, flows), torch.autograd.grad(expected, weights, flows), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
