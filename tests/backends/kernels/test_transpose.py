"""The compiled transpose against numpy's, bit for bit, for any number of threads."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels.extension import extension
from backends.kernels.operand import operand
from backends.kernels.transpose import Transpose, plain_transpose, transposed
from datasets.csr import Csr
from datasets.high_water import HighWater
from tests.backends.kernels.matrices import hub_csr, matrices, random_csr


def by_threads(csr, threads):
    starts = np.empty(csr.shape[1] + 1, dtype=csr.indices.dtype)
    rows, permutation, inverse = (np.empty_like(csr.indices) for _ in range(3))
    extension.transpose(csr.indptr, csr.indices, starts, rows, permutation, inverse, threads)
    return Transpose(starts, rows, permutation, inverse)


def check(actual, expected):
    for name in ("indptr", "indices", "permutation", "inverse"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), err_msg=name)
        assert getattr(actual, name).dtype == getattr(expected, name).dtype


@st.composite
def matrices_with_hubs(draw):
    """Few columns, so that several threads share the edges, empty rows, and a row with half of the edges."""
    random = np.random.default_rng(draw(st.integers(0, 999)))
    rows, columns, edges = draw(st.integers(1, 30)), draw(st.integers(1, 9)), draw(st.integers(0, 200))
    ends = random.integers(0, rows, edges) // 3 * 3  # two of three rows have none
    ends[random.random(edges) < draw(st.sampled_from([0, 0.5, 1]))] = draw(st.integers(0, rows - 1))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(ends, minlength=rows)))).astype(np.int32)
    return Csr(indptr, random.integers(0, columns, edges).astype(np.int32), (rows, columns))


@settings(deadline=None)
@given(matrices_with_hubs(), st.sampled_from([1, 2, 3, 7]))
def test_threads_that_begin_inside_of_a_row_take_each_edge_once(csr, threads):
    check(by_threads(csr, threads), plain_transpose(csr.indptr, csr.indices, csr.shape))


@settings(deadline=None)
@given(matrices(), st.sampled_from([1, 2, 3, 5, 7]))
def test_the_compiled_transpose_equals_numpys(csr, threads):
    check(by_threads(csr, threads), plain_transpose(csr.indptr, csr.indices, csr.shape))


def test_large_transposes_with_hubs_are_equal():
    for csr in (hub_csr(50_000), random_csr(1, 300, 5000, 60_000, np.int64, shuffled=True)):
        check(transposed(csr.indptr, csr.indices, csr.shape), plain_transpose(csr.indptr, csr.indices, csr.shape))


def test_memory_does_not_grow_with_the_threads_beyond_the_edges():
    csr = random_csr(1, 50, 1 << 20, 1000)
    by_threads(csr, 2)
    mark = HighWater()
    by_threads(csr, 64)
    assert mark.growth() < 8 * csr.shape[1] * csr.indices.itemsize


@settings(deadline=None)
@given(matrices())
def test_the_ways_between_the_orders_undo_each_other(csr):
    matrix = operand(csr)
    np.testing.assert_array_equal(matrix.inverse[matrix.permutation], np.arange(csr.nnz))
    np.testing.assert_array_equal(matrix.backward.indices, csr.destinations[matrix.permutation])
    np.testing.assert_array_equal(csr.indices[matrix.permutation], np.sort(csr.indices, kind="stable"))
