"""Edges are sorted by destination, then source, then input order; long ranges are computed piece by piece."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.csr import Csr, csr_from_edges
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


@contextmanager
def memory_below(most: int) -> Iterator[None]:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < most


def test_a_range_of_edges_takes_memory_by_its_own_number() -> None:
    matrix = Csr(np.arange(0, 200_001, 10, dtype=np.int32), np.arange(200_000, dtype=np.int32), (20_000, 200_000))
    with memory_below(1 << 14):
        sources, destinations = matrix.edges(995, 1012)
    assert sources.tolist() == list(range(995, 1012)) and destinations.tolist() == [99] * 5 + [100] * 10 + [101] * 2


@pytest.mark.parametrize("numbered", [True, False])
def test_selected_rows_keep_their_edges_and_take_memory_by_their_own_number(numbered: bool) -> None:
    rows, degree = 20_000, 10
    columns = np.random.default_rng(0).integers(0, rows, rows * degree)
    matrix = Csr(np.arange(rows + 1) * degree, columns, (rows, rows), np.arange(rows * degree)[::-1])
    matrix = matrix if numbered else replace(matrix, edge_ids=None)
    with memory_below(1 << 14):
        selected, positions = matrix.rows(np.array([7, 0, 7]))
    assert np.array_equal(positions, np.concatenate([np.arange(row * 10, row * 10 + 10) for row in (7, 0, 7)]))
    assert np.array_equal(selected.indices, columns[positions]) and np.array_equal(selected.ids, matrix.ids[positions])
    assert selected.indptr.tolist() == [0, 10, 20, 30] and selected.shape == (3, rows)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 20))
def test_chunks_are_the_range_in_order(first: int, count: int, chunk: int) -> None:
    pieces = by_chunks(lambda ids: ids, first, first + count, chunk)
    assert np.array_equal(np.concatenate([np.empty(0, np.int64), *pieces]), np.arange(first, first + count))
    assert all(len(piece) <= chunk for piece in pieces)
