"""Attention with fused bias and activation: values and gradients."""

from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from backends.kernels import dispatch, gat, gat_layer, plain
from backends.kernels.checks import ACTIVATIONS
from datasets.csr import Csr
from tests.backends.kernels.attention_gradients import (
    check_as_exact_as_plain_torch,
    check_parallel_edges,
    large_features,
)
from tests.backends.kernels.matrices import random_csr, use_plain

TORCH = {"none": lambda y: y, "relu": functional.relu, "elu": functional.elu}


def drawn(seed, csr, heads, width, scale=1.0):
    """Operands and bias, float64."""
    draw = torch.Generator().manual_seed(seed)
    rows, columns = csr.shape
    shapes = (columns, heads, width), (columns, heads), (rows, heads), (heads * width,)
    return [scale * torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]


def unfused(csr, z, score_src, score_dst, bias, activation, **options):
    return TORCH[activation](gat(csr, z, score_src, score_dst, **options).flatten(1) + bias)


def with_gradients(call, inputs, flow):
    operands = [part.clone().to(flow.dtype).requires_grad_() for part in inputs]
    out = call(*operands)
    return [out.detach(), *torch.autograd.grad(out, operands, flow)]


@settings(max_examples=60)
@given(
    st.integers(0, 99), st.sampled_from([1, 2, 3, 8]), st.integers(1, 40), st.sampled_from(ACTIVATIONS),
    st.sampled_from([0.0, 0.4]), st.sampled_from([0.03, 1.0, 12.0]),
)  # fmt: skip
def test_value_and_gradients_equal_the_unfused_operations(seed, heads, width, activation, dropout, scale):
    csr = random_csr(seed, 9, 8, 30)
    inputs, options = drawn(seed, csr, heads, width, scale), {"dropout": dropout, "seed": seed}
    flow = torch.randn(9, heads * width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    bare = unfused(csr, *inputs, "none", **options)
    flow *= bare.abs() > 1e-4 * scale  # a sign that rounding could flip says nothing
    expected = with_gradients(lambda *parts: unfused(csr, *parts, activation, **options), inputs, flow)
    for dtype, bound in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        actual = with_gradients(lambda *parts: gat_layer(csr, *parts, activation, **options), inputs, flow.to(dtype))
        with patch.dict(dispatch.IMPLEMENTATIONS, cpu=plain):
            in_torch = with_gradients(
                lambda *parts: unfused(csr, *parts, activation, **options), inputs, flow.to(dtype)
            )
        for one, other, torch_one in zip(actual, expected, in_torch, strict=True):
            assert one.shape == other.shape
            # large scores are rounded more than the bound says, in plain torch as well
            allowed = max(bound * float(other.abs().max() + scale), 4 * float((torch_one.double() - other).abs().max()))
            assert float((one.double() - other).abs().max()) <= allowed


@pytest.mark.parametrize("row_parallel", [True, False])
def test_gradients_pass_gradcheck_and_the_scattered_form_agrees(row_parallel):
    csr = random_csr(4, 7, 6, 25)
    inputs = [part.requires_grad_() for part in drawn(4, csr, 2, 5)]
    assert torch.autograd.gradcheck(lambda *parts: gat_layer(csr, *parts, "elu", row_parallel=row_parallel), inputs)
    torch.testing.assert_close(gat_layer(csr, *inputs, "elu", row_parallel=row_parallel), unfused(csr, *inputs, "elu"))


def test_saturated_rows_send_finite_gradients_back():
    csr = random_csr(1, 9, 8, 30)
    inputs = [part.float() for part in drawn(1, csr, 1, 9)]
    inputs[3] -= 200.0  # e^-200 is no float: the activation's output is -1, its slope 0
    actual = with_gradients(lambda *parts: gat_layer(csr, *parts, "elu"), inputs, torch.ones(9, 9))
    assert all(bool(part.isfinite().all()) for part in actual)
    assert not actual[1].any()


def test_any_number_of_threads_gives_the_same_bits():
    csr, before, runs = random_csr(2, 2500, 1500, 40000), torch.get_num_threads(), []
    inputs, flow = drawn(2, csr, 3, 21), torch.randn(2500, 63)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        runs.append(with_gradients(lambda *parts: gat_layer(csr, *parts, "elu"), inputs, flow))
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


def test_no_rows_make_no_rows_and_a_wrong_bias_is_refused():
    csr = random_csr(3, 0, 5, 0)
    inputs = drawn(3, csr, 2, 4)
    assert gat_layer(csr, *inputs).shape == (0, 8)
    with pytest.raises(ValueError, match=r"bias \(7,\): needed are"):
        gat_layer(csr, *inputs[:3], inputs[3][:7])


@pytest.mark.parametrize("named", [True, False])
def test_dropout_is_the_same_hash_in_every_form(named, monkeypatch):
    csr = random_csr(5, 40, 30, 400)
    csr = Csr(csr.indptr, csr.indices, csr.shape, np.arange(csr.nnz)[::-1] if named else None)
    inputs, options = drawn(5, csr, 3, 4)[:3], {"dropout": 0.4, "seed": 1 << 63}
    native = gat(csr, *inputs, **options)
    torch.testing.assert_close(gat(csr, *inputs, **options, row_parallel=False), native)
    use_plain(monkeypatch)
    torch.testing.assert_close(gat(csr, *inputs, **options), native)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 16, 33]), st.sampled_from([0.0, 0.4]))
