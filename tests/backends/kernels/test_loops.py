"""Self loops of a batch's layer and gcn's weights, against a dense matrix; damaged matrices are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels import loops
from backends.kernels.loops import with_self_loops
from datasets.csr import Csr
from tests.graphs import awkward_graph


def dense(csr, weight):
    matrix = np.zeros(csr.shape)
    np.add.at(matrix, (csr.destinations, csr.indices), weight)
    return matrix


@pytest.mark.parametrize("native", [True, False])
@given(seed=st.integers(0, 20), rows=st.integers(0, 20), weighted=st.booleans(), wide=st.booleans())
def test_rows_begin_with_their_own_node_and_weights_are_symmetric(native, seed, rows, weighted, wide):
    graph = awkward_graph(seed, nodes=20, edges=90)
    kind, random = np.int64 if wide else np.int32, np.random.default_rng(seed)
    part, _ = graph.csr.rows(np.arange(rows))
    csr = Csr(part.indptr.astype(kind), part.indices.astype(kind), part.shape)
    scale, weights, positions = (
        random.random(20),
        random.random(200).astype(np.float32),
        random.integers(0, 200, csr.nnz),
    )
    with pytest.MonkeyPatch.context() as patch:
        if not native:
            patch.setattr(loops, "extension", None)
        looped, weight = with_self_loops(csr, scale, weights if weighted else None, positions)
        plain, none = with_self_loops(csr)
    assert none is None and np.array_equal(plain.indices, looped.indices)
    assert np.array_equal(looped.indices[looped.indptr[:-1]], np.arange(rows))
    expected = dense(csr, weights[positions].astype(float) if weighted else 1.0) + np.eye(rows, 20)
    np.testing.assert_allclose(dense(looped, weight), scale[:rows, None] * expected * scale, rtol=1e-6)


@pytest.mark.parametrize("native", [True, False])
def test_a_matrix_that_has_a_self_loop_is_refused(native, monkeypatch):
    if not native:
        monkeypatch.setattr(loops, "extension", None)
    with pytest.raises(ValueError, match=r"row 1 has an edge from 1|a row has an edge from itself"):
        with_self_loops(Csr(np.array([0, 1, 2]), np.array([1, 1]), (2, 2)))


def test_row_starts_of_another_length_are_refused():
    for indptr in ([0, 1000], [0, 1], [0, 0, 0]):
        with pytest.raises(ValueError, match=r"indptr has \d entries: \d rows need \d, up to"):
            with_self_loops(Csr(np.array(indptr), np.array([1, 0]), (1, 2)))


def test_row_starts_that_descend_are_refused():
    with pytest.raises(ValueError, match=r"indptr does not ascend from 0 to the number of edges at row [01]"):
        with_self_loops(Csr(np.array([0, 3, 1, 2]), np.array([1, 2]), (3, 3)))


@pytest.mark.parametrize("place", [-1, 2, 1 << 40])
def test_weights_at_places_that_there_are_not_are_refused(place):
    csr = Csr(np.array([0, 1, 1]), np.array([1]), (2, 2))
    with pytest.raises(ValueError, match=rf"edge 0 has its weight at {place}: allowed are 0 to 1"):
        with_self_loops(csr, np.ones(2), np.ones(2), np.array([place]))
