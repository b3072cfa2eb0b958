"""Triton's kernels against the other implementations: on a GPU where there is one, else in Triton's interpreter."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from backends.kernels import (
    Mask,
    bias_activation,
    dense,
    dispatch,
    dropout,
    dropout_values,
    gat,
    mask_key,
    native,
    plain,
    product,
    projection,
    spmm,
)
from backends.kernels.operand import operand
from backends.kernels.tiles import SIDE, find_tiles
from datasets.csr import Csr
from tests.backends.kernels.attention_gradients import (
    check_as_exact_as_plain_torch,
    check_parallel_edges,
    large_features,
)
from tests.backends.kernels.matrices import random_csr

pytestmark = pytest.mark.needs_triton
ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined
DEVICE = "cuda" if ON_GPU else "cpu"
BOUNDS = {torch.float64: 1e-11, torch.float32: 2e-5}


@pytest.fixture(autouse=True)
def on_triton(monkeypatch):
    """Compute by Triton; the interpreter is slow, so that rows of few edges are cut there."""
    layout = importlib.import_module("backends.kernels.triton.layout")
    monkeypatch.setitem(dispatch.IMPLEMENTATIONS, DEVICE, importlib.import_module("backends.kernels.triton"))
    monkeypatch.setattr(layout, "_SIDES", layout._SIDES.__class__())
    if not ON_GPU:
        monkeypatch.setattr(layout, "PIECE", 4)


def hub_csr():
    """One row of 5,000 edges, one of 1,025, rows of few and of none."""
    draw = np.random.default_rng(1)
    degrees = np.array([3, 5000 if ON_GPU else 40, 0, 1, 1025 if ON_GPU else 9, 7])
    return Csr(np.concatenate(([0], np.cumsum(degrees))), draw.integers(0, 8, int(degrees.sum())), (6, 8))


MATRICES = [
    lambda: random_csr(0, 6, 7, 30),
    lambda: random_csr(1, 5, 1, 9, np.int64),
    lambda: random_csr(2, 4, 3, 0),
    hub_csr,
]


def check(call, definition, shapes, seed):
    """Values and gradients of ``call`` on the device against those of ``definition`` in float64 on the CPU."""
    draw = torch.Generator().manual_seed(seed)
    exact = [torch.randn(shape, generator=draw, dtype=torch.float64, requires_grad=True) for shape in shapes]
    expected = definition(*exact)
    flow = torch.randn(expected.shape, generator=draw, dtype=torch.float64)
    gradients = torch.autograd.grad(expected, exact, flow)
    for dtype, bound in BOUNDS.items():
        inputs = [part.detach().to(DEVICE, dtype).requires_grad_() for part in exact]
        out = call(*inputs)
        results = [out, *torch.autograd.grad(out, inputs, flow.to(DEVICE, dtype))]
        for one, other in zip(results, [expected, *gradients], strict=True):
            error = (one.detach().cpu().double() - other.detach()).abs().max() if one.numel() else torch.zeros(())
            assert one.dtype == dtype and float(error) <= bound * (
                1 + float(other.detach().abs().amax() if other.numel() else 0)
            )


@pytest.mark.parametrize("matrix", range(len(MATRICES)))
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("width", [1, 70])
@pytest.mark.parametrize("weighted", [True, False])
def test_sums_equal_the_plain_ones(matrix, reduce, width, weighted):
    csr = MATRICES[matrix]()
    shapes = [(csr.shape[1], width), *([(csr.nnz,)] if weighted else [])]
    check(
        lambda x, weight=None: spmm(csr, x, weight, reduce),
        lambda x, weight=None: plain.spmm(operand(csr), x, weight, reduce),
        shapes,
        width,
    )


@pytest.mark.parametrize("width", [1, 70])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("threshold", [1 / 1024, 0.5])
def test_tiles_and_the_rest_of_the_edges_are_the_whole_product(threshold, weighted, width, monkeypatch):
    monkeypatch.setattr(importlib.import_module("backends.kernels.triton.layout"), "PIECE", 256)
    csr = random_csr(5, 36, 40, 1200)
    matrix = operand(csr)
    for side, columns in ((matrix.forward, 40), (matrix.backward, 36)):
        side.tiles[width] = find_tiles(side, columns, threshold)
        assert side.tiles[width].share > 0
    shapes = [(40, width), *([(csr.nnz,)] if weighted else [])]
    check(
        lambda x, weight=None: spmm(csr, x, weight, "mean"),
        lambda x, weight=None: plain.spmm(operand(csr), x, weight, "mean"),
        shapes,
        width,
    )


@pytest.mark.parametrize(("count", "threshold"), [(SIDE, 1.0), (SIDE - 1, 0.5), (SIDE + 3, 0.05)])
def test_a_row_of_many_tiles_is_cut_and_its_sums_are_added(monkeypatch, count, threshold):
    tiles = importlib.import_module("backends.kernels.triton.tiles")
    monkeypatch.setattr(tiles, "PIECE", 2)
    columns = np.arange(SIDE * (2 * tiles.PIECE + 3) + 1, dtype=np.int32)  # one is in no tile
    csr = Csr(len(columns) * np.arange(count + 1), np.tile(columns, count), (count, len(columns)))
    side = operand(csr).forward
    side.tiles[3] = find_tiles(side, len(columns), threshold)
    x = torch.randn(len(columns), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    difference = product(csr, x.to(DEVICE)).cpu() - x.sum(0)
    assert 0.9 < side.tiles[3].share < 1 and float(difference.abs().max()) < 1e-10


@pytest.mark.parametrize("mask", [None, Mask(0.4, mask_key(1, 2, 3))])
@pytest.mark.parametrize("activation", ["none", "relu", "elu"])
def test_bias_activation_and_dropout_equal_the_plain_ones(activation, mask):
    check(
        lambda x, bias: bias_activation(x, bias, activation, mask=mask),
        lambda x, bias: plain.bias_activation(x, bias, activation, False, mask),
        [(9, 40), (40,)],
        1,
    )


@pytest.mark.parametrize("mask", [None, Mask(0.4, mask_key(1, 2, 3))])
def test_a_dense_layer_equals_the_plain_one(mask):
    check(
        lambda x, weight, bias, x2, weight2: dense(x, weight, bias, True, (x2, weight2), mask),
        lambda x, weight, bias, x2, weight2: plain.dense(x, weight, bias, True, x2, weight2, mask),
        [(9, 4), (4, 7), (7,), (9, 3), (3, 7)],
        2,
    )


def test_a_projection_equals_the_plain_one():
    definition = plain.projection
    check(
        lambda *parts: torch.cat([one.flatten(1) for one in projection(*parts)], 1),
        lambda *parts: torch.cat([one.flatten(1) for one in definition(*parts)], 1),
        [(9, 4), (4, 15), (3, 5), (3, 5)],
        3,
    )


@pytest.mark.parametrize(("matrix", "heads", "width", "edges"), [
    (0, 1, 3, True), (0, 8, 1, False), (0, 2, 130, False), (1, 3, 5, True), (2, 2, 3, True), (3, 3, 5, True),
    (3, 1, 70, False),
])  # fmt: skip
def test_attention_equals_the_plain_one(matrix, heads, width, edges):
    csr = MATRICES[matrix]()
    rows, columns = csr.shape
    shapes = [(columns, heads, width), (columns, heads), (rows, heads), *([(csr.nnz, heads)] if edges else [])]
    check(
        lambda z, src, dst, edge=None: gat(csr, z, src, dst, edge, 0.3),
        lambda z, src, dst, edge=None: plain.gat(operand(csr), z, src, dst, edge, 0.3, None),
        shapes,
        heads,
    )


@pytest.mark.parametrize("scale", [1e6, 1e30])
def test_large_features_leave_the_digits_that_plain_torch_has(scale):
    csr = MATRICES[0]()
    check_as_exact_as_plain_torch(csr, *large_features(5, csr, 2, 33, scale), device=DEVICE)


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_parallel_edges_alone_in_their_row_have_no_score_gradient(copies):
    check_parallel_edges(copies, DEVICE)


def test_heads_share_rows():
    csr = MATRICES[1]()
    rows, columns = csr.shape
    check(
        lambda z, src, dst: gat(csr, z, src, dst),
        lambda z, src, dst: plain.gat(operand(csr), z, src, dst, None, 0.2, None),
        [(columns, 1, 5), (columns, 3), (rows, 3)],
        3,
    )


def test_dropout_of_attention_has_the_mask_and_gradients_of_the_native_kernel():
    csr = hub_csr()
    shapes = [(8, 2, 5), (8, 2), (6, 2)]
    for seed in (3, 1 << 61):
        check(
            lambda *parts, seed=seed: gat(csr, *parts, dropout=0.4, seed=seed),
            lambda *parts, seed=seed: native.gat(operand(csr), *parts, None, 0.2, Mask(0.4, seed)),
            shapes,
            0,
        )


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.99])
def test_dropout_drops_the_entries_of_plain_torch(rate, numbered):
    nodes = torch.tensor([5, 1 << 40, 0, 7]) if numbered else None
    x = torch.rand(4, 300) + 0.1
    mask = Mask(rate, mask_key(1, 2, 3), nodes)
    x_there = x.to(DEVICE).requires_grad_()
    there = dropout(x_there, Mask(rate, mask.key, None if nodes is None else nodes.to(DEVICE)))
    expected = plain.dropout(x, mask) if rate else x
    assert torch.equal(there.detach().cpu(), expected)
    (gradient,) = torch.autograd.grad(there.sum(), [x_there])
    assert torch.equal(gradient.cpu() > 0, expected > 0)


@pytest.mark.parametrize("numbered", [True, False])
def test_dropout_of_values_drops_those_of_plain_torch(numbered):
    csr, values = MATRICES[0](), torch.rand(30) + 0.1
    nodes = torch.tensor([5, 1 << 40, 0, 7, 9, 2]) if numbered else None
    there = Mask(0.4, mask_key(1, 2, 3), None if nodes is None else nodes.to(DEVICE))
    expected = plain.dropout_values(operand(csr), values, Mask(0.4, there.key, nodes))
    assert torch.equal(dropout_values(csr, values.to(DEVICE), there).cpu(), expected)


def test_repeated_calls_give_the_same_bits():
    csr, draw = hub_csr(), torch.Generator().manual_seed(0)
    x, score = torch.randn(8, 40, generator=draw).to(DEVICE), torch.randn(8, 1, generator=draw).to(DEVICE)
    runs = [(spmm(csr, x), gat(csr, x[:, None], score, score[:6])) for _ in range(3)]
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


def test_every_kernel_compiles_for_gpus_that_are_not_here():
    variables = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    path = os.pathsep.join([str(Path(__file__).parents[4]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(Path(__file__).with_name("compile_kernels.py"))]
    done = subprocess.run(command, env=variables | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert all("bytes of shared memory" in line for line in lines)
    assert {line.split()[0] for line in lines} == {"sm_80", "sm_90"}
