"""Refused arguments: messages name the argument and the allowed values; nothing reaches native code."""

import numpy as np
import pytest
import torch

from backends.kernels import (
    Mask,
    MatrixRows,
    bias_activation,
    binary_cross_entropy,
    count_sources,
    cross_entropy,
    dense,
    dropout,
    edge_softmax,
    gat,
    partition_rows,
    product,
    projection,
    sddmm,
    spmm,
    spmm_layer,
    spmm_with_own,
    take_rows,
)
from backends.kernels.loops import with_self_loops
from backends.kernels.operand import operand
from datasets.csr import Csr, csr_from_edges
from tests.backends.kernels.matrices import random_csr, use_plain

MATRIX = random_csr(0, 30, 40, 160)
X, ONES = torch.ones(40, 2), torch.ones(40, 1)
CALLS = {
    "allowed are sum, mean, max": lambda: spmm(MATRIX, X, reduce="median"),
    r"x has shape \(39, 2\): needed are 2 dimensions, the first of 40": lambda: spmm(MATRIX, torch.ones(39, 2)),
    "x is torch.int64: allowed are float32, float64": lambda: spmm(MATRIX, X.to(torch.int64)),
    "x is on meta: the kernels run on cpu, call": lambda: spmm(MATRIX, X.to("meta")),
    "weight is on meta beside cpu": lambda: spmm(MATRIX, X, torch.ones(160).to("meta")),
    "x is torch.sparse_coo: a dense tensor is needed": lambda: spmm(MATRIX, X.to_sparse()),
    r"weight has shape \(3,\): 160 edges need": lambda: spmm(MATRIX, X, torch.ones(3)),
    "weight is torch.float64 beside torch.float32": lambda: spmm(MATRIX, X, torch.ones(160).double()),
    "score_src has 0 heads": lambda: gat(MATRIX, torch.ones(40, 0, 2), torch.ones(40, 0), torch.ones(30, 0)),
    "z has 3 heads, score_src 2": lambda: gat(MATRIX, torch.ones(40, 3, 2), torch.ones(40, 2), torch.ones(30, 2)),
    "score_dst has shape": lambda: gat(MATRIX, X[:, None], torch.ones(40, 2), torch.ones(30, 1)),
    "score_dst is torch.float64": lambda: gat(MATRIX, X[:, None], ONES, torch.ones(30, 1).double()),
    "at least 0, below 1": lambda: gat(MATRIX, X[:, None], ONES, torch.ones(30, 1), dropout=1.0),
    "slope=-0.1 is not allowed: at least 0": lambda: gat(MATRIX, X[:, None], ONES, torch.ones(30, 1), slope=-0.1),
    "slope=nan is not allowed": lambda: gat(MATRIX, X[:, None], ONES, torch.ones(30, 1), slope=float("nan")),
    r"a has shape \(29, 1, 2\)": lambda: sddmm(MATRIX, torch.ones(29, 2), X),
    "b is torch.float64 beside": lambda: sddmm(MATRIX, torch.ones(30, 2), X.double()),
    "a has 0 heads": lambda: sddmm(MATRIX, torch.ones(30, 0, 2), torch.ones(40, 0, 2)),
    "they must be equal": lambda: sddmm(MATRIX, torch.ones(30, 3), X),
    "160 edges need": lambda: edge_softmax(MATRIX, torch.ones(160)),
    "logits has 0 heads": lambda: edge_softmax(MATRIX, torch.ones(160, 0)),
    "logits is torch.float16": lambda: edge_softmax(MATRIX, torch.ones(160, 1).half()),
    r"addend has shape \(30, 1\): needed is \(30, 2\)": lambda: product(MATRIX, X, addend=torch.ones(30, 1)),
    r"own has shape \(30, 3\): needed is \(30, 2\)": lambda: spmm_layer(MATRIX, X, ONES[:2, 0], own=torch.ones(30, 3)),
    "bias is torch.float64 beside": lambda: spmm_layer(MATRIX, X, torch.ones(2).double()),
    "bias is torch.float32 beside torch.float64": lambda: bias_activation(X.double(), torch.ones(2)),
    "targets is torch.float32 beside": lambda: binary_cross_entropy(X.double(), X),
    "the key of a mask is -1: allowed are whole numbers from 0 to": lambda: dropout(X, Mask(0.5, -1)),
    r"the key of a mask is 18446744073709551616": lambda: dropout(X, Mask(0.5, 1 << 64)),
    "the key of a mask is 1.5": lambda: dropout(X, Mask(0.5, 1.5)),
    "seed is -3: allowed are whole numbers from 0 to": lambda: gat(
        MATRIX, X[:, None], ONES, ONES[:30], dropout=0.5, seed=-3
    ),
    "parts=0 is not allowed: at least 1": lambda: partition_rows(MATRIX, 0),
}


