"""GraphTrainer from shards: merging gives back what k-hop search finds, and training is that of the graph in memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.ablation import resolve
from backends.agl.flat.local import neighbourhoods
from backends.agl.flat.source import Source
from backends.agl.flat.store import ordered
from backends.agl.flat.strategy import parse
from backends.agl.merging import merge
from backends.batches import BatchPlan
from backends.kernels import khop
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

STRATEGIES = ["full()", "uniform(4);uniform(2)", "uniform(2);uniform(3)", "weighted(3)"]


def records_of(graph, targets, strategy, folder):
    source = Source.build(graph, strategy, None, folder)
    return ordered(neighbourhoods(source, targets, strategy), source)[0]


@settings(max_examples=25)
@given(seed=st.integers(0, 99), text=st.sampled_from(STRATEGIES), hops=st.integers(1, 3), count=st.integers(1, 12))
def test_merged_records_are_the_neighbourhood_of_all_targets(seed, text, hops, count, tmp_path_factory):
    graph = awkward_graph(seed, weighted=True)
    strategy = parse(text if ";" not in text or hops == 2 else "uniform(3)", hops, "node", seed=seed)
    targets = np.random.default_rng(seed).choice(graph.nodes, count, replace=False)
    found = merge(records_of(graph, targets, strategy, tmp_path_factory.mktemp("source")), strategy.fanouts)
    wanted = khop(graph.csr, targets, strategy.fanouts, seed, "node", strategy.method, graph.edge_weights)
    assert found.held.nodes.tolist() == wanted.nodes.tolist()
    assert found.held.distance.tolist() == wanted.distance.tolist()
    assert found.held.csr.indptr.tolist() == wanted.csr.indptr.tolist()
    assert found.held.csr.indices.tolist() == wanted.csr.indices.tolist()
    assert found.held.csr.ids.tolist() == wanted.csr.ids.tolist()
    assert found.held.nodes[found.roots].tolist() == targets.tolist()


def test_records_with_samples_of_their_own_stay_apart(tmp_path):
    graph = awkward_graph(3, weighted=True)
    strategy, targets = parse("uniform(2)", 2, "target", seed=1), np.array([5, 2, 9])
    records = records_of(graph, targets, strategy, tmp_path)
    found = merge(records, strategy.fanouts, apart=True)
    assert len(found.held.nodes) == len(records.ids)
    assert sorted(found.held.csr.ids.tolist()) == sorted(records.edge_ids.tolist())
    assert found.held.nodes[found.roots].tolist() == targets.tolist()
    assert found.held.distance.tolist() == sorted(records.distance.tolist())


def trainer_of(graph, plan, model="gcn", **options):
    config = resolve(config_class("agl")(**options), [])
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes, heads=2)
    engine = runtime(config, "train")
    engine.prepare(graph, spec, TrainingSpec(), initial_state(spec, 0), plan, PlainClock())
    return engine


@pytest.mark.parametrize(
    "options", [{"features": "shared"}, {"pipeline": "false"}, {"pruning": "false"}, {"scope": "target"}]
)
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_an_epoch_of_one_batch_trains_as_from_memory(model, options):
    graph = awkward_graph(4, weighted=model == "gcn")
    plan = BatchPlan(graph.nodes_of("train"), graph.nodes)
    memory, shards = trainer_of(graph, plan, model), trainer_of(graph, plan, model, source="graphfeature", **options)
    losses = [(memory.epoch(index, PlainClock()), shards.epoch(index, PlainClock())) for index in range(3)]
    np.testing.assert_allclose(*zip(*losses, strict=True), rtol=1e-4)
    for name, value in memory.state().items():
        np.testing.assert_allclose(shards.state()[name], value, atol=1e-4, err_msg=name)
    assert shards.facts()["bytes_read"] > 0
    home = shards.home
    shards.close()
    assert not home.exists()


def test_every_target_is_trained_once_in_an_order_that_epochs_change():
    graph = awkward_graph(4)
    nodes = graph.nodes_of("train")
    shards = trainer_of(graph, BatchPlan(nodes, 3), source="graphfeature")
    orders = [[batch.targets.tolist() for batch in shards.batches(index, PlainClock())] for index in (0, 1, 0)]
    assert all(sorted(target for batch in order for target in batch) == nodes.tolist() for order in orders)
    assert orders[0] == orders[2] != orders[1]
    shards.close()


def test_a_limited_plan_flattens_what_it_trains_and_no_more():
    graph = awkward_graph(4)
    plan = BatchPlan(graph.nodes_of("train"), 3, limit=2)
    shards = trainer_of(graph, plan, source="graphfeature")
    trained = [target for batch in shards.batches(5, PlainClock()) for target in batch.targets.tolist()]
    assert shards.facts()["records"] == 6 and sorted(trained) == sorted(np.concatenate(plan.targets(0)).tolist())
    shards.close()
