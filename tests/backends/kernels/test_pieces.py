"""Into how much work rows are cut: enough for all threads, whether edges, rows or columns are many."""

import numpy as np
import pytest
import torch

from backends.kernels import spmm
from backends.kernels.extension import extension
from backends.kernels.operand import Direction, pieces_of
from datasets.csr import Csr
from tests.backends.kernels.matrices import random_csr, tensor


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_rows_without_edges_are_shared_too():
    torch.set_num_threads(2)
    few = random_csr(0, 1_000_000, 1_000_000, 10)
    rows = Direction.of(few)
    assert len(rows.bounds) - 1 > 1 and rows.workers(64) > 1
    assert rows.bounds[0] == 0 and rows.bounds[-1] == 1_000_000 and np.all(np.diff(rows.bounds) > 0)


def test_there_are_some_pieces_for_each_of_many_threads():
    torch.set_num_threads(64)
    assert pieces_of(1 << 24, 1 << 20) >= 8 * 64


@pytest.mark.parametrize("threads", [2, 64])
def test_few_rows_of_many_columns_are_cut_by_columns(threads):
    pieces = pieces_of(4000, 1000)
    assert extension.product_tasks(pieces, 10_000, threads) >= min(threads, 10_000 // 256)


@pytest.mark.parametrize("width", [5, 300, 1433])
def test_cuts_by_columns_change_no_bit(width):
    csr, x, runs = random_csr(1, 60, 50, 900), tensor(1, 50, width, dtype=torch.float32), []
    for threads in (1, 2, 8):
        torch.set_num_threads(threads)
        runs.append(spmm(csr, x, tensor(2, csr.nnz, dtype=torch.float32)))
    assert all(torch.equal(runs[0], run) for run in runs[1:])
    dense = torch.zeros(60, 50, dtype=torch.float64)
    dense.index_put_((torch.from_numpy(csr.destinations).long(), torch.from_numpy(csr.indices).long()),
                     tensor(2, csr.nnz, dtype=torch.float32).double(), accumulate=True)  # fmt: skip
    torch.testing.assert_close(runs[0].double(), dense @ x.double(), rtol=1e-4, atol=1e-4)


def test_a_matrix_of_one_piece_stays_one():
    few = Csr(np.zeros(1_000_001, dtype=np.int32), np.empty(0, dtype=np.int32), (1_000_000, 1))
    whole = Direction.of(few, in_pieces=False)
    assert len(whole.bounds) == 2 and whole.workers(64) == 1