@pytest.mark.parametrize("words", CALLS)
@pytest.mark.parametrize("built", [True, False])
def test_arguments(words, built, monkeypatch):
    if not built:
        use_plain(monkeypatch)
    with pytest.raises(ValueError, match=words):
        CALLS[words]()


@pytest.mark.parametrize(
    ("indptr", "indices", "rows", "words"),
    [
        ([0, 1, 2], [0, 2], 2, "indices reach from 0 to 2: allowed are 0 to 1"),
        ([0, 1, 2], [0, -1], 2, "indices reach from -1 to 0"),
        ([0, 2, 1, 2], [0, 1], 3, "descends from 2 to 1 at row 1"),
        ([0, 2**31 - 1, -(2**31) + 5], [0, 1], 2, "where int32 overflowed, make it int64"),
        ([0, 1], [0, 1], 1, "indptr has 2 entries from 0 to 1: 1 rows and 2 edges need 2 from 0 to 2"),
        ([1, 2], [0, 1], 1, "from 1 to 2"),
        ([], [], 0, "indptr has 0 entries: 0 rows and 0 edges need 1"),
        ([0.0, 1.0], [0], 1, r"indptr is float64 \[2\]: allowed is one axis of int32 or int64"),
        ([0, 1], [[0]], 1, r"indices is int32 \[1, 1\]"),
        ([0, 1], [0.5], 1, "indices is float64"),
    ],
)
def test_matrices(indptr, indices, rows, words):
    indptr, indices = (np.array(part, dtype=None if part else int) for part in (indptr, indices))
    csr = Csr(*(array if array.dtype == float else array.astype(np.int32) for array in (indptr, indices)), (rows, 2))
    for call in (lambda: spmm(csr, torch.ones(2, 4)), lambda: edge_softmax(csr, torch.ones(csr.nnz, 1))):
        with pytest.raises(ValueError, match=words):
            call()


ROWS = np.arange(9)
TAKEN = MatrixRows(MATRIX, None, torch.from_numpy(ROWS))


def trained(*shape):
    return torch.ones(shape, requires_grad=True)


DIFFERENTIABLE = {
    "sddmm": lambda: sddmm(MATRIX, trained(30, 2), trained(40, 2)),
    "edge softmax": lambda: edge_softmax(MATRIX, trained(160, 1)),
    "attention": lambda: gat(MATRIX, trained(40, 1, 2), trained(40, 1), trained(30, 1)),
    "sum": lambda: spmm(MATRIX, trained(40, 2), trained(160)),
    "mean": lambda: spmm(MATRIX, trained(40, 2), reduce="mean"),
    "max": lambda: spmm(MATRIX, trained(40, 2), reduce="max"),
    "layer": lambda: spmm_layer(MATRIX, trained(40, 2), trained(2)),
    "copied rows": lambda: spmm_with_own(take_rows(MATRIX, ROWS)[0], trained(40, 2), None, "sum", TAKEN, False)[0],
    "dense": lambda: dense(trained(40, 2), trained(2, 3), trained(3), relu=True),
    "projection": lambda: projection(trained(40, 2), trained(2, 3), trained(1, 3), trained(1, 3))[0],
    "bias": lambda: bias_activation(trained(40, 2), trained(2), "elu"),
    "dropout": lambda: dropout(trained(40, 2), Mask(0.5, 1)),
    "cross entropy": lambda: cross_entropy(trained(40, 2), torch.zeros(40, dtype=torch.int64)),
    "binary cross entropy": lambda: binary_cross_entropy(trained(40, 2), torch.zeros(40, 2)),
}


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_second_derivative_is_refused(name):
    total = DIFFERENTIABLE[name]().sum()
    with pytest.raises(RuntimeError, match="no second derivative: leave out create_graph"):
        total.backward(create_graph=True)


@pytest.mark.parametrize("row_parallel", [True, False], ids=["native", "scatter"])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_what_was_first_computed_in_inference_mode_trains(reduce, row_parallel):
    matrix, weight = random_csr(3, 30, 30, 160), torch.rand(160)
    with torch.inference_mode():
        spmm(matrix, torch.ones(30, 2), weight, reduce, row_parallel=row_parallel)
        made_there = torch.rand(160)
        first = product(matrix, torch.ones(30, 2), made_there, transposed=True)
        made_there.mul_(2.0)
        assert torch.equal(product(matrix, torch.ones(30, 2), made_there, transposed=True), 2.0 * first)
    x = torch.ones(30, 2, requires_grad=True)
    spmm(matrix, x, weight, reduce, row_parallel=row_parallel).sum().backward()
    other = torch.ones(30, 2, requires_grad=True)
    spmm(random_csr(3, 30, 30, 160), other, weight, reduce, row_parallel=row_parallel).sum().backward()
    assert torch.equal(x.grad, other.grad)


