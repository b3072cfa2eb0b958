"""Rows taken out of a matrix against numpy, bit for bit, for any number of threads."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import partition_rows, spmm
from backends.kernels.extension import extension
from backends.kernels.rows import MatrixRows, count_sources, spmm_with_own, take_rows
from datasets.csr import Csr
from tests.backends.kernels.matrices import hub_csr, matrices


def check(csr, rows, weight):
    taken_rows, weights = take_rows(csr, rows, weight)
    expected, positions = csr.rows(rows)
    np.testing.assert_array_equal(taken_rows.indptr, expected.indptr)
    np.testing.assert_array_equal(taken_rows.indices, expected.indices)
    assert taken_rows.shape == (len(rows), csr.shape[1])
    assert (weights is None) == (weight is None)
    if weight is not None:
        assert torch.equal(weights, weight[torch.from_numpy(positions)])
    assert count_sources(taken_rows) == len(np.unique(taken_rows.indices))


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
    assert extension is None or extension.count_distinct(np.array([], dtype=np.int32), 0, 3) == 0


@settings(deadline=None)
@given(st.integers(0, 99), st.sampled_from(["sum", "mean"]), st.booleans(), st.booleans())
def test_gradients_through_the_whole_are_those_of_the_rows(seed, reduce, weighted, own):
    """In any order of the rows, with and without weights and the rows' own part."""
    csr, draw = hub_csr(300), np.random.default_rng(seed)
    rows = draw.permutation(csr.shape[0])[: draw.integers(1, csr.shape[0])]
    weight = torch.from_numpy(draw.normal(size=csr.nnz)) if weighted and reduce == "sum" else None
    part, weights = take_rows(csr, rows, weight)
    x = torch.from_numpy(draw.normal(size=(csr.shape[1], 5))).requires_grad_()
    taken = MatrixRows(csr, weight, torch.from_numpy(rows))
    actual, own_rows = spmm_with_own(part, x, weights, reduce, taken, own)
    expected = spmm(Csr(part.indptr, part.indices, part.shape), x, weights, reduce)
    assert (own_rows is None) == (not own)
    ends = [torch.from_numpy(draw.normal(size=(len(rows), 5))) for _ in range(2)]
    loss, defined = (actual * ends[0]).sum(), (expected * ends[0]).sum()
    if own:
        loss, defined = loss + (own_rows * ends[1]).sum(), defined + (x.index_select(0, taken.rows) * ends[1]).sum()
    torch.testing.assert_close(loss, defined)
    torch.testing.assert_close(*(torch.autograd.grad(one, x)[0] for one in (loss, defined)))


def test_gradients_through_the_whole_do_not_depend_on_threads():
    csr, draw = hub_csr(50_000), np.random.default_rng(0)
    rows = draw.permutation(csr.shape[0])[:400]
    part, _ = take_rows(csr, rows)
    x = torch.from_numpy(draw.normal(size=(csr.shape[1], 64)).astype(np.float32)).requires_grad_()
    before, runs = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        out, own = spmm_with_own(part, x, None, "mean", MatrixRows(csr, None, torch.from_numpy(rows)), True)
        runs.append(torch.autograd.grad((out * out).sum() + (own * own).sum(), x)[0])
    torch.set_num_threads(before)
    assert all(torch.equal(run, runs[0]) for run in runs)


@settings(deadline=None)
@given(matrices(), st.integers(1, 50))
def test_pieces_are_cut_alike_with_and_without_the_extension(csr, parts):
    strided = Csr(np.repeat(csr.indptr, 2)[::2], csr.indices, csr.shape)  # not contiguous: numpy cuts it
    np.testing.assert_array_equal(partition_rows(csr, parts), partition_rows(strided, parts))
