"""Slices together are the matrix, each edge once; rows that travel are those that are needed."""

import timeit
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.ablation import resolve
from backends.base.layered_trainer import LayeredTrainer
from backends.batches import BatchPlan
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.layout import RankLayout, replications
from backends.blocksparse.pieces import pieces_of
from backends.blocksparse.slices import Cut, cut
from backends.model import ModelSpec, TrainingSpec
from datasets.adjacency import adjacency_of
from datasets.order import apply_order, permutation_of, renumbering_of
from datasets.order.bounds import BOUNDS
from datasets.registry import load_dataset
from tests.graphs import awkward_graph


@st.composite
def cuts(draw):
    graph = awkward_graph(draw(st.integers(0, 50)), nodes=draw(st.integers(8, 40)), edges=draw(st.integers(0, 200)))
    ranks = draw(st.integers(1, 8))
    layout = RankLayout(ranks, draw(st.sampled_from(replications(ranks))))
    return graph, layout, draw(st.sampled_from(sorted(BOUNDS))), draw(st.sampled_from(["broadcast", "halo"]))


def parts_of(graph, layout, bounds, exchange, model="gcn"):
    adjacency = adjacency_of(graph, model)
    return adjacency, *cut(graph, adjacency, layout, BOUNDS[bounds](adjacency.csr, layout.blocks), exchange, None)


@settings(max_examples=60)
@given(cuts())
def test_slices_hold_every_edge_once_and_receive_the_rows_of_their_columns(case):
    graph, layout, _, exchange = case
    adjacency, parts, slices = parts_of(*case)
    whole = np.zeros(adjacency.csr.shape)
    np.add.at(whole, (adjacency.csr.destinations, adjacency.csr.indices), adjacency.weight)
    total = np.zeros_like(whole)
    for rank, part in enumerate(slices):
        block, column = layout.place(rank)
        # the rows that arrive, block after block: each owner sends what it lists for this rank
        owners = range(layout.blocks)
        sent = [np.asarray(slices[layout.rank_of(owner, column)].sent[block], dtype=np.int64) for owner in owners]
        received = [parts.bounds[owner] + sent[owner] for owner in owners]
        assert tuple(map(len, received)) == part.incoming
        columns = np.concatenate(received)
        rows = parts.own_rows(rank)
        np.add.at(total, (part.csr.destinations + rows.start, columns[part.csr.indices]), part.weight)
        assert np.array_equal(part.features, graph.features[rows]) and np.array_equal(
            part.nodes, np.arange(graph.nodes)[rows]
        )
        if exchange == "halo":
            assert len(np.unique(part.csr.indices)) == part.csr.shape[1]
    assert np.allclose(total, whole)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_nodes_are_those_of_the_ranks_that_hold_their_rows(rows, random):
    bounds = np.concatenate(([0], np.cumsum(rows)))  # of which some blocks are empty
    layout = RankLayout(2 * len(rows), 2) if len(rows) > 1 else RankLayout(1)
    nodes = np.array([random.randrange(int(bounds[-1])) for _ in range(20 if bounds[-1] else 0)], dtype=np.int64)
    parts = Cut(layout, bounds, (), (), ())
    for rank, places in enumerate(parts.places(nodes)):
        own = parts.own_rows(rank)
        expected = np.flatnonzero((nodes >= own.start) & (nodes < own.stop)) if layout.place(rank)[1] == 0 else []
        assert places.tolist() == list(expected)
    answers = [nodes[places, None].astype(np.float32) for places in parts.places(nodes)]
    assert parts.gathered(nodes, answers)[:, 0].tolist() == nodes.tolist()


def test_the_nodes_of_many_ranks_are_found_without_a_pass_over_all_for_each():
    nodes, seconds = np.arange(200_000), []
    for ranks in (1, 1000):
        parts = Cut(RankLayout(ranks), np.linspace(0, len(nodes), ranks + 1).astype(np.int64), (), (), ())
        seconds.append(min(timeit.repeat(lambda parts=parts: parts.places(nodes), number=1, repeat=3)))
    assert seconds[1] < 50 * seconds[0]


