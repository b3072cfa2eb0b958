"""Blocks of rows and orders inside them: nothing crosses a bound, every block is ordered as if it were alone."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.csr import Csr, csr_from_edges
from datasets.graph import Graph
from datasets.order import apply_order, permutation_of, renumbering_of
from datasets.order.blockwise import diagonal_block
from datasets.order.bounds import BOUNDS, edge_bounds, row_bounds
from datasets.refusal import OrderRefused


@st.composite
def matrices(draw: st.DrawFn) -> Csr:
    nodes, edges = draw(st.integers(1, 50)), draw(st.integers(0, 200))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    skew = draw(st.sampled_from([1, 4]))
    sources, destinations = (nodes * random.random((2, edges)) ** skew).astype(np.int64)
    return csr_from_edges(sources, destinations, (nodes, nodes))


def edges_per_block(csr: Csr, bounds: np.ndarray) -> np.ndarray:
    """Number of edges of every pair of blocks."""
    blocks = len(bounds) - 1
    places = (np.searchsorted(bounds[1:], ends, side="right") for ends in (csr.destinations, csr.indices))
    rows, columns = places
    return np.bincount(rows * blocks + columns, minlength=blocks**2).reshape(blocks, blocks)


@given(csr=matrices(), data=st.data(), name=st.sampled_from(sorted(BOUNDS)))
def test_bounds_cut_all_rows_into_blocks_of_at_least_one(csr: Csr, data: st.DataObject, name: str) -> None:
    blocks = data.draw(st.integers(1, csr.shape[0]))
    bounds = BOUNDS[name](csr, blocks)
    assert bounds.dtype == np.int64 and len(bounds) == blocks + 1
    assert bounds[0] == 0 and bounds[-1] == csr.shape[0] and (np.diff(bounds) >= 1).all()
    if name == "rows":
        assert np.ptp(np.diff(bounds)) <= 1


@given(csr=matrices(), data=st.data())
def test_blocks_of_equal_edges_are_off_by_one_row_at_most(csr: Csr, data: st.DataObject) -> None:
    blocks = data.draw(st.integers(1, max(1, csr.shape[0] // 8)))
    edges = csr.indptr[edge_bounds(csr, blocks)]
    largest = csr.in_degrees.max(initial=0)
    if largest * blocks <= csr.nnz:  # else rows that are as large as a block, or blocks without an edge, decide
        assert np.abs(np.diff(edges) - csr.nnz / blocks).max() <= largest + 1


@given(csr=matrices(), data=st.data(), bounds=st.sampled_from(sorted(BOUNDS)))
def test_no_node_leaves_its_block_and_blocks_keep_their_edges(csr: Csr, data: st.DataObject, bounds: str) -> None:
    blocks = data.draw(st.integers(1, csr.shape[0]))
    inner = data.draw(st.sampled_from(["random", "degree", "rcm"]))
    order, cuts, _ = renumbering_of("blockwise", csr, {"inner": inner, "blocks": blocks, "bounds": bounds}, 3)
    np.testing.assert_array_equal(cuts, BOUNDS[bounds](csr, blocks))
    moved = apply_order(Graph("moved", csr), order).csr
    np.testing.assert_array_equal(edges_per_block(moved, cuts), edges_per_block(csr, cuts))
    for begin, end in pairwise(cuts):
        inside = order[begin:end] - begin
        np.testing.assert_array_equal(inside, permutation_of(inner, diagonal_block(csr, begin, end), {}, 3))


@given(csr=matrices(), data=st.data())
def test_a_diagonal_block_is_the_one_of_the_dense_matrix(csr: Csr, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, csr.shape[0] - 1))
    end = data.draw(st.integers(begin, csr.shape[0]))

    def dense(matrix: Csr) -> np.ndarray:
        out = np.zeros(matrix.shape)
        np.add.at(out, (matrix.destinations, matrix.indices), 1)
        return out

    np.testing.assert_array_equal(dense(diagonal_block(csr, begin, end)), dense(csr)[begin:end, begin:end])


def test_equal_rows_are_floors_and_equal_edges_follow_a_hub() -> None:
    assert row_bounds(Csr(np.zeros(11, dtype=np.int64), np.zeros(0, dtype=np.int64), (10, 10)), 4).tolist() == [
        0,
        2,
        5,
        7,
        10,
    ]
    hub = csr_from_edges(
        np.r_[np.zeros(90), np.arange(10)].astype(int), np.r_[np.zeros(90), np.arange(10)].astype(int), (10, 10)
    )
    assert edge_bounds(hub, 2).tolist() == [0, 1, 10]
    assert edge_bounds(hub, 4).tolist() == [0, 1, 4, 7, 10]  # those after the hub share what is left
    assert edge_bounds(csr_from_edges(np.zeros(0, int), np.zeros(0, int), (10, 10)), 4).tolist() == [0, 3, 5, 8, 10]


@given(st.integers(1, 2000), st.integers(2, 12), st.integers(0, 2000), st.integers(0, 10_000))
def test_blocks_beside_a_hub_share_what_it_leaves(others: int, blocks: int, place: int, edges: int) -> None:
    in_degrees = np.ones(others + 1, dtype=np.int64)
    in_degrees[place % (others + 1)] += edges
    indptr = np.concatenate(([0], np.cumsum(in_degrees)))
    csr = Csr(indptr, np.zeros(indptr[-1], dtype=np.int64), (others + 1, others + 1))
    blocks = min(blocks, others + 1)
    bounds, most = edge_bounds(csr, blocks), 1.5 * others / (blocks - 1) + 3  # half a share beside the hub's block
    assert np.diff(bounds).max() <= most
    assert np.diff(indptr[bounds]).max() <= edges + most


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": 0}, "blocks=0 is not allowed for 3 rows: give a whole number from 1 to 3"),
        ({"blocks": 4}, "blocks=4 is not allowed for 3 rows: give a whole number from 1 to 3"),
        ({"blocks": 1.5}, "order.options.blocks=1.5 is not allowed: give a whole number"),
        ({"bounds": "row"}, "bounds 'row' is unknown: allowed are rows, edges; did you mean 'rows'"),
        ({"inner": "blockwise"}, "name the order of a block"),
        ({"inner": "rcn"}, "did you mean 'rcm'"),
        ({"inner": "rcm", "options": {"cluster": 3}}, "'cluster' is unknown"),
    ],
)
def test_misuse_says_what_is_allowed(options: dict[str, object], message: str) -> None:
    csr = csr_from_edges(np.array([0, 1]), np.array([1, 2]), (3, 3))
    with pytest.raises(ValueError, match=message):
        permutation_of("blockwise", csr, options)


@pytest.mark.parametrize(("blocks", "refused"), [(4, True), (0, False), (1.5, False)])
def test_more_blocks_than_nodes_are_refused_for_the_graph_and_a_wrong_number_for_every_graph(
    blocks: Any, refused: bool
) -> None:
    csr = csr_from_edges(np.array([0, 1]), np.array([1, 2]), (3, 3))
    with pytest.raises(ValueError) as raised:
        permutation_of("blockwise", csr, {"blocks": blocks})
    assert isinstance(raised.value, OrderRefused) == refused


def test_inductive_data_sets_are_refused() -> None:
    csr = csr_from_edges(np.array([0, 1]), np.array([1, 2]), (3, 3))
    with pytest.raises(OrderRefused, match="the data set is inductive"):
        permutation_of("blockwise", csr, {}, inductive=True)