def test_scores_far_apart_have_no_gradient_and_equal_ones_keep_theirs(seed, heads, width, dropout):
    csr, draw = random_csr(seed, 9, 8, 60), np.random.default_rng(seed)
    z, _, _, _ = drawn(seed, csr, heads, width, 1e6)
    scores = [torch.from_numpy(1e6 * draw.integers(-2, 3, (count, heads))) for count in reversed(csr.shape)]
    flow = torch.randn(9, heads, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    inputs, options = [part.float().double() for part in (z, *scores)], {"dropout": dropout, "seed": seed}
    flow = flow.float().double()
    with patch.dict(dispatch.IMPLEMENTATIONS, cpu=plain):
        expected = with_gradients(lambda *parts: gat(csr, *parts, **options), inputs, flow)
    actual = with_gradients(lambda *parts: gat(csr, *parts, **options), inputs, flow.float())
    product = width * float(z.abs().max() * flow.abs().max())  # of an edge; those of a row may cancel
    for one, other in zip(actual, expected, strict=True):
        assert float((one.double() - other).abs().max()) <= 1e-5 * float(other.abs().max()) + 1e-6 * product


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_parallel_edges_alone_in_their_row_have_no_score_gradient(copies):
    check_parallel_edges(copies)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 99), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 16, 33]), st.sampled_from([1e6, 1e30]),
    st.booleans(),
)  # fmt: skip
def test_large_features_leave_the_digits_that_plain_torch_has(seed, heads, width, scale, row_parallel):
    csr = random_csr(seed, 9, 8, 60)
    inputs, flow = large_features(seed, csr, heads, width, scale)
    check_as_exact_as_plain_torch(csr, inputs, flow, row_parallel=row_parallel)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_bias_that_dwarfs_the_output_leaves_its_gradients_alone(activation):
    csr = random_csr(7, 9, 8, 60)
    *inputs, bias = (part.float() for part in drawn(7, csr, 2, 16))
    flow = torch.randn(9, 32, generator=torch.Generator().manual_seed(7))
    bias = 1e6 + bias.abs()  # every activation's slope is 1
    fused = with_gradients(lambda *parts: gat_layer(csr, *parts, activation), [*inputs, bias], flow)
    bare = with_gradients(lambda *parts: gat(csr, *parts).flatten(1), inputs, flow)
    assert all(torch.equal(one, other) for one, other in zip(fused[1:4], bare[1:], strict=True))
