"""Products with dense tiles equal those without: any density, direction, weight and scale."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import spmm, tiles
from backends.kernels.operand import operand
from backends.kernels.tiles import SIDE, choose_tiles, find_tiles
from datasets.csr import Csr, csr_from_edges
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
    assert parts.starts.tolist() == [0, 0, 1, 1] and parts.columns.tolist() == [64]
    assert len(parts.edges) == 512 and len(parts.rest_edges) == 100
    values, rest = parts.split(None, torch.float32)
    assert values.sum() == 512 and rest is None and set(values.tolist()) == {0.0, 1.0}
    assert len(find_tiles(operand(csr).forward, 100, 0.51).edges) == 0


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
