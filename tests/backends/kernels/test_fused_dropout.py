"""Dropout inside a dense layer, an epilogue and an attention layer: the entries and gradients of separate dropout."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import Mask, bias_activation, dense, dropout, gat_layer, mask_key, spmm_layer
from datasets.csr import Csr


def relu_layer(mask, x, weight, bias):
    return dense(x, weight, bias, relu=True, mask=mask)


def relu_layer_of_two(mask, x, weight, bias):
    return dense(x, weight, bias, relu=True, other=(x.flip(0), weight), mask=mask)


def epilogue(activation):
    return lambda mask, x, weight, bias: bias_activation(x @ weight, bias, activation, mask=mask)


def reversal(rows):
    return Csr(np.arange(rows + 1), np.arange(rows)[::-1].copy(), (rows, rows))


def sum_layer(mask, x, weight, bias):
    z = x @ weight
    return spmm_layer(reversal(len(x)), z, bias, own=z, activation="relu", mask=mask)


def attention_layer(mask, x, weight, bias):
    csr = reversal(len(x))
    z = (x @ weight).unsqueeze(1)
    score = z.sum(-1)
    return gat_layer(csr, z, score, score, bias, "elu", mask=mask)


FUSED = [relu_layer, relu_layer_of_two, *map(epilogue, ("none", "relu", "elu")), sum_layer, attention_layer]


@settings(max_examples=20)
@given(st.integers(0, 99), st.integers(1, 70), st.integers(1, 50), st.sampled_from(FUSED), st.booleans())
def test_dropout_after_a_layer_is_the_dropout_of_its_result(seed, rows, columns, layer, numbered):
    draw = torch.Generator().manual_seed(seed)
    nodes = torch.randperm(3 * rows, generator=draw)[:rows] if numbered else None
    shapes = (rows, 5), (5, columns), (columns,)
    inputs = [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]
    flow = torch.randn(rows, columns, generator=draw)
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        operands = [part.to(dtype).requires_grad_() for part in inputs]
        mask = Mask(0.4, mask_key(seed, 1, 1), nodes)
        fused, separate = layer(mask, *operands), dropout(layer(None, *operands), mask)
        assert torch.equal(fused, separate)
        gradients = [torch.autograd.grad(out, operands, flow.to(dtype)) for out in (fused, separate)]
        for one, other in zip(*gradients, strict=True):
            assert float((one - other).abs().max()) <= bound * float(other.abs().max() + 1)


@pytest.mark.parametrize("layer", FUSED)
def test_a_fused_mask_of_rate_0_drops_nothing_and_one_of_too_few_nodes_is_refused(layer):
    operands = torch.rand(6, 4), torch.rand(4, 3), torch.rand(3)
    assert torch.equal(layer(Mask(0.0, 1), *operands), layer(None, *operands))
    with pytest.raises(ValueError, match="there are 6 rows"):
        layer(Mask(0.5, 1, torch.arange(5)), *operands)
    with pytest.raises(ValueError, match="a mask needs relu=True"):
        dense(*operands, mask=Mask(0.5, 1))
