"""A layer's aggregation, own term, bias and activation in one node of autograd, against the separate operations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import bias_activation, spmm, spmm_layer
from backends.kernels.checks import ACTIVATIONS
from tests.backends.kernels.matrices import random_csr

REDUCE, SKEWS = st.sampled_from(["sum", "mean"]), st.integers(0, 300)


@settings(max_examples=40)
@given(
    st.integers(0, 99), SKEWS, st.integers(1, 70), REDUCE, st.sampled_from(ACTIVATIONS), st.booleans(), st.booleans()
)
def test_value_and_gradients_equal_the_separate_operations(seed, edges, width, reduce, activation, weighted, with_own):
    draw = torch.Generator().manual_seed(seed)
    csr = random_csr(seed, 17, 23, edges)
    weight = torch.rand(csr.nnz, generator=draw, dtype=torch.float64) if weighted else None
    wide = torch.randn(
        23, 2 * width, generator=draw, dtype=torch.float64
    )  # columns of a wider matrix are not contiguous
    bias = torch.randn(width, generator=draw, dtype=torch.float64)
    flow = torch.randn(17, width, generator=draw, dtype=torch.float64)
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        results = []
        for fused in (True, False):
            inputs = [part.to(dtype).requires_grad_() for part in (wide.clone(), bias.clone())]
            x, own = inputs[0][:, :width], inputs[0][:17, width:] if with_own else None
            weights = None if weight is None else weight.to(dtype)
            if fused:
                out = spmm_layer(csr, x, inputs[1], weights, reduce, own, activation)
            else:
                total = spmm(csr, x, weights, reduce)
                out = bias_activation(total if own is None else total + own, inputs[1], activation)
            # a slope that rounding could flip says nothing
            safe = flow.to(dtype) * ((out.detach().abs() > 1e-4) if activation != "none" else 1)
            results.append((out, *torch.autograd.grad(out, inputs, safe)))
        for one, other in zip(*results, strict=True):
            assert float((one - other).detach().abs().max()) <= bound * float(other.detach().abs().max() + 1)


def test_the_own_term_is_added_to_hubs_once():
    csr = random_csr(0, 2, 50, 100_000)
    x, own = torch.ones(50, 5), torch.full((2, 5), 3.0)
    out = spmm_layer(csr, x, torch.zeros(5), own=own)
    assert torch.equal(out, spmm(csr, x) + 3.0)
    mean = spmm_layer(csr, x, torch.zeros(5), reduce="mean", own=own)
    assert torch.allclose(mean, torch.full((2, 5), 4.0))


def test_what_a_layer_cannot_take_is_refused():
    csr, x, bias = random_csr(0, 3, 4, 5), torch.ones(4, 2), torch.ones(2)
    with pytest.raises(ValueError, match="takes sum or mean"):
        spmm_layer(csr, x, bias, reduce="max")
    with pytest.raises(ValueError, match="call spmm, then bias_activation"):
        spmm_layer(csr, x, bias, torch.ones(5, requires_grad=True))
    with pytest.raises(ValueError, match="own"):
        spmm_layer(csr, x, bias, own=torch.ones(4, 2))
    with pytest.raises(ValueError, match="own"):
        spmm_layer(csr, x, bias, own=torch.ones(3, 2, dtype=torch.float64))
    with pytest.raises(ValueError, match="bias"):
        spmm_layer(csr, x, torch.ones(3))
