"""Arrays reach native code where they lie: another type or layout is refused, never copied without a word."""

import numpy as np
import pytest
import torch

from backends.kernels import take_rows
from backends.kernels.ceiling import read_stream, triad
from backends.kernels.extension import extension
from backends.kernels.partition import UndirectedGraph
from datasets.csr import Csr
from tests.backends.kernels.matrices import random_csr

MATRIX = random_csr(0, 30, 40, 160)
ROW_BOUNDS, NO_HUBS = np.array([0, 30]), np.empty(0, dtype=np.int64)


def multiply(indptr=MATRIX.indptr, x=None, out=None, bounds=ROW_BOUNDS):
    x = np.ones((40, 2), dtype=np.float32) if x is None else x
    out = np.empty((30, 2), dtype=np.float32) if out is None else out
    extension.spmm(indptr, MATRIX.indices, bounds, NO_HUBS, x, None, None, None, out, None, 1)


def drop(numbers):
    x = np.ones((4, 2), dtype=np.float32)
    extension.dropout(x, (7, 1 << 31, 2.0, numbers), np.empty_like(x), 1)


def decode(columns):
    nothing, none, bytes_ = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint8)
    extension.graphfeature_decode(
        bytes_, none, none, nothing, nothing, columns, 0, [None] * 4, [0] * 4, None, none, none,
        np.empty(0, dtype=np.float32), 1,
    )  # fmt: skip


REFUSED = {
    "an index of another type": lambda: multiply(indptr=MATRIX.indptr.astype(np.int64)),
    "a wider operand": lambda: multiply(x=np.ones((40, 2))),
    "a strided operand": lambda: multiply(x=np.ones((40, 4), dtype=np.float32)[:, ::2]),
    "a result of another type": lambda: multiply(out=np.empty((30, 2))),
    "a strided result": lambda: multiply(out=np.empty((30, 4), dtype=np.float32)[:, ::2]),
    "bounds of another type": lambda: multiply(bounds=ROW_BOUNDS.astype(np.int32)),
    "an array in a tuple": lambda: drop(np.arange(4, dtype=np.int32)),
    "a strided array in a tuple": lambda: drop(np.arange(8)[::2]),
    "a result in a list": lambda: decode([np.empty(0, dtype=np.int32)] * 9),
    "numbers beside their permutation": lambda: extension.renumber(np.zeros(3, dtype=np.int64)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_array_that_would_be_copied_is_refused(what):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        REFUSED[what]()


def test_the_same_calls_take_arrays_as_they_are_declared():
    multiply()
    drop(np.arange(4))
    drop(None)
    decode([np.empty(0, dtype=np.int64)] * 9)


def test_a_matrix_of_two_index_types_is_converted_where_a_reader_sees_it():
    csr = random_csr(3, 20, 20, 60)
    weights = np.ones((20, 1), dtype=np.int64)
    expected = UndirectedGraph.of(csr, weights, 2)
    for kinds in ((np.int64, np.int32), (np.int32, np.int64), (np.uint32, np.int32)):
        mixed = Csr(csr.indptr.astype(kinds[0]), csr.indices.astype(kinds[1]), csr.shape)
        graph = UndirectedGraph.of(mixed, weights, 2)
        np.testing.assert_array_equal(graph.starts, expected.starts)
        np.testing.assert_array_equal(graph.neighbours, expected.neighbours)


def test_parts_that_could_not_be_written_over_are_refused():
    graph = UndirectedGraph.of(random_csr(3, 20, 20, 60), np.ones((20, 1), dtype=np.int64), 1)
    bounds = np.array([12])
    for parts in (np.zeros(20, dtype=np.int64), np.zeros(40, dtype=np.int32)[::2], np.zeros(19, dtype=np.int32)):
        with pytest.raises(ValueError, match=r"contiguous int32 \[20\] is needed"):
            graph.refine(parts, 2, bounds, 1)
    for part in (-1, 2):
        with pytest.raises(ValueError, match=r"parts reach from .*: allowed are 0 to 1"):
            graph.refine(np.full(20, part, dtype=np.int32), 2, bounds, 1)


def test_rows_are_taken_by_any_integers_and_weights_in_any_layout():
    weight, rows = torch.randn(160, 2)[:, 1], np.array([3, 1], dtype=np.int32)
    part, values = take_rows(MATRIX, rows, weight)
    expected, expected_values = take_rows(MATRIX, rows.astype(np.int64), weight.clone())
    np.testing.assert_array_equal(part.indices, expected.indices)
    assert torch.equal(values, expected_values)
    with pytest.raises(ValueError, match=r"rows are float64 \[1\]: one axis of integers is needed"):
        take_rows(MATRIX, np.array([1.0]))
    with pytest.raises(ValueError, match=r"weight is torch\.int64: allowed are float32, float64"):
        take_rows(MATRIX, rows, torch.ones(160, dtype=torch.int64))


def test_streams_of_another_type_are_refused():
    a, wide = torch.ones(8), torch.ones(8, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"source is torch.float64: a contiguous array of torch.float32 is needed"):
        read_stream(wide, 1)
    with pytest.raises(ValueError, match=r"c is torch.float64"):
        triad(a, a, wide, 1.0, 1)
    with pytest.raises(ValueError, match=r"b is torch.float32, not contiguous"):
        triad(a, torch.ones(16)[::2], a, 1.0, 1)
