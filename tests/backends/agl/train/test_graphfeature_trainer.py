"""GraphTrainer from shards: merged records equal the k-hop search, training equals that of the graph in memory."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.ablation import resolve
from backends.agl.flat import drivers
from backends.agl.flat.drivers import neighbourhoods
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.flat.shards import sort_and_join
from backends.agl.flat.source import Source
from backends.agl.graphfeature import encode
from backends.agl.train.shard_source import WorkersJob
from backends.batches import BatchPlan
from backends.kernels import graphfeatures, khop
from backends.kernels.graphfeatures import CorruptRecord, Strings, merge_records
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from datasets.features import SparseFeatures, dense_features, in_layout
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

STRATEGIES = ["full()", "uniform(4);uniform(2)", "uniform(2);uniform(4)", "uniform(2);uniform(3)", "weighted(3)"]


def in_features_layout(graph, layout):
    """The graph with its positive features alone, and a node without any."""
    features = np.where(graph.features > 0, graph.features, np.float32(0))
    features[2] = 0
    return replace(graph, features=in_layout(features, layout))


def records_of(graph, targets, strategy, folder):
    source = Source.build(graph, strategy, None, folder)
    return sort_and_join(neighbourhoods(source, targets, strategy), source)[0]


def renamed(graph, sparse):
    """The graph with ids that are far apart, and some negative, in the order of the numbers; and these ids."""
    ids = np.arange(graph.nodes) if not sparse else (np.arange(graph.nodes) - 7) * (2**57 + 11)
    return replace(graph, node_ids=ids), ids


@settings(max_examples=60)
@given(
    seed=st.integers(0, 99),
    text=st.sampled_from(STRATEGIES),
    hops=st.integers(1, 3),
    count=st.integers(1, 12),
    scope=st.sampled_from(["node", "target"]),
    needed=st.booleans(),
    sparse=st.booleans(),
    layout=st.sampled_from(["dense", "sparse"]),
)
def test_merged_records_are_the_neighbourhood_of_all_targets(
    seed, text, hops, count, scope, needed, sparse, layout, tmp_path_factory
):
    graph, ids = renamed(in_features_layout(awkward_graph(seed, weighted=True), layout), sparse)
    strategy = parse_sampling(text if ";" not in text or hops == 2 else "uniform(3)", hops, scope, seed=seed)
    targets = np.random.default_rng(seed).choice(graph.nodes, count, replace=False)
    records = records_of(graph, targets, strategy, tmp_path_factory.mktemp("source"))
    merged_records = merge_records(
        encode(records).strings,
        strategy.fanouts,
        apart=scope == "target",
        needed=needed,
        degrees="weighted_degrees",
        features=True,
        edge_weights=True,
    )
    expected = khop(
        graph.csr, targets, strategy.fanouts, seed, scope, strategy.method, graph.edge_weights, needed=needed
    )
    assert merged_records.neighbourhood.nodes.tolist() == ids[expected.nodes].tolist()
    assert merged_records.neighbourhood.distance.tolist() == expected.distance.tolist()
    assert merged_records.neighbourhood.csr.indptr.tolist() == expected.csr.indptr.tolist()
    assert merged_records.neighbourhood.csr.indices.tolist() == expected.csr.indices.tolist()
    assert merged_records.neighbourhood.csr.indices.dtype == expected.csr.indices.dtype
    assert merged_records.neighbourhood.nodes[merged_records.roots].tolist() == ids[targets].tolist()
    assert isinstance(merged_records.features, SparseFeatures) == (layout == "sparse")
    features = (dense_features(part, "a test") for part in (merged_records.features, graph.features[expected.nodes]))
    assert np.array_equal(*features)
    assert np.array_equal(merged_records.edge_weights, graph.edge_weights[expected.positions])
    weighted = np.bincount(graph.csr.destinations, weights=graph.edge_weights, minlength=graph.nodes)
    np.testing.assert_allclose(merged_records.degrees, weighted[expected.nodes])


@pytest.mark.parametrize("scope", ["node", "target"])
def test_any_number_of_threads_merges_alike(scope, tmp_path, monkeypatch):
    graph = awkward_graph(3, nodes=700, edges=9000, weighted=True)
    strategy, targets = parse_sampling("uniform(9)", 3, scope, seed=1), np.random.default_rng(0).permutation(700)[:300]
    strings = encode(records_of(graph, targets, strategy, tmp_path)).strings

    def merged(threads):
        monkeypatch.setattr(graphfeatures, "workers", lambda size, width: threads)
        wants = {"degrees": "degrees", "features": True, "edge_weights": True}
        merged_records = merge_records(strings, strategy.fanouts, apart=scope == "target", **wants)
        arrays = (
            merged_records.neighbourhood.nodes,
            merged_records.neighbourhood.csr.indptr,
            merged_records.neighbourhood.csr.indices,
            merged_records.roots,
            merged_records.degrees,
        )
        return [array.tobytes() for array in (*arrays, merged_records.features, merged_records.edge_weights)]

    assert merged(1) == merged(2) == merged(5)


@settings(max_examples=200)
@given(
    seed=st.integers(0, 20),
    at=st.integers(0, 10**6),
    byte=st.integers(0, 255),
    cut=st.booleans(),
    layout=st.sampled_from(["dense", "sparse"]),
    data=st.data(),
)
def test_damaged_records_are_merged_or_refused_by_their_place(seed, at, byte, cut, layout, data, tmp_path_factory):
    graph = in_features_layout(awkward_graph(seed, weighted=True), layout)
    strategy, targets = parse_sampling("uniform(3)", 2, "node", seed=seed), np.arange(6)
    strings = encode(records_of(graph, targets, strategy, tmp_path_factory.mktemp("source"))).strings
    strings_by_record = [bytes(string) for string in strings.split()]
    place = data.draw(st.integers(0, 5))
    at %= len(strings_by_record[place])
    strings_by_record[place] = strings_by_record[place][:at] + (
        b"" if cut else bytes([byte]) + strings_by_record[place][at + 1 :]
    )
    try:
        merge_records(
            Strings.of(strings_by_record), strategy.fanouts, degrees="degrees", features=True, edge_weights=True
        )
    except CorruptRecord as error:
        assert error.record == place or "features" in error.reason  # the first record says how wide they are


def trainer_of(graph, plan, model="gcn", **options):
    config = resolve(config_class("agl")(**options), [])
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes, heads=2)
    engine = runtime(config, "train")
    engine.prepare(graph, spec, TrainingSpec(), initial_state(spec, 0), plan, PlainClock())
    return engine


@pytest.mark.parametrize(
    "options",
    [
        {"features": "shared"},
        {"pipeline": "false"},
        {"pruning": "false"},
        {"scope": "target"},
        {"pipeline_from": 1, "loaders": 2, "page_cache": "cold"},
    ],
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
    folder = shards.source.flattened.folder
    shards.close()
    assert not folder.exists()


def test_records_too_large_for_one_batch_of_graphflat_are_one_batch_of_training(monkeypatch):
    monkeypatch.setattr(drivers, "MOST_BYTES", 4000)
    graph = awkward_graph(4)
    nodes = graph.nodes_of("train")
    memory, shards = (
        trainer_of(graph, BatchPlan(nodes, len(nodes)), source=source) for source in ("graph", "graphfeature")
    )
    (logits, loss, _), (expected, least, _) = (engine.loss_and_gradients(nodes) for engine in (shards, memory))
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    np.testing.assert_allclose([loss, shards.epoch(0, PlainClock())], [least, memory.epoch(0, PlainClock())], rtol=1e-5)
    shards.close()


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


@given(st.integers(1, 6), st.integers(0, 60), st.integers(1, 9), st.integers(1, 4))
def test_workers_take_as_many_steps_from_shards_as_from_memory(workers, more, size, batches):
    targets = np.arange(workers + more)
    job = WorkersJob(parse_sampling("full()", 2), shard_records=size * batches, workers=workers)
    shards = job.shards_of(targets)
    np.testing.assert_array_equal(np.sort(np.concatenate(shards)), targets)
    lengths = [[len(shard) for shard in shards[rank::workers]] for rank in range(workers)]
    assert max(map(sum, lengths)) - min(map(sum, lengths)) <= 1
    assert [sum(-(-length // size) for length in own) for own in lengths] == [-(-sum(own) // size) for own in lengths]
