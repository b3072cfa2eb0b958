"""All products of a matrix, and the comparison of two forms of it that differ in the order of additions alone."""

import numpy as np
import torch

from backends.kernels import product, spmm


def assert_equal_products(csr, other, seed, width, weighted, reduce, dtype):
    """Forward, backward, with addend and transposed: within the rounding errors of sums of the terms' sizes."""
    draw = torch.Generator().manual_seed(seed)
    rows, columns = csr.shape
    x, addend, upstream = (torch.randn((n, width), generator=draw, dtype=dtype) for n in (columns, rows, rows))
    weight = torch.rand(csr.nnz, generator=draw, dtype=dtype) if weighted else None
    expected, actual = (_products(form, x, weight, reduce, addend, upstream) for form in (csr, other))
    sizes = _products(csr, x.abs(), weight, reduce, addend.abs(), upstream.abs())
    roundings = max(16, int(csr.in_degrees.max(initial=0)), int(np.bincount(csr.indices).max(initial=0)))
    for one, two, size in zip(expected, actual, sizes, strict=True):
        assert ((one - two).abs() <= roundings * torch.finfo(dtype).eps * size).all()


def _products(csr, x, weight, reduce, addend, upstream):
    leaf = x.clone().requires_grad_()
    out = spmm(csr, leaf, weight, reduce)
    out.backward(upstream)
    return [out.detach(), leaf.grad, product(csr, x, weight, addend), product(csr, upstream, weight, transposed=True)]
