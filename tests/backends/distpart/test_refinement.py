"""Refinement of the parts that nodes are in: into the bounds first, then fewer cut edges or rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels.extension import extension
from backends.kernels.partition import UndirectedGraph
from harness.measure.partition_quality import quality_of
from tests.backends.distpart.plain_graphs import graph_of, grid, task_of

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def test_nodes_that_wait_for_room_in_a_full_part_get_it_in_turn():
    size, count = 30, 6
    members = np.arange(size * count).reshape(count, size)
    pairs = np.concatenate([np.stack(np.meshgrid(row, row), axis=-1).reshape(-1, 2) for row in members])
    graph = graph_of(*pairs.T, size * count)
    fine = UndirectedGraph.of(graph.csr, np.ones((graph.nodes, 1)), 1)
    parts = np.repeat(np.arange(count), size).astype(np.int32)
    moved = members[:, :10]
    parts[moved.reshape(-1)] = np.roll(parts[moved], 1, axis=0).reshape(-1)  # a ring of parts: no two can swap
    fine.refine(parts, count, np.array([size + 1]), 1)
    assert fine.cut_of(parts) == 0


def test_refinement_lowers_the_cut_and_keeps_the_bounds():
    graph = grid(40)
    fine = UndirectedGraph.of(graph.csr, np.ones((graph.nodes, 1)), 1)
    task = task_of(graph, 4)
    parts = np.random.default_rng(1).permutation(np.arange(graph.nodes) % 4).astype(np.int32)
    before = quality_of(graph, task, parts.astype(np.int64))["cut"]
    loads = fine.refine(parts, 4, task.bounds, 1)
    np.testing.assert_array_equal(loads[:, 0], np.bincount(parts, minlength=4))
    assert loads.max() <= task.bounds[0]
    assert quality_of(graph, task, parts.astype(np.int64))["cut"] < 0.5 * before


@given(st.integers(0, 2**32 - 1), st.integers(4, 120), st.integers(1, 8), st.integers(2, 6))
@settings(max_examples=60)
def test_refinement_under_the_volume_never_raises_it(seed, nodes, degree, count):
    draw = np.random.default_rng(seed)
    graph = graph_of(*draw.integers(0, nodes, (2, nodes * degree)), nodes)
    fine = UndirectedGraph.of(graph.csr, np.ones((nodes, 1)), 2, directions=True)
    task, start = task_of(graph, count), draw.integers(0, count, nodes).astype(np.int32)
    volumes = []
    for volume in (False, True):
        parts = start.copy()
        loads = fine.refine(parts, count, task.bounds, 2, volume=volume)
        np.testing.assert_array_equal(loads[:, 0], np.bincount(parts, minlength=count))
        volumes.append(quality_of(graph, task, parts.astype(np.int64))["volume"])
    assert volumes[1] <= volumes[0]


@given(nodes=st.integers(1, 40), edges=st.integers(0, 300), count=st.integers(1, 5), threads=st.integers(1, 2))
def test_the_cut_is_the_weight_of_edges_between_parts(nodes, edges, count, threads):
    random = np.random.default_rng(nodes * 1000 + edges)
    graph = graph_of(*random.integers(0, nodes, (2, edges)), nodes)
    fine = UndirectedGraph.of(graph.csr, np.ones((nodes, 1)), 1)
    weighted = replace(fine, edge_weights=random.integers(1, 9, len(fine.neighbours)))
    parts = random.integers(0, count, nodes).astype(np.int32)
    between = np.repeat(parts, np.diff(fine.starts)) != parts[fine.neighbours]
    assert fine.cut_of(parts, threads) == np.count_nonzero(between) // 2
    assert weighted.cut_of(parts, threads) == int(weighted.edge_weights[between].sum()) // 2


@pytest.mark.parametrize("count", [3, 200])
@pytest.mark.parametrize("constraints", [1, 2])
def test_nodes_of_one_part_are_spread_over_all_within_the_bounds(count, constraints):
    graph = grid(50)
    weights = np.ones((graph.nodes, constraints), dtype=np.int64)
    bounds = task_of(graph, count, weights).bounds
    parts = np.full(graph.nodes, count - 1, dtype=np.int32)
    loads = UndirectedGraph.of(graph.csr, weights, 1).refine(parts, count, bounds, 2)
    np.testing.assert_array_equal(loads[:, 0], np.bincount(parts, minlength=count))
    assert (loads <= bounds).all()


def test_a_part_that_is_full_in_one_load_exchanges_nodes_for_those_of_another_load():
    nodes = 400
    heavy = np.arange(nodes) < nodes // 2
    weights = np.stack([np.ones(nodes), np.where(heavy, 3, 1)], axis=1).astype(np.int64)
    fine = UndirectedGraph.of(graph_of([], [], nodes).csr, weights, 1)
    parts = np.where(heavy, 0, 1).astype(np.int32)  # as many nodes in both: no part has room for a third of the surplus
    loads = fine.refine(parts, 2, np.array([206, 412]), 1)
    np.testing.assert_array_equal(loads, [weights[parts == part].sum(0) for part in (0, 1)])
    assert (loads <= [206, 412]).all()


def test_a_refined_random_graph_has_little_left_to_gain():
    draw, nodes, count = np.random.default_rng(0), 4000, 8
    graph = graph_of(*draw.integers(0, nodes, (2, 6 * nodes)), nodes)
    fine = UndirectedGraph.of(graph.csr, np.ones((nodes, 1)), 1)
    parts = draw.permutation(np.arange(nodes) % count).astype(np.int32)
    bounds = task_of(graph, count).bounds
    fine.refine(parts, count, bounds, 1)
    cut = fine.cut_of(parts)
    fine.refine(parts, count, bounds, 1)
    assert fine.cut_of(parts) > 0.98 * cut, "a single climb leaves .05"
