"""Edges are sorted by destination, then source, then input order; long ranges are computed piece by piece."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from datasets.csr import csr_from_edges
from datasets.synthetic.chunks import by_chunks


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 60), st.integers(0, 99))
def test_edges_are_sorted_and_parallel_ones_stay_in_input_order(rows: int, columns: int, edges: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    sources, destinations = draw.integers(0, columns, edges), draw.integers(0, rows, edges)
    expected = np.lexsort((np.arange(edges), sources, destinations))
    matrix = csr_from_edges(sources, destinations, (rows, columns))
    assert np.array_equal(matrix.ids, expected)
    assert np.array_equal(matrix.indices, sources[expected])
    assert np.array_equal(np.diff(matrix.indptr), np.bincount(destinations, minlength=rows))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 20))
def test_chunks_are_the_range_in_order(first: int, count: int, chunk: int) -> None:
    pieces = by_chunks(lambda ids: ids, first, first + count, chunk)
    assert np.array_equal(np.concatenate([np.empty(0, np.int64), *pieces]), np.arange(first, first + count))
    assert all(len(piece) <= chunk for piece in pieces)
