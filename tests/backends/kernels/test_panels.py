"""Products in column panels equal those in one pass: any cut, direction, weight and number of threads."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import panels, spmm
from backends.kernels.operand import operand
from backends.kernels.panels import choose_panels, cut_panels
from datasets.csr import Csr, csr_from_edges
from tests.backends.kernels.product_forms import assert_equal_products


def random_csr(seed, rows, columns, edges, hub=0):
    draw = np.random.default_rng(seed)
    source, destination = draw.integers(0, columns, edges), draw.integers(0, rows, edges)
    if hub:
        source = np.concatenate([source, draw.integers(0, columns, hub)])
        destination = np.concatenate([destination, np.zeros(hub, dtype=np.int64)])
    return csr_from_edges(source, destination, (rows, columns))


def in_panels(csr, width, forward, backward):
    """The same matrix, its tables of that width cut into so many panels."""
    copy = Csr(csr.indptr, csr.indices, csr.shape)
    matrix = operand(copy)
    for side, columns, count in ((matrix.forward, csr.shape[1], forward), (matrix.backward, csr.shape[0], backward)):
        side.panels[width] = cut_panels(side, columns, count)
        assert side.panels[width] is not None
    return copy


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    edges=st.integers(0, 400),
    width=st.sampled_from([1, 3, 8, 16, 33, 64, 130, 300]),
    counts=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    weighted=st.booleans(),
    reduce=st.sampled_from(["sum", "mean"]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_panels_change_nothing_but_the_order_of_additions(seed, shape, edges, width, counts, weighted, reduce, dtype):
    csr = random_csr(seed, *shape, edges)
    assert_equal_products(csr, in_panels(csr, width, *counts), seed, width, weighted, reduce, dtype)


def test_hubs_are_summed_whole_and_any_threads_give_the_same_bits():
    csr = random_csr(1, 50, 3000, 5000, hub=40_000)
    x = torch.randn(3000, 24, generator=torch.Generator().manual_seed(0))
    expected, before, runs = spmm(csr, x), torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        runs.append(spmm(in_panels(csr, 24, 5, 2), x))
    torch.set_num_threads(before)
    assert torch.allclose(expected, runs[0], atol=1e-3)
    assert all(torch.equal(runs[0], run) for run in runs)


def test_columns_that_descend_cannot_be_cut():
    csr = Csr(np.array([0, 3], dtype=np.int32), np.array([4, 1, 2], dtype=np.int32), (1, 5))
    assert cut_panels(operand(csr).forward, 5, 2) is None


def test_small_tables_and_few_edges_are_not_tried(monkeypatch):
    csr = random_csr(3, 200, 200, 6000)
    assert choose_panels(csr, 16, None, False).seconds == {}
    monkeypatch.setattr(panels, "SIZES", (200 * 16 * 4 // 2, 200 * 16 * 4 // 20))
    assert set(choose_panels(csr, 16, None, False).seconds) == {1, 2}


def test_rows_of_few_edges_are_tried_in_the_most_panels_that_they_allow(monkeypatch):
    csr, table = random_csr(3, 200, 200, 6000), 200 * 16 * 4  # 5 panels have 6 edges of a row
    monkeypatch.setattr(panels, "SIZES", (table // 10, table // 20))
    assert set(choose_panels(csr, 16, None, False).seconds) == {1, 5}
    assert choose_panels(random_csr(3, 200, 200, 1500), 16, None, False).seconds == {}
    monkeypatch.setattr(panels, "SIZES", (table // 4, table // 20))
    assert set(choose_panels(csr, 16, None, False).seconds) == {1, 4}


def test_a_processors_share_of_the_last_cache_is_one_more_size(monkeypatch):
    csr, table = random_csr(3, 200, 200, 6000), 200 * 16 * 4
    monkeypatch.setattr(panels, "SIZES", (table // 2,))
    monkeypatch.setattr(panels, "last_cache_share", lambda: table // 4)
    assert set(choose_panels(csr, 16, None, False).seconds) == {1, 2, 4}


def test_the_share_of_the_last_cache_is_read_from_the_kernel(tmp_path):
    assert panels.last_cache_share(tmp_path) == 0
    caches = [("1", "32K", "0"), ("3", "32M", "0-3,64-67"), ("2", "1024K", "0,64"), ("4", "all of it", "0")]
    for number, cache in enumerate(caches):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in zip(("level", "size", "shared_cpu_list"), cache, strict=True):
            (folder / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()
    assert panels.last_cache_share(tmp_path) == 4 << 20


def test_without_weights_the_table_has_the_type_that_is_named(monkeypatch):
    csr = random_csr(3, 200, 200, 6000)
    monkeypatch.setattr(panels, "SIZES", (200 * 16 * 4 // 2,))
    assert set(choose_panels(csr, 16, None, False).seconds) == {1, 2}
    assert set(choose_panels(csr, 16, None, False, dtype=torch.float64).seconds) == {1, 4}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_fastest_cut_is_kept(monkeypatch, transposed, weighted):
    csr = random_csr(4, 300, 300, 20_000)
    monkeypatch.setattr(panels, "SIZES", (300 * 8 * 4 // 2, 300 * 8 * 4 // 4))
    weight = torch.ones(csr.nnz) if weighted else None
    side = operand(csr).backward if transposed else operand(csr).forward
    monkeypatch.setattr(panels, "GAIN", 1e9)  # any number of panels beats none
    monkeypatch.setattr(panels, "TRIAL_EDGES", 3000)  # a part of the rows
    choice = choose_panels(csr, 8, weight, transposed)
    assert choice.panels in (2, 4) and len(side.panels[8]) == choice.panels + 1
    monkeypatch.setattr(panels, "GAIN", 0.0)
    assert choose_panels(csr, 8, weight, transposed).panels == 1 and 8 not in side.panels
