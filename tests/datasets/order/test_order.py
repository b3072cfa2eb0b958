"""Orders are permutations; applying one loses nothing and can be undone."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from datasets.csr import Csr, csr_from_edges
from datasets.graph import Graph
from datasets.order import ORDERS, apply_order, order_names, permutation_of, undo
from datasets.statistics import tile_histogram
from datasets.synthetic.lookalike.loader import load as load_lookalike

CONF = Path(__file__).resolve().parents[3] / "conf" / "order"
SMALL = {"metis": {"cluster": 4}, "blockwise": {"inner": "degree", "blocks": 1}}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes, edges = draw(st.integers(1, 40)), draw(st.integers(0, 120))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    sources, destinations = random.integers(nodes, size=(2, edges))
    keep = sources != destinations
    csr = csr_from_edges(sources[keep], destinations[keep], (nodes, nodes))
    return Graph(
        name="random",
        csr=csr,
        features=random.normal(size=(nodes, 3)).astype(np.float32),
        labels=random.integers(0, 4, nodes),
        split=random.integers(0, 4, nodes).astype(np.int8),
        graph_ids=random.integers(0, 2, nodes).astype(np.int32),
        node_ids=random.permutation(1000)[:nodes] if draw(st.booleans()) else None,
        edge_weights=random.random(csr.nnz).astype(np.float32),
        edge_features=random.random((csr.nnz, 2)).astype(np.float32),
    )


def ring(nodes: int) -> Csr:
    """A cycle whose ids are shuffled: the simplest graph whose locality an order can restore."""
    ids = np.random.default_rng(0).permutation(nodes)
    return csr_from_edges(np.r_[ids, np.roll(ids, 1)], np.r_[np.roll(ids, 1), ids], (nodes, nodes))


def bandwidth(csr: Csr) -> int:
    return int(np.abs(csr.indices.astype(np.int64) - csr.destinations).max())


def edges_of(graph: Graph) -> list[tuple[int, int, int, float, float]]:
    """Every edge by original node ids: source, destination, edge id, weight and a feature."""
    original = np.arange(graph.nodes) if graph.node_ids is None else graph.node_ids
    ends = original[graph.csr.indices], original[graph.csr.destinations]
    assert graph.edge_weights is not None and graph.edge_features is not None
    return sorted(zip(*ends, graph.csr.ids, graph.edge_weights, graph.edge_features[:, 1], strict=True))


@pytest.mark.parametrize("name", ORDERS)
@given(graph=graphs(), seed=st.integers(0, 5))
def test_orders_are_seeded_permutations(name: str, graph: Graph, seed: int) -> None:
    order = permutation_of(name, graph.csr, SMALL.get(name), seed)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(graph.nodes))
    np.testing.assert_array_equal(order, permutation_of(name, graph.csr, SMALL.get(name), seed))


@pytest.mark.parametrize("name", ORDERS)
@given(graph=graphs())
def test_a_reordered_graph_is_the_same_graph(name: str, graph: Graph) -> None:
    order = permutation_of(name, graph.csr, SMALL.get(name), 1)
    moved = apply_order(graph, order)
    assert edges_of(moved) == edges_of(graph)
    assert sorted(moved.csr.in_degrees) == sorted(graph.csr.in_degrees)
    for field in ("features", "labels", "split", "graph_ids"):
        np.testing.assert_array_equal(undo(getattr(moved, field), order), getattr(graph, field))
    original = np.arange(graph.nodes) if graph.node_ids is None else graph.node_ids
    np.testing.assert_array_equal(moved.node_ids, original[order])
    key = moved.csr.destinations.astype(np.int64) * graph.nodes + moved.csr.indices
    assert (np.diff(key) >= 0).all()
    assert moved.csr.indices.dtype == graph.csr.indices.dtype


@given(graph=graphs(), seed=st.integers(0, 9))
def test_two_orders_compose(graph: Graph, seed: int) -> None:
    first, second = (np.random.default_rng(seed + turn).permutation(graph.nodes) for turn in (0, 1))
    twice = apply_order(apply_order(graph, first), second)
    once = apply_order(graph, first[second])
    np.testing.assert_array_equal(twice.csr.indices, once.csr.indices)
    np.testing.assert_array_equal(twice.csr.ids, once.csr.ids)
    np.testing.assert_array_equal(twice.node_ids, once.node_ids)


def test_degree_sorts_descending_with_ties_by_id() -> None:
    csr = csr_from_edges(np.array([1, 2, 3, 0, 0, 1]), np.array([0, 0, 0, 2, 3, 4]), (6, 6))
    np.testing.assert_array_equal(permutation_of("degree", csr), [0, 1, 2, 3, 4, 5])
    mirrored = csr_from_edges(5 - np.array([1, 2, 3, 0, 0, 1]), 5 - np.array([0, 0, 0, 2, 3, 4]), (6, 6))
    np.testing.assert_array_equal(permutation_of("degree", mirrored), [5, 2, 3, 4, 1, 0])


@given(graph=graphs())
def test_rcm_is_the_search_of_cuthill_and_mckee_reversed(graph: Graph) -> None:
    neighbours: list[set[int]] = [set() for _ in range(graph.nodes)]
    for source, destination in zip(graph.csr.indices.tolist(), graph.csr.destinations.tolist(), strict=True):
        neighbours[source].add(destination)
        neighbours[destination].add(source)

    def by_degree(nodes: Iterable[int]) -> list[int]:
        return sorted(nodes, key=lambda node: (len(neighbours[node]), node))

    order: dict[int, None] = {}
    for start in by_degree(range(graph.nodes)):
        queue = [] if start in order else [start]
        for node in queue:
            queue.extend(by_degree(neighbours[node] - set(queue)))
        order |= dict.fromkeys(queue)
    np.testing.assert_array_equal(permutation_of("rcm", graph.csr), list(order)[::-1])


def test_rcm_finds_the_band_of_a_shuffled_ring() -> None:
    csr = ring(400)
    graph = apply_order(Graph("ring", csr), permutation_of("rcm", csr))
    assert bandwidth(csr) > 100
    assert bandwidth(graph.csr) == 2


def test_metis_brings_neighbours_into_clusters() -> None:
    csr = ring(800)
    graph = apply_order(Graph("ring", csr), permutation_of("metis", csr, {"cluster": 100}))
    within = graph.csr.indices // 100 == graph.csr.destinations // 100
    assert within.mean() > 0.9
    np.testing.assert_array_equal(permutation_of("metis", csr, {"cluster": 500}), np.arange(800))


def test_clusters_in_rcms_sequence_have_their_neighbours_beside_them() -> None:
    csr = ring(2000)
    moved = {
        sequence: apply_order(Graph("ring", csr), permutation_of("metis", csr, {"cluster": 100, "sequence": sequence}))
        for sequence in ("metis", "rcm")
    }
    distance = {
        name: np.abs(graph.csr.indices // 100 - graph.csr.destinations // 100).max() for name, graph in moved.items()
    }
    assert distance["rcm"] <= 3 < distance["metis"]


def test_locality_orders_fill_tiles_that_a_random_order_leaves_empty() -> None:
    graph = load_lookalike("lookalike_archaea", {"scale": 0.005})
    dense = {
        name: sum(list(tile_histogram(apply_order(graph, permutation_of(name, graph.csr)).csr).values())[4:])
        for name in ("random", "metis", "rcm")
    }
    assert dense["random"] < 0.01  # of the edges in tiles with edges in a tenth of their cells
    assert dense["metis"] > 0.5 and dense["rcm"] > 0.1


def test_random_orders_depend_on_the_seed() -> None:
    csr = ring(50)
    other = permutation_of("random", csr, {}, 1)
    assert not np.array_equal(permutation_of("random", csr, {}, 0), other)
    np.testing.assert_array_equal(permutation_of("random", csr, {"seed": 1}, 0), other)


def test_directed_and_isolated_nodes_are_ordered_too() -> None:
    csr = csr_from_edges(np.array([0, 0, 0]), np.array([4, 4, 2]), (9, 9))
    for name in ORDERS:
        order = permutation_of(name, csr, SMALL.get(name))
        np.testing.assert_array_equal(np.sort(order), np.arange(9))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "metiss",
            {},
            "allowed are none, random, degree, rcm, metis, slashburn, blockwise, parts; did you mean 'metis'",
        ),
        (
            "metis",
            {"clusters": 3},
            "'clusters' is unknown: allowed are seed, cluster, sequence; did you mean 'cluster'",
        ),
        ("degree", {"cluster": 3}, "allowed are none"),
        ("metis", {"cluster": 0}, "cluster=0"),
        ("metis", {"sequence": "rcn"}, "allowed are metis, rcm; did you mean 'rcm'"),
    ],
)
def test_misuse_says_what_is_allowed(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        permutation_of(name, ring(9), options)


@pytest.mark.parametrize(
    ("name", "option", "value", "words"),
    [
        ("random", "seed", "abc", "a whole number"),
        ("random", "seed", 1.5, "a whole number"),
        ("metis", "cluster", "abc", "a whole number"),
        ("metis", "cluster", 150.5, "a whole number"),
        ("metis", "sequence", 0.5, "text"),
        ("slashburn", "hubs", "half", "a number"),
        ("parts", "parts", 2.5, "a whole number"),
        ("blockwise", "options", 5, "keys with values"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, option: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=f"order.options.{option}={value} is not allowed: give {words}"):
        permutation_of(name, ring(9), {option: value})


@pytest.mark.parametrize("order", [[0, 1, 1], [0, 1], [0, 1, 3], [-1, 0, 1], [0.0, 1.0, 2.0]])
def test_an_order_that_is_not_a_permutation_is_refused(order: list[float]) -> None:
    graph = Graph("ring", ring(3))
    with pytest.raises(ValueError, match=r"permutation of 3 nodes|an order of 3 nodes"):
        apply_order(graph, np.array(order))
    with pytest.raises(ValueError, match=r"permutation of 3 nodes|an order of 3 nodes"):
        undo(np.zeros((3, 2)), np.array(order))


def test_only_square_matrices_have_an_order() -> None:
    with pytest.raises(ValueError, match="square"):
        permutation_of("none", csr_from_edges(np.array([0]), np.array([1]), (2, 3)))


def test_every_order_can_be_chosen_by_name() -> None:
    written = {path.stem: yaml.safe_load(path.read_text()) for path in CONF.glob("*.yaml")}
    assert set(written) == set(order_names())
    for name, values in written.items():
        assert values["name"] == name
        permutation_of(name, ring(9), values.get("options"))


def test_node_arrays_that_are_absent_stay_absent() -> None:
    graph = replace(apply_order(Graph("ring", ring(5)), np.arange(5)[::-1]), name="turned")
    assert graph.features is None and graph.edge_weights is None and graph.node_ids is not None
