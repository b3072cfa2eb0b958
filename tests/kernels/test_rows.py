"""Rows taken out of a matrix against numpy, bit for bit, for any number of threads."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels.native import native
from backends.kernels.rows import count_sources, take_rows
from datasets.csr import Csr
from tests.kernels.matrices import hub_csr, matrices


def check(csr, rows, weight):
    kept, weights = take_rows(csr, rows, weight)
    wanted, positions = csr.rows(rows)
    np.testing.assert_array_equal(kept.indptr, wanted.indptr)
    np.testing.assert_array_equal(kept.indices, wanted.indices)
    assert kept.shape == (len(rows), csr.shape[1])
    assert (weights is None) == (weight is None)
    if weight is not None:
        assert torch.equal(weights, weight[torch.from_numpy(positions)])
    assert count_sources(kept) == len(np.unique(kept.indices))


@settings(deadline=None)
@given(matrices(), st.data(), st.sampled_from([None, torch.float32, torch.float64]), st.booleans())
def test_rows_are_taken_in_their_order(csr, data, dtype, mixed):
    rows = np.array(data.draw(st.lists(st.integers(0, csr.shape[0] - 1), max_size=20) if csr.shape[0] else st.just([])))
    weight = None if dtype is None else torch.arange(csr.nnz, dtype=dtype)
    if mixed:
        csr = Csr(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.shape)
    check(csr, rows.astype(np.int64), weight)


def test_many_rows_are_taken_by_any_number_of_threads():
    csr = hub_csr(50_000)
    rows = np.random.default_rng(0).integers(0, 500, 3000)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            check(csr, rows, torch.arange(csr.nnz, dtype=torch.float32))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("row", [-1, 500])
def test_rows_outside_the_matrix_are_refused(row):
    with pytest.raises(ValueError, match=f"row {row} is not in the matrix: allowed are 0 to 499"):
        take_rows(hub_csr(10), np.array([3, row]))


def test_columns_named_by_none_are_not_counted():
    csr = Csr(np.array([0, 3]), np.array([7, 2, 7]), (1, 9))
    assert count_sources(csr) == 2
    assert native is None or native.count_distinct(np.array([], dtype=np.int32), 0, 3) == 0
