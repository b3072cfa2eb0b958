"""Density, tile histogram and degree summary against counts on a dense matrix."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import statistics
from datasets.csr import Csr, csr_from_edges
from datasets.statistics import TILE_BOUNDS, degree_summary, density, graph_statistics, tile_histogram


@st.composite
def matrices(draw: st.DrawFn) -> Csr:
    rows, columns, edges = draw(st.integers(1, 70)), draw(st.integers(1, 70)), draw(st.integers(0, 300))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    return csr_from_edges(random.integers(columns, size=edges), random.integers(rows, size=edges), (rows, columns))


@given(matrices(), st.sampled_from([1, 3, 8, 32]), st.sampled_from([7, 40, 1 << 22]))
def test_tile_histogram_is_the_count_of_a_dense_matrix(csr: Csr, tile: int, chunk: int) -> None:
    before, statistics._CHUNK = statistics._CHUNK, chunk
    try:
        histogram = tile_histogram(csr, tile)
    finally:
        statistics._CHUNK = before
    expected, tops = dict.fromkeys(histogram, 0), (1, 2, 5, 10, 20, 35, 50, 75, np.inf)
    dense = np.zeros(csr.shape, dtype=np.int64)
    np.add.at(dense, (csr.destinations, csr.indices), 1)
    for row in range(0, csr.shape[0], tile):
        for column in range(0, csr.shape[1], tile):
            edges = int(dense[row : row + tile, column : column + tile].sum())
            per_cent = 100 * edges / tile**2
            name = next(n for n, top in zip(expected, tops, strict=True) if per_cent < top)
            expected[name] += edges
    for name, edges in expected.items():
        assert histogram[name] == pytest.approx(edges / max(csr.nnz, 1))
    assert density(csr) == pytest.approx(dense.sum() / dense.size)


def test_summary_of_a_star() -> None:
    csr = csr_from_edges(np.arange(1, 200), np.zeros(199, dtype=np.int64), (200, 200))
    summary = json.loads(json.dumps(graph_statistics(csr)))
    degrees = summary["degrees"]
    assert (degrees["min"], degrees["median"], degrees["max"]) == (0, 0, 199)
    assert degrees["zero"] == pytest.approx(199 / 200) and degrees["top_1_percent"] == 1
    assert summary["density"] == 199 / 200**2
    assert summary["tiles"] == pytest.approx(dict.fromkeys(TILE_BOUNDS, 0) | {"<1": 8 / 199, "2-5": 191 / 199})


def test_statistics_of_nothing_are_zero() -> None:
    empty = csr_from_edges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), (0, 0))
    assert density(empty) == 0 and set(tile_histogram(empty).values()) == {0.0}
    assert degree_summary(empty)["max"] == 0
    with pytest.raises(ValueError, match="tile 0"):
        tile_histogram(empty, 0)