@pytest.mark.parametrize("bounds", sorted(BOUNDS))
@pytest.mark.parametrize("exchange", ["broadcast", "halo"])
@pytest.mark.parametrize("layout", [RankLayout(4), RankLayout(8, 2)], ids=["1D", "1.5D"])
def test_an_order_inside_the_blocks_changes_no_count_of_rows_that_travel(layout, exchange, bounds):
    graph = awkward_graph(3, nodes=300, edges=4000)
    order, cuts, _ = renumbering_of("blockwise", graph.csr, {"inner": "rcm", "blocks": layout.blocks, "bounds": bounds})
    counts = []
    for part in (graph, apply_order(graph, order)):
        adjacency = adjacency_of(part, "gcn")
        whole, slices = cut(part, adjacency, layout, cuts, exchange, None)
        counts.append((whole.received, [rank.incoming for rank in slices], whole.edges))
    assert counts[0] == counts[1] and sum(counts[0][0]) > 0


def test_whole_blocks_take_no_memory_for_their_numbers():
    graph, layout = awkward_graph(1, nodes=200_000, edges=100), RankLayout(32)
    adjacency = adjacency_of(graph, "gcn")
    tracemalloc.start()
    _, slices = cut(graph, adjacency, layout, BOUNDS["rows"](adjacency.csr, 32), "broadcast", None)
    traced = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert sum(slices[0].incoming) == 200_000
    assert traced < 32 * 200_000 * 8, "the numbers of all rows for each rank"


def test_one_slice_is_that_of_all_and_takes_no_memory_for_the_others():
    graph = awkward_graph(1, nodes=600, edges=200_000)
    adjacency, layout = adjacency_of(graph, "gcn"), RankLayout(32)
    task = graph, adjacency, layout, BOUNDS["edges"](adjacency.csr, 32), "halo", None
    peaks, results = [], []
    for only in (None, 5):
        tracemalloc.start()
        results.append(cut(*task, only))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    (whole, slices), (again, (part,)) = results
    assert whole.bytes == again.bytes and whole.edges == again.edges and whole.received == again.received
    assert part.incoming == slices[5].incoming and np.array_equal(part.csr.indices, slices[5].csr.indices)
    assert all(np.array_equal(one, other) for one, other in zip(part.sent, slices[5].sent, strict=True))
    assert peaks[1] < peaks[0] / 2


@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float64", 8)])
def test_weights_have_the_trainings_type_and_count_its_bytes(model, dtype, size):
    graph, config = awkward_graph(1), BlocksparseConfig(ranks=2)
    trainer = LayeredTrainer(resolve(config, []))
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes)
    trainer.set_task(graph, spec, TrainingSpec(dtype=dtype, threads=1), BatchPlan(graph.nodes_of("train")))
    pieces = pieces_of(trainer, graph, trainer.config, config.layout(graph.nodes))
    for part, total in zip(pieces.slices, pieces.cut.bytes, strict=True):
        assert part.weight.dtype == dtype
        others = part.csr.indptr, part.csr.indices, part.features
        assert total == part.csr.nnz * size + sum(array.nbytes for array in others)
    if model == "sage":
        in_degrees = np.maximum(graph.csr.in_degrees, 1)[graph.csr.destinations]
        weights = np.concatenate([part.weight for part in pieces.slices])
        assert np.array_equal(weights, (1.0 / in_degrees).astype(dtype))


@pytest.mark.real_data
@pytest.mark.parametrize(("name", "clusters", "most"), [("ego_twitter", None, 0.25), ("cnr_2000", 8, 0.03)])
def test_after_metis_the_halo_is_a_small_part_of_the_broadcast(name, clusters, most, cache_folder):
    graph = load_dataset(name, {}, cache_folder)
    options = {} if clusters is None else {"cluster": -(-graph.nodes // clusters)}
    ordered = apply_order(graph, permutation_of("metis", graph.csr, options))
    layout = RankLayout(8)
    received = {}
    for exchange in ("broadcast", "halo"):
        received[exchange] = max(parts_of(ordered, layout, "rows", exchange)[1].received)
    assert received["broadcast"] == graph.nodes - graph.nodes // 8
    assert received["halo"] <= most * received["broadcast"]


@pytest.mark.real_data
def test_metis_leaves_blocks_of_equal_rows_uneven_and_bounds_by_edges_even(cache_folder):
    graph = load_dataset("cnr_2000", {}, cache_folder)
    ordered = apply_order(graph, permutation_of("metis", graph.csr))

    def imbalance(ranks, replication, bounds):
        return parts_of(ordered, RankLayout(ranks, replication), bounds, "halo")[1].imbalance

    assert imbalance(4, 2, "rows") > 1.5  # figure 5: whole-graph METIS in 1.5D
    assert imbalance(8, 1, "edges") <= 1.1
