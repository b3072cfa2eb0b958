"""The scenario ``partition``: quality by brute force, wrong assignments, cells from start to end."""

from dataclasses import replace

import numpy as np
import pytest

from backends.contract import PartitionTask, Unsupported
from backends.kernels.extension import extension
from backends.registry import config_class
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from harness.measure import partition_quality
from harness.measure.partition_quality import broken, quality_of
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify import gate_of
from tests.graphs import awkward_graph

needs_kernels = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def quality_by_hand(graph, parts, count):
    edges = [
        (int(source), node)
        for node in range(graph.nodes)
        for source in graph.csr.indices[graph.csr.indptr[node] : graph.csr.indptr[node + 1]]
    ]
    cut = sum(parts[a] != parts[b] for a, b in edges)
    rows = {(a, parts[b]) for a, b in edges if parts[a] != parts[b]}
    owned = np.bincount(parts, minlength=count)
    halo = np.bincount([part for _, part in rows], minlength=count)
    return cut, len(rows), (owned + halo) / np.maximum(owned, 1)


@pytest.mark.parametrize("chunk", [7, 100, 1 << 20])
@pytest.mark.parametrize("flags", [1, 200, 1 << 20])
@pytest.mark.parametrize("count", [1, 3, 50])
def test_quality_equals_a_count_by_hand(count, flags, chunk, monkeypatch):
    monkeypatch.setattr(partition_quality, "_CHUNK", chunk)
    monkeypatch.setattr(partition_quality, "_FLAGS", flags)
    graph = awkward_graph(3, 60, 300)
    parts = np.random.default_rng(1).integers(0, count, graph.nodes)
    task = PartitionTask(count, np.ones((graph.nodes, 1), dtype=np.int64), 1.1, "cut", 0, 1)
    quality = quality_of(graph, task, parts)
    cut, rows, replication = quality_by_hand(graph, parts, count)
    assert (quality["cut"], quality["volume"]) == (cut, rows)
    assert quality["worst_replication"] == pytest.approx(replication.max())
    assert quality["balance"][0] == pytest.approx(np.bincount(parts).max() * count / graph.nodes)


def test_a_graph_without_edges_has_no_cut():
    empty = csr_from_edges(np.empty(0, np.int64), np.empty(0, np.int64), (5, 5))
    task = PartitionTask(2, np.ones((5, 1), dtype=np.int64), 1.1, "cut", 0, 1)
    quality = quality_of(Graph("empty", empty), task, np.array([0, 0, 0, 1, 1]))
    assert (quality["cut"], quality["cut_share"], quality["volume"], quality["empty"]) == (0, 0.0, 0, 0)


def test_broken_assignments_are_named():
    graph = awkward_graph(3)
    task = PartitionTask(2, np.ones((graph.nodes, 1), dtype=np.int64), 1.1, "cut", 0, 1)
    right = np.arange(graph.nodes) % 2
    assert broken(graph, task, right) == ""
    assert "int64 [40] is needed" in broken(graph, task, right[:-1])
    assert "node 4 is in part 2 of 2" in broken(graph, task, np.where(np.arange(40) == 4, 2, right))


@pytest.mark.parametrize("balance", [[], ["nodes", "nodess"]])
def test_loads_that_are_not_known_are_refused(balance):
    with pytest.raises(ValueError, match="some of nodes, edges, split, types"):
        ScenarioConfig("partition", balance=balance)


def cell(backend, **scenario):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("gcn"),
        training=TrainingConfig(),
        backend=backend,
        scenario=ScenarioConfig(**{"name": "partition", "parts": 3} | scenario),
        threads=2,
    )


@needs_kernels
@pytest.mark.parametrize("balance", [["types"], ["nodes", "edges_by_type"]])
@pytest.mark.parametrize("scenario", ["partition", "dispatch"])
def test_the_gate_balances_the_types_of_a_typed_graph(scenario, balance):
    graph = replace(awkward_graph(3), node_types=np.arange(40, dtype=np.int32) // 15)
    config = cell(config_class("distpart")(), name=scenario, balance=balance)
    assert gate_of(scenario)(config, graph).keys() == {"small graph in 1 parts", "small graph in 3 parts"}


@needs_kernels
@pytest.mark.needs_kahip
def test_the_gate_lets_kahip_balance_edges_where_every_node_has_some():
    edges = awkward_graph(3).csr
    ring = np.arange(edges.shape[0])
    sources = np.concatenate((edges.indices, ring))
    destinations = np.concatenate((edges.destinations, np.roll(ring, 1)))
    connected = Graph("connected", csr_from_edges(sources, destinations, edges.shape))
    config = cell(config_class("partitioners")(tool="kahip"), balance=["edges"])
    assert gate_of("partition")(config, connected)
    with pytest.raises(Unsupported, match="loads of 0"):
        gate_of("partition")(config, Graph("awkward", edges))
