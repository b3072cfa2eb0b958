"""Hubs are shared among threads as other rows are: a ratio of seconds, each the best of some calls in turns."""

import time

import numpy as np
import pytest
import torch

from backends.kernels import edge_softmax, gat, sddmm, spmm
from datasets.csr import Csr

SOURCES = 200


def inner_products(csr: Csr) -> None:
    rows, sources = torch.ones(csr.shape[0], 8, 8, requires_grad=True), torch.ones(SOURCES, 8, 8)
    sddmm(csr, rows, sources).sum().backward()


CALLS = {
    "spmm": lambda csr: spmm(csr, torch.ones(SOURCES, 64)),
    "max": lambda csr: spmm(csr, torch.ones(SOURCES, 64), reduce="max"),
    "softmax": lambda csr: edge_softmax(csr, torch.ones(csr.nnz, 4)),
    "gat": lambda csr: gat(csr, torch.ones(SOURCES, 8, 8), torch.ones(SOURCES, 8), torch.ones(csr.shape[0], 8)),
    "sddmm and its gradient": inner_products,
}


def rows_of(degree: int, rows: int) -> Csr:
    indices = np.random.default_rng(0).integers(0, SOURCES, degree * rows).astype(np.int32)
    return Csr(np.arange(0, len(indices) + 1, degree, dtype=np.int32), indices, (rows, SOURCES))


def seconds(call, csrs) -> list[float]:
    least = [float("inf")] * len(csrs)
    for _ in range(7):
        for place, csr in enumerate(csrs):
            start = time.perf_counter()
            call(csr)
            least[place] = min(least[place], time.perf_counter() - start)
    return least


@pytest.mark.slow
@pytest.mark.parametrize("kernel", CALLS)
def test_rows_a_little_longer_than_a_segment_take_no_longer_than_shorter_ones(kernel):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    hubs, others = seconds(CALLS[kernel], [rows_of(33_000, 64), rows_of(32_000, 66)])
    torch.set_num_threads(before)
    assert hubs <= 1.4 * others
