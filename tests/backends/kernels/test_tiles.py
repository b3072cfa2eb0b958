"""Products with dense tiles equal those without: any density, direction, weight and scale."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import product, spmm, tiles
from backends.kernels.extension import extension
from backends.kernels.operand import operand
from backends.kernels.tiles import SIDE, choose_tiles, find_tiles
from datasets.csr import Csr, csr_from_edges
from datasets.statistics import TILE_BOUNDS, tile_histogram
from tests.backends.kernels.product_forms import assert_equal_products


def blocky_csr(seed, rows, columns, edges, blocks):
    """A random matrix with some dense squares, not all of them aligned, and parallel edges."""
    draw = np.random.default_rng(seed)
    source, destination = [draw.integers(0, columns, edges)], [draw.integers(0, rows, edges)]
    for _ in range(blocks):
        at = draw.integers(0, max(1, rows - SIDE)), draw.integers(0, max(1, columns - SIDE))
        if draw.random() < 0.7:
            at = at[0] // SIDE * SIDE, at[1] // SIDE * SIDE
        destination.append(np.minimum(at[0] + draw.integers(0, SIDE, 700), rows - 1))
        source.append(np.minimum(at[1] + draw.integers(0, SIDE, 700), columns - 1))
    return csr_from_edges(np.concatenate(source), np.concatenate(destination), (rows, columns))


def in_tiles(csr, width, threshold):
    copy = Csr(csr.indptr, csr.indices, csr.shape)
    matrix = operand(copy)
    for side, columns in ((matrix.forward, csr.shape[1]), (matrix.backward, csr.shape[0])):
        side.tiles[width] = find_tiles(side, columns, threshold)
    return copy


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(1, 140), st.integers(1, 140)),
    edges=st.integers(0, 400),
    blocks=st.integers(0, 4),
    width=st.sampled_from([1, 5, 8, 16, 33, 64, 130]),
    threshold=st.sampled_from([0.0, 0.05, 0.35, 1.0]),
    weighted=st.booleans(),
    reduce=st.sampled_from(["sum", "mean"]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_tiles_change_nothing_but_the_order_of_additions(
    seed, shape, edges, blocks, width, threshold, weighted, reduce, dtype
):
    csr = blocky_csr(seed, *shape, edges, blocks)
    assert_equal_products(csr, in_tiles(csr, width, threshold), seed, width, weighted, reduce, dtype)


def test_tiles_hold_the_dense_squares_and_the_rest_everything_else(monkeypatch):
    monkeypatch.setattr(tiles, "_CHUNK", 500)  # several chunks of row blocks
    dense = [(32 + r, 64 + c) for r in range(32) for c in range(32) if (r + c) % 2]
    sparse = [(r, 5) for r in range(100)]
    destination, source = (np.array(ends) for ends in zip(*dense, *sparse, strict=True))
    csr = csr_from_edges(source, destination, (100, 100))
    parts = find_tiles(operand(csr).forward, 100, 0.35)
    assert parts.starts.tolist() == [0, 0, 1, 1, 1] and parts.columns.tolist() == [64]
    assert len(parts.edges) == 512 and len(parts.rest_edges) == 100
    values, rest = parts.split(None, torch.float32)
    assert values.sum() == 512 and rest is None and set(values.tolist()) == {0.0, 1.0}
    assert len(find_tiles(operand(csr).forward, 100, 0.51).edges) == 0


def whole_csr(rows, columns):
    """A matrix with an edge in every cell."""
    indptr = np.arange(rows + 1, dtype=np.int32) * columns
    return Csr(indptr, np.tile(np.arange(columns, dtype=np.int32), rows), (rows, columns))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 999), st.tuples(st.integers(1, 100), st.integers(1, 100)), st.integers(0, 400), st.integers(0, 4))
def test_the_share_in_tiles_is_that_of_the_histogram_also_where_the_border_cuts_them(seed, shape, edges, blocks):
    csr = blocky_csr(seed, *shape, edges, blocks)
    histogram, bounds = tile_histogram(csr), list(TILE_BOUNDS.values())
    for number, bound in enumerate(bounds[:-1]):
        denser = sum(list(histogram.values())[number + 1 :])
        assert find_tiles(operand(csr).forward, shape[1], bound).share == pytest.approx(denser)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_dense_graph_smaller_than_a_tile_is_one(monkeypatch, transposed):
    csr = whole_csr(31, 31)
    side = operand(csr).backward if transposed else operand(csr).forward
    assert find_tiles(side, 31, 0.93).share == 1 and find_tiles(side, 31, 0.95).share == 0  # 961 of 1,024 cells
    monkeypatch.setattr(tiles, "GAIN", 1e9)
    assert choose_tiles(csr, 16, None, transposed, 0.9).share == 1 and 16 in side.tiles


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [3, 8, 33, 130])
@pytest.mark.parametrize(("rows", "columns"), [(31, 31), (33, 70), (64, 97), (95, 64), (1, 230)])
def test_tiles_that_the_border_cuts_read_and_write_nothing_beyond_it(rows, columns, width, dtype):
    parts = find_tiles(operand(whole_csr(rows, columns)).forward, columns, 1 / 1024)
    assert parts.share == 1
    values, _ = parts.split(torch.rand(rows * columns, dtype=dtype), dtype)
    x = torch.randn(columns + SIDE, width, dtype=dtype)
    x[columns:] = float("nan")
    y = torch.zeros(rows + SIDE, width, dtype=dtype)
    y[rows:] = 7.0
    arguments = parts.starts, parts.columns, values.numpy(), x[:columns].numpy()
    extension.add_tiles(*arguments, y[:rows].numpy(), 2)
    assert (y[rows:] == 7.0).all() and y[:rows].isfinite().all()
    weights = values.view(parts.starts[-1], SIDE, SIDE)
    blocks = np.repeat(np.arange(len(parts.starts) - 1), np.diff(parts.starts))
    expected = torch.zeros(-(-rows // SIDE) * SIDE, width, dtype=dtype)
    for tile, (block, first) in enumerate(zip(blocks.tolist(), parts.columns.tolist(), strict=True)):
        inside = x[first : min(columns, first + SIDE)]
        expected[block * SIDE : (block + 1) * SIDE] += weights[tile][:, : len(inside)] @ inside
    assert torch.allclose(y[:rows], expected[:rows], atol=1e-3 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("width", [8, 33, 130, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_number_of_threads_gives_the_same_bits(width, dtype):
    csr, before, runs = blocky_csr(7, 1000, 1100, 3000, 400), torch.get_num_threads(), []
    x, weight = torch.randn(1100, width, dtype=dtype), torch.rand(csr.nnz, dtype=dtype)
    upstream = torch.randn(1000, width, dtype=dtype)
    for threads in (1, 2, 3, 5):
        torch.set_num_threads(threads)
        cut = in_tiles(csr, width, 0.2)
        assert np.diff(operand(cut).forward.tiles[width].starts).max() > 4  # more than a run of tiles
        runs.append((spmm(cut, x, weight), product(cut, upstream, weight, transposed=True)))
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(run, runs[0], strict=True))


def test_new_weights_are_split_again():
    csr = blocky_csr(3, 128, 128, 100, 3)
    x, weight = torch.randn(128, 16), torch.rand(csr.nnz)
    cut = in_tiles(csr, 16, 0.3)
    for _ in range(3):
        assert torch.allclose(spmm(cut, x, weight), spmm(csr, x, weight), atol=1e-4)
        weight.mul_(2)
        weight = weight.clone() if weight.sum() > 500 else weight


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_equal_weights_are_split_once(reduce):
    csr = blocky_csr(3, 128, 128, 100, 3)
    cut, weight, x = in_tiles(csr, 16, 0.3), torch.rand(csr.nnz), torch.randn(128, 16, requires_grad=True)
    spmm(cut, x, weight, reduce)
    splits = operand(cut).forward.tiles[16].splits
    spmm(cut, x, weight, reduce)
    assert operand(cut).forward.tiles[16].splits is splits


def test_tiles_of_an_edge_each_are_not_even_tried():
    csr = blocky_csr(5, 2000, 2000, 4000, 0)
    choice = choose_tiles(csr, 16, None, False, 1 / 1024)
    assert not choice.used and choice.seconds is None and choice.inflation > 500


@pytest.mark.parametrize("transposed", [False, True])
def test_tiles_are_used_where_they_are_faster(monkeypatch, transposed):
    csr = blocky_csr(5, 320, 320, 50, 12)
    side = operand(csr).backward if transposed else operand(csr).forward
    monkeypatch.setattr(tiles, "GAIN", 1e9)
    choice = choose_tiles(csr, 16, torch.ones(csr.nnz), transposed, 0.2)
    assert choice.used and choice.share > 0.1 and 16 in side.tiles
    monkeypatch.setattr(tiles, "GAIN", 0.0)
    assert not choose_tiles(csr, 16, None, transposed, 0.2).used and 16 not in side.tiles
    assert choose_tiles(csr, 16, None, transposed, 1.1).seconds is None
    forced = choose_tiles(csr, 16, None, transposed, 0.2, trial=False)
    assert forced.used and forced.seconds is None and 16 in side.tiles