def test_weights_that_change_before_the_backward_pass_are_refused():
    weight = torch.ones(160)
    out = spmm_layer(MATRIX, torch.ones(40, 2, requires_grad=True), torch.zeros(2), weight)
    weight.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scale": np.ones(3)}, "scale has 3 entries for 40 columns"),
        ({"scale": np.ones(40), "edge_weights": np.ones(9)}, "edge_weights has 9 entries for"),
        (
            {"scale": np.ones(40), "edge_weights": np.ones(9), "positions": np.zeros(9, dtype=np.int64)},
            "positions has 9 entries",
        ),
    ],
    ids=["scale", "weights", "positions"],
)
def test_arrays_of_loops_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        with_self_loops(MATRIX, **arguments)


def test_indices_grow_to_64_bits_where_32_do_not_hold_them():
    wide = csr_from_edges(np.array([2**40, 3]), np.array([1, 1]), (2, 2**40 + 1))
    assert wide.indices.dtype == wide.indptr.dtype == np.int64
    assert wide.indices.tolist() == [3, 2**40]
    wider = csr_from_edges(np.array([2**62, 3, 5]), np.array([1, 3, 3]), (4, 2**62 + 1))
    assert wider.indices.tolist() == [2**62, 3, 5] and wider.destinations.tolist() == [1, 3, 3]
    narrow = Csr(np.array([0, 1], dtype=np.int32), np.array([7], dtype=np.int32), (1, 2**40))
    assert operand(narrow).forward.indices.dtype == np.int64
    assert operand(MATRIX).forward.indices.dtype == np.int32


def test_both_index_types_give_the_same_bits():
    x = torch.randn(40, 9)
    wide = Csr(MATRIX.indptr.astype(np.int64), MATRIX.indices, MATRIX.shape)
    for reduce in ("sum", "mean", "max"):
        assert torch.equal(spmm(MATRIX, x, reduce=reduce), spmm(wide, x, reduce=reduce))


def test_edge_ids_of_another_number_than_edges_are_refused():
    csr = Csr(MATRIX.indptr, MATRIX.indices, MATRIX.shape, np.arange(159))
    for call in (lambda: spmm(csr, X), lambda: count_sources(csr), lambda: take_rows(csr, np.arange(2))):
        with pytest.raises(ValueError, match="160 edges need"):
            call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_strided_arguments_are_read_as_what_they_are(dtype):
    x, pairs = torch.randn(40, 2, dtype=dtype), torch.randn(2, 2, dtype=dtype)
    weight, bias = torch.randn(160, 2, dtype=dtype)[:, 1], pairs[:, 0]
    mask = Mask(0.5, 7, torch.arange(80)[::2])
    dropped = Mask(0.5, 7, torch.arange(0, 80, 2))
    assert torch.equal(product(MATRIX, x, weight), product(MATRIX, x, weight.clone()))
    assert torch.equal(dense(x, pairs, bias, True, mask=mask), dense(x, pairs, bias.clone(), True, mask=dropped))
    assert torch.equal(bias_activation(x, bias, mask=mask), bias_activation(x, bias.clone(), mask=dropped))
    assert torch.equal(dropout(x, mask), dropout(x, dropped))


@pytest.mark.parametrize("index", [np.int32, np.int64], ids=["int32", "int64"])
def test_attention_reads_the_indices_that_it_is_given(index, monkeypatch):
    csr = Csr(MATRIX.indptr.astype(index), MATRIX.indices.astype(index), MATRIX.shape)
    z, source, destination = torch.randn(40, 1, 2), torch.randn(40, 1), torch.randn(30, 1)
    fast = gat(csr, z, source, destination)
    use_plain(monkeypatch)
    torch.testing.assert_close(fast, gat(csr, z, source, destination))


def test_an_infinite_logit_has_an_infinite_loss_or_none():
    logits = torch.tensor([[float("inf"), float("-inf")]])
    assert binary_cross_entropy(logits, torch.tensor([[0.0, 0.0]])) == float("inf")
    assert binary_cross_entropy(logits[:, 1:], torch.zeros(1, 1)) == 0
