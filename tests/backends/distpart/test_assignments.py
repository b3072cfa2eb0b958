"""Assignments of nodes to parts: valid, balanced where that is possible, equal for any threads, better than a hash."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.contract import Unsupported
from backends.distpart.config import METHODS
from backends.kernels.extension import extension
from backends.kernels.partition import UndirectedGraph
from backends.registry import config_class, runtime
from harness.measure.clock import Clock
from harness.measure.partition_quality import broken, quality_of
from tests.backends.distpart.plain_graphs import graph_of, grid, star, task_of
from tests.graphs import awkward_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")
HAS_PTSCOTCH = config_class("partitioners")(tool="ptscotch").missing() is None
NEEDS_PTSCOTCH = pytest.mark.skipif(not HAS_PTSCOTCH, reason="the programs of PT-Scotch are not installed")
OTHER_PEERS = [
    pytest.param("mtkahypar", marks=pytest.mark.needs_mtkahypar, id="mtkahypar"),
    pytest.param("kahip", marks=pytest.mark.needs_kahip, id="kahip"),
    pytest.param("ptscotch", marks=NEEDS_PTSCOTCH, id="ptscotch"),
]
ENGINES = [
    *[("distpart", {"method": method}) for method in METHODS],
    ("distpart", {"method": "fennel", "passes": 3}),
    ("partitioners", {}),
    ("partitioners", {"tool": "recursive"}),
    *[
        pytest.param(("partitioners", {"tool": tool}), marks=pytest.mark.needs_kaminpar, id=tool)
        for tool in ("kaminpar", "terapart")
    ],
    *[pytest.param(("partitioners", {"tool": tool.id}), marks=tool.marks, id=tool.id) for tool in OTHER_PEERS],
    pytest.param(("dgl", {}), marks=pytest.mark.needs_dgl, id="dgl"),
]


def assigned(graph, task, name="distpart", **options):
    engine = runtime(config_class(name)(**options), "partition")
    engine.prepare(graph, task, Clock())
    engine.partition(Clock())
    parts = engine.assignment()
    engine.close()
    assert broken(graph, task, parts) == ""
    return parts


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("parts", [1, 2, 7, 40])
@pytest.mark.parametrize("kind", ["awkward", "grid", "star", "no edges", "three nodes"])
def test_every_engine_names_one_part_for_each_node(engine, parts, kind):
    graphs = {
        "awkward": lambda: awkward_graph(1, 300, 900),
        "grid": lambda: grid(20),
        "star": lambda: star(200),
        "no edges": lambda: graph_of([], [], 50),
        "three nodes": lambda: graph_of([0, 1], [1, 2], 3),
    }
    graph = graphs[kind]()
    name, options = engine
    assigned(graph, task_of(graph, min(parts, graph.nodes)), name, **options)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 99),
    nodes=st.integers(3, 6000),
    degree=st.integers(0, 6),
    parts=st.integers(1, 12),
    constraints=st.integers(1, 3),
)
def test_multilevel_parts_do_not_depend_on_the_number_of_threads(seed, nodes, degree, parts, constraints):
    draw = np.random.default_rng(seed)
    graph = graph_of(*draw.integers(0, nodes, (2, nodes * degree)), nodes)
    weights = draw.integers(0, 3, (nodes, constraints))
    weights[:, 0] = 1
    answers = [
        assigned(graph, task_of(graph, min(parts, nodes), weights, seed=seed, threads=threads)) for threads in (1, 2, 3)
    ]
    assert all((answer == answers[0]).all() for answer in answers)


@pytest.mark.parametrize("parts", [2, 5, 16])
@pytest.mark.parametrize("make", [lambda: grid(70), lambda: star(5000), lambda: awkward_graph(4, 4000, 20_000)])
def test_nodes_are_balanced_and_the_cut_is_far_below_that_of_a_hash(make, parts):
    graph = make()
    task = task_of(graph, parts)
    ours, hashed = (quality_of(graph, task, assigned(graph, task, method=name)) for name in ("multilevel", "random"))
    assert ours["balance"][0] <= max(1.03, -(-graph.nodes // parts) * parts / graph.nodes)
    assert ours["cut"] <= 1.04 * hashed["cut"], "of a star, all but the hub's own part is cut"
    if graph.nodes == 4900:
        assert ours["cut"] < 0.1 * hashed["cut"]


@pytest.mark.parametrize("parts", [2, 8, 64])
def test_cuts_of_a_graph_without_communities_are_near_those_of_metis(parts):
    graph, cuts = grid(32, 3), {"distpart": 0, "partitioners": 0}
    for seed in range(3):
        for name in cuts:
            task = task_of(graph, parts, seed=seed)
            cuts[name] += quality_of(graph, task, assigned(graph, task, name))["cut"]
    assert cuts["distpart"] <= 1.1 * cuts["partitioners"]


def test_types_and_edges_are_balanced_together():
    graph = awkward_graph(4, 4000, 20_000)
    types = np.arange(graph.nodes) % 3
    weights = (types[:, None] == np.arange(3)).astype(np.int64)
    quality = quality_of(graph, task_of(graph, 4, weights), assigned(graph, task_of(graph, 4, weights)))
    assert max(quality["balance"]) <= 1.03


@pytest.mark.parametrize("parts", [2, 7, 16])
def test_nodes_and_edges_of_a_skewed_graph_are_balanced_together(parts):
    draw = np.random.default_rng(parts)
    nodes = 6000
    graph = graph_of(draw.integers(0, nodes, 60_000), np.minimum(draw.zipf(1.6, 60_000), nodes - 1), nodes)
    degrees = np.minimum(graph.csr.in_degrees, 300)
    weights = np.stack([np.ones(nodes), degrees, draw.random(nodes) < 0.1], axis=1).astype(np.int64)
    task = task_of(graph, parts, weights)
    assert max(quality_of(graph, task, assigned(graph, task))["balance"]) <= 1.035, "whole nodes, up to 300 edges each"


def test_a_second_load_hardly_raises_the_cut_of_a_graph_of_communities():
    draw, nodes, community = np.random.default_rng(0), 1200, 60
    source, near = draw.integers(0, nodes, 12_000), draw.random(12_000) < 0.9
    inside = source // community * community + draw.integers(0, community, 12_000)
    graph = graph_of(source, np.where(near, inside, draw.integers(0, nodes, 12_000)), nodes)
    both = np.stack([np.ones(nodes), graph.csr.in_degrees], axis=1).astype(np.int64)
    cuts = [0, 0]
    for seed in range(6):
        for place, weights in enumerate((both[:, :1], both)):
            task = task_of(graph, 2, weights, seed=seed)
            cuts[place] += quality_of(graph, task, assigned(graph, task))["cut"]
    assert cuts[1] <= 1.01 * cuts[0]


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 60),
    st.integers(0, 12),
    st.integers(1, 5),
    st.sampled_from([np.int32, np.int64]),
)
@settings(max_examples=60)
def test_the_undirected_graph_of_a_matrix_is_that_of_its_edges(seed, nodes, degree, threads, dtype):
    ends = np.random.default_rng(seed).integers(0, nodes, (2, nodes * degree))
    csr = graph_of(*ends, nodes).csr
    csr = replace(csr, indptr=csr.indptr.astype(dtype), indices=csr.indices.astype(dtype))
    weights = np.ones((nodes, 1), dtype=np.int64)
    one = UndirectedGraph.of(csr, weights, threads, directions=True)
    dense = np.zeros((nodes, nodes), dtype=np.uint8)
    dense[ends[1], ends[0]] = 1
    rows = np.repeat(np.arange(nodes), np.diff(one.starts))
    np.testing.assert_array_equal(one.directions, (dense + 2 * dense.T)[rows, one.neighbours])
    other = UndirectedGraph.from_edges(lambda: iter([tuple(ends)]), weights, 1)
    np.testing.assert_array_equal(one.starts, other.starts)
    np.testing.assert_array_equal(one.neighbours, other.neighbours)


@pytest.mark.parametrize("threads", [1, 2])
def test_contraction_keeps_all_weights_and_edges_between_clusters(threads):
    graph = awkward_graph(7, 900, 4000)
    weights = np.random.default_rng(0).integers(0, 5, (graph.nodes, 2))
    fine = UndirectedGraph.of(graph.csr, weights, threads)
    dense = np.zeros((graph.nodes, graph.nodes), dtype=np.int64)
    rows = np.repeat(np.arange(graph.nodes), np.diff(graph.csr.indptr))
    dense[rows, graph.csr.indices] = 1
    dense |= dense.T
    np.fill_diagonal(dense, 0)
    for row, (start, end) in enumerate(zip(fine.starts[:-1], fine.starts[1:], strict=True)):
        np.testing.assert_array_equal(fine.neighbours[start:end], np.flatnonzero(dense[row]))
    bounds = np.array([30, 40])
    labels = fine.clusters(bounds, 5, 3, threads)
    coarse = fine.contracted(labels, threads)
    assert coarse.nodes == labels.max() + 1 < fine.nodes
    member = (labels[:, None] == np.arange(coarse.nodes)).astype(np.int64)
    np.testing.assert_array_equal(coarse.node_weights, member.T @ weights)
    assert (coarse.node_weights <= np.maximum(bounds, weights.max(axis=0))).all()
    expected = member.T @ dense @ member
    np.fill_diagonal(expected, 0)
    weights_between = np.zeros_like(expected)
    weights_between[np.repeat(np.arange(coarse.nodes), np.diff(coarse.starts)), coarse.neighbours] = coarse.edge_weights
    np.testing.assert_array_equal(weights_between, expected)


def test_isolated_nodes_are_contracted_within_the_bounds_and_parts_they_are_in():
    graph = graph_of([0, 1], [1, 2], 5000)
    fine, parts = UndirectedGraph.of(graph.csr, np.ones((5000, 1)), 2), (np.arange(5000) % 3).astype(np.int32)
    labels = fine.clusters(np.array([10]), 5, 3, 2, parts)
    assert np.bincount(labels, minlength=5000).max() == 10
    assert len(np.unique(labels)) <= 510
    assert len(np.unique(labels * 3 + parts)) == len(np.unique(labels))


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_the_heaviest_edges_of_each_node_stay_in_both_directions(most):
    graph = awkward_graph(7, 300, 4000)
    fine = UndirectedGraph.of(graph.csr, np.ones((graph.nodes, 1)), 2)
    coarse = fine.contracted(fine.clusters(np.array([3]), 5, 3, 2), 2)

    def dense(sparse):
        matrix = np.zeros((sparse.nodes, sparse.nodes), dtype=np.int64)
        matrix[np.repeat(np.arange(sparse.nodes), np.diff(sparse.starts)), sparse.neighbours] = sparse.edge_weights
        return matrix

    before, after = dense(coarse), dense(coarse.heaviest(most, 2))
    np.testing.assert_array_equal(after, after.T)
    np.testing.assert_array_equal(after[after > 0], before[after > 0])
    for row, rest in zip(before, after, strict=True):
        heaviest = np.sort(rest[rest > 0])[::-1][:most]
        np.testing.assert_array_equal(heaviest, np.sort(row[row > 0])[::-1][:most])
    assert np.count_nonzero(after) <= 2 * most * coarse.nodes


def test_the_volume_is_lower_under_its_own_objective():
    draw = np.random.default_rng(0)
    graph = graph_of(draw.integers(0, 5000, 40_000), np.minimum(draw.zipf(1.6, 40_000), 4999), 5000)
    task = task_of(graph, 8)
    by_cut, by_volume = (replace(task, objective=objective) for objective in ("cut", "volume"))
    quality = [quality_of(graph, task, assigned(graph, asked)) for asked in (by_cut, by_volume)]
    assert quality[1]["volume"] < 0.5 * quality[0]["volume"]
    assert quality[1]["balance"][0] <= 1.03


def test_loads_of_zero_and_a_hub_of_many_neighbours_are_placed():
    empty = graph_of([], [], 50)
    for name in ("distpart", "partitioners"):
        assigned(empty, task_of(empty, 4, np.zeros((50, 1), dtype=np.int64)), name)
    leaves = star(200_000)
    assert quality_of(leaves, task_of(leaves, 8), assigned(leaves, task_of(leaves, 8)))["balance"][0] <= 1.03


def test_a_node_heavier_than_a_part_is_placed_and_the_load_is_told():
    graph = grid(10)
    weights = np.ones((graph.nodes, 1), dtype=np.int64)
    weights[17] = 1000
    task = task_of(graph, 4, weights)
    assert quality_of(graph, task, assigned(graph, task))["balance"][0] > 3


@pytest.mark.parametrize("tool", OTHER_PEERS)
def test_peers_make_as_many_parts_as_there_are_nodes(tool):
    for graph in (awkward_graph(3, 90, 200), graph_of([], [], 90), star(90)):
        weights = np.random.default_rng(0).integers(1, 6, (graph.nodes, 1))
        assigned(graph, task_of(graph, graph.nodes, weights), "partitioners", tool=tool)


@pytest.mark.needs_mtkahypar
@pytest.mark.parametrize("most", [0, 1, 5])
@pytest.mark.parametrize("parts", [1, 3, 90])
def test_mtkahypar_places_loads_of_zero(parts, most):
    for graph in (awkward_graph(3, 90, 200), graph_of([], [], 90)):
        weights = np.random.default_rng(parts).integers(0, most + 1, (graph.nodes, 1))
        assigned(graph, task_of(graph, parts, weights), "partitioners", tool="mtkahypar")


@pytest.mark.needs_kahip
def test_kahip_refuses_what_it_may_not_return_from():
    graph = grid(4)
    engine = runtime(config_class("partitioners")(tool="kahip"), "partition")
    with pytest.raises(Unsupported, match="may run forever with loads of 0"):
        engine.prepare(graph, task_of(graph, 2, np.arange(16)[:, None]), Clock())
    with pytest.raises(Unsupported, match="perfect balance"):
        engine.prepare(graph, task_of(graph, 2, imbalance=1), Clock())


@pytest.mark.parametrize("tool", OTHER_PEERS)
def test_peers_assign_a_graph_with_isolated_nodes_again_and_again(tool):
    graph = graph_of(np.arange(30), np.arange(30) + 1, 3000)
    engine = runtime(config_class("partitioners")(tool=tool), "partition")
    engine.prepare(graph, task_of(graph, 8), Clock())
    answers = []
    for _ in range(4):
        engine.partition(Clock())
        answers.append(engine.assignment())
    assert all((answer == answers[0]).all() for answer in answers)


@pytest.mark.parametrize("tool", OTHER_PEERS)
def test_peers_refuse_two_constraints_and_loads_beyond_their_integers(tool):
    graph = grid(4)
    engine = runtime(config_class("partitioners")(tool=tool), "partition")
    for columns, load, sentence in ((2, 1, "one constraint"), (1, 2**27, "adds loads up to 2147483647")):
        with pytest.raises(Unsupported, match=sentence):
            engine.prepare(graph, task_of(graph, 2, np.full((graph.nodes, columns), load, dtype=np.int64)), Clock())


@pytest.mark.needs_mtkahypar
def test_mtkahypar_refuses_other_threads_than_those_it_began_with():
    graph = grid(4)
    engine = runtime(config_class("partitioners")(tool="mtkahypar"), "partition")
    engine.prepare(graph, task_of(graph, 2), Clock())
    with pytest.raises(Unsupported, match="threads that this process began with, 1"):
        engine.prepare(graph, task_of(graph, 2, threads=2), Clock())


@pytest.mark.needs_dgl
def test_dgl_is_asked_for_the_loads_of_the_task_or_refuses_them():
    from backends.dgl.partitioner import balance_of

    graph = awkward_graph(4, 400, 3000)
    degrees, ones = graph.csr.in_degrees.astype(np.int64)[:, None], np.ones((graph.nodes, 1), dtype=np.int64)
    types = (np.arange(graph.nodes)[:, None] % 3 == np.arange(3)).astype(np.int64)

    def asked(*columns):
        return balance_of(graph, task_of(graph, 2, np.concatenate(columns, axis=1)), "metis")

    assert asked(ones) == {}
    assert asked(degrees) == {"balance_edges": True}
    assert asked(ones, degrees)["balance_edges"] and len(np.unique(asked(ones, degrees)["balance_ntypes"])) == 1
    np.testing.assert_array_equal(asked(types)["balance_ntypes"], np.arange(graph.nodes) % 3)
    np.testing.assert_array_equal(asked(types[:, :2])["balance_ntypes"], np.arange(graph.nodes) % 3)
    assert asked(types, types * degrees)["balance_edges"] and not asked(types)["balance_edges"]
    for wrong in ((ones, types), (2 * ones,), (degrees, ones), (types, types)):
        with pytest.raises(Unsupported, match="balances the nodes of classes"):
            asked(*wrong)
    for loads in ([ones, degrees], [types, types * degrees]):
        assigned(graph, task_of(graph, 3, np.concatenate(loads, axis=1)), "dgl")
    other = replace(task_of(graph, 2), imbalance=1.2)
    with pytest.raises(Unsupported, match=r"1\.03 times the mean, not scenario\.imbalance=1\.2"):
        balance_of(graph, other, "metis")
    assert balance_of(graph, other, "random") == {}


@pytest.mark.needs_dgl
def test_metis_of_dgl_balances_the_edges_that_parallel_edges_are():
    from backends.dgl.partitioner import _without_parallel_edges
    from backends.dgl.sampler import in_edges_of

    graph = awkward_graph(4, 400, 3000)
    parallel = in_edges_of(graph.csr, wide=True)
    simple = _without_parallel_edges(parallel)
    assert simple.num_edges() < parallel.num_edges()
    np.testing.assert_array_equal(simple.in_degrees(), graph.csr.in_degrees)
    np.testing.assert_array_equal(simple.in_degrees(torch.tensor([3, 1])), graph.csr.in_degrees[[3, 1]])


@pytest.mark.needs_dgl
def test_random_parts_of_dgl_follow_the_seed():
    graph = awkward_graph(4, 400, 3000)
    parts = [assigned(graph, replace(task_of(graph, 4), seed=seed), "dgl", part_method="random") for seed in (1, 1, 2)]
    assert (parts[0] == parts[1]).all() and (parts[0] != parts[2]).any()
