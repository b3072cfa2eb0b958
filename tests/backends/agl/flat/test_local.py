"""GraphFlat in one process: records equal the neighbourhoods of ``khop``, for any batches and threads."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.agl.flat import drivers, shards
from backends.agl.flat.drivers import flatten_batches, in_threads
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.flat.shards import RecordTooLarge
from backends.agl.flat.source import Source
from backends.agl.graphfeature import decode
from backends.kernels import SAMPLERS, EdgeSampler, khop
from datasets.features import sparse_features
from datasets.graph import Graph
from tests.graphs import awkward_graph

STRATEGIES = ["full()", "uniform(4);uniform(2)", "uniform(2);uniform(3)", "weighted(3)", "topk(by=weight,limit=2)"]
REPLACING = ["uniform(limit=3, replacement=true)", "weighted(by=weight, limit=2, replacement=True)"]


def strings_of(graph: Graph, strategy, folder, targets=None, filtering=None, **options) -> list[bytes]:
    source = Source.build(graph, strategy, filtering, folder)
    targets = np.arange(graph.nodes) if targets is None else targets
    return strings_in(flatten_batches(source, targets, strategy, **options))


def strings_in(batches) -> list[bytes]:
    return [
        batch.strings.data[start:end].tobytes()
        for batch in batches
        for start, end in zip(batch.strings.bounds, batch.strings.bounds[1:], strict=False)
    ]


@pytest.mark.parametrize("scope", ["node", "target"])
@pytest.mark.parametrize("text", STRATEGIES + REPLACING)
def test_a_record_is_the_neighbourhood_that_khop_finds_for_its_target(text, scope, tmp_path):
    graph = awkward_graph(3, weighted=True)
    strategy = parse_sampling(text, 2, scope, seed=5)
    for target, string in enumerate(strings_of(graph, strategy, tmp_path)):
        record = decode([string])
        expected = khop(
            graph.csr,
            np.array([target]),
            strategy.fanouts,
            strategy.seed,
            scope,
            strategy.method,
            graph.edge_weights,
            strategy.replacement,
        )
        assert record.targets.tolist() == [target]
        assert record.ids.tolist() == expected.nodes.tolist()
        assert record.distance.tolist() == expected.distance.tolist()
        assert record.in_edges.tolist() == expected.csr.in_degrees.tolist()
        assert record.sources.tolist() == expected.csr.indices.tolist()
        assert record.edge_ids.tolist() == expected.csr.ids.tolist()
        assert record.ranks.tolist() == expected.rank.tolist()
        assert np.array_equal(
            record.edge_weights if len(record.edge_ids) else [], graph.edge_weights[expected.positions]
        )


def test_records_know_degrees_of_the_whole_graph_features_labels_and_split(tmp_path):
    graph = replace(awkward_graph(1, weighted=True), node_ids=np.arange(40) * 7 + 100)
    strategy = parse_sampling("uniform(2)", 2)
    weights = np.bincount(graph.csr.destinations, weights=graph.edge_weights.astype(float), minlength=40)
    record = decode(strings_of(graph, strategy, tmp_path))
    numbers = (record.ids - 100) // 7
    assert np.array_equal(record.degrees, graph.csr.in_degrees[numbers])
    assert np.array_equal(record.weighted_degrees, weights[numbers])
    assert np.array_equal(record.features, graph.features[numbers])
    assert np.array_equal(record.labels[:, 0], graph.labels)
    assert np.array_equal(record.split, graph.split)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(STRATEGIES + REPLACING), st.integers(1, 40), st.integers(1, 3), st.sampled_from(["node", "target"])
)
def test_bytes_do_not_depend_on_batches_threads_and_company(tmp_path_factory, text, batch, threads, scope):
    graph, strategy = awkward_graph(2, weighted=True), parse_sampling(text, 3, scope)
    folder = tmp_path_factory.mktemp("source")
    whole = strings_of(graph, strategy, folder)
    assert strings_of(graph, strategy, folder, batch=batch, threads=threads) == whole
    some = np.array([7, 3, 39])
    assert strings_of(graph, strategy, folder, some) == [whole[target] for target in some]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", STRATEGIES + REPLACING)
def test_large_neighbourhoods_are_flattened_few_at_a_time(tmp_path, monkeypatch, text, threads):
    graph, strategy = awkward_graph(2, weighted=True), parse_sampling(text, 2, seed=3)
    whole = strings_of(graph, strategy, tmp_path)
    monkeypatch.setattr(drivers, "MOST_BYTES", 8000)
    source = Source.build(graph, strategy, None, tmp_path)
    batches = list(flatten_batches(source, np.arange(graph.nodes), strategy, threads=threads))
    assert max(len(batch.strings.data) for batch in batches if len(batch.records) > 1) <= 8000
    assert len(batches) > 2 and strings_in(batches) == whole


def test_threads_compute_one_part_each_ahead_of_large_neighbourhoods(tmp_path, monkeypatch):
    graph, strategy, encode, encoded = awkward_graph(2), parse_sampling("full()", 2), drivers.encode_neighbourhoods, []
    source = Source.build(graph, strategy, None, tmp_path)

    def encode_noted(*arguments, **options):
        encoded.append(arguments)
        return encode(*arguments, **options)

    monkeypatch.setattr(drivers, "encode_neighbourhoods", encode_noted)
    monkeypatch.setattr(drivers, "MOST_BYTES", 1)
    batches = flatten_batches(source, np.arange(graph.nodes), strategy, threads=2, batch=20)
    next(batches)
    assert len(encoded) <= 2
    assert len(list(batches)) > 20


def test_features_of_edges_count_by_their_width(tmp_path, monkeypatch):
    graph, strategy = awkward_graph(2), parse_sampling("full()", 2)
    graph = replace(graph, edge_features=np.ones((graph.csr.nnz, 128), dtype=np.float32))
    source = Source.build(graph, strategy, None, tmp_path)
    whole = strings_in(flatten_batches(source, np.arange(graph.nodes), strategy))
    monkeypatch.setattr(drivers, "MOST_BYTES", 100_000)
    batches = list(flatten_batches(source, np.arange(graph.nodes), strategy))
    shared = [batch for batch in batches if len(batch.records) > 1]
    assert shared and max(len(batch.strings.data) for batch in shared) <= 100_000
    assert strings_in(batches) == whole


def test_sparse_features_count_by_their_entries_not_by_their_width(tmp_path):
    count, width = 300, 1_000_000
    features = sparse_features(np.arange(count), np.arange(count), np.ones(count), (count, width))
    graph = replace(awkward_graph(2, nodes=count), features=features)
    strategy = parse_sampling("uniform(2)", 2)
    source = Source.build(graph, strategy, None, tmp_path)
    batches = flatten_batches(source, np.arange(count), strategy)
    assert [len(batch.records) for batch in batches] == [256, 44]


@pytest.mark.parametrize(
    ("text", "whole"), [("uniform(1000000)", True), ("uniform(limit=1000000, replacement=true)", False)]
)
def test_fanouts_beyond_the_in_degrees_split_no_batch(tmp_path, text, whole):
    graph = awkward_graph(2, nodes=300)
    strategy = parse_sampling(text, 2)
    source = Source.build(graph, strategy, None, tmp_path)
    targets = np.flatnonzero(graph.csr.in_degrees)
    if whole:
        assert [len(batch.records) for batch in flatten_batches(source, targets, strategy)] == [len(targets)]
    else:
        with pytest.raises(drivers.TooLarge):
            drivers.neighbourhoods(source, targets, strategy)


@pytest.mark.parametrize("embed", [True, False])
def test_a_record_that_no_shard_can_hold_is_refused_by_its_target(tmp_path, monkeypatch, embed):
    graph, strategy = replace(awkward_graph(2), node_ids=np.arange(40) * 7 + 100), parse_sampling("full()", 1)
    source = Source.build(graph, strategy, None, tmp_path)
    monkeypatch.setattr(shards, "LARGEST_RECORD", 900 if embed else 100)
    if embed:  # node 0 has 38 in-neighbours: its features are too large before they are read
        monkeypatch.setattr(shards, "sort_and_join", None)
    advice = r"give --shared \(.* or smaller fanouts" if embed else "give smaller fanouts"
    with pytest.raises(RecordTooLarge, match=f"GraphFeature of node 100 takes .*{advice}"):
        list(flatten_batches(source, np.array([5, 0]), strategy, embed=embed))


def test_a_sampler_of_ones_own_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setitem(SAMPLERS, "lightest", EdgeSampler(lambda hashes, weight: weight, needs_weight=True))
    graph = awkward_graph(4, weighted=True)
    mine = strings_of(graph, parse_sampling("lightest(3)", 2), tmp_path)
    assert mine == strings_of(graph, parse_sampling("topk(by=weight, limit=3, reverse=true)", 2), tmp_path)


def test_reversed_topk_keeps_the_least(tmp_path):
    graph = awkward_graph(4, weighted=True)
    record = decode(
        strings_of(graph, parse_sampling("topk(by=weight, limit=1, reverse=true)", 1), tmp_path, np.array([0]))
    )
    assert record.edge_weights.tolist() == [graph.edge_weights[: graph.csr.indptr[1]].min()]


@given(count=st.integers(0, 20), threads=st.integers(1, 5))
def test_results_come_in_order_from_at_most_the_given_threads(count, threads):
    used = set()

    def work(number: int) -> int:
        used.add(threading.get_ident())
        return number * number

    assert list(in_threads(work, range(count), threads)) == [number**2 for number in range(count)]
    assert len(used) <= threads


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_starts_after_a_failure(threads):
    started = []

    def work(number: int) -> int:
        started.append(number)
        if number == 2:
            raise OSError("the disk is full")
        return number

    with pytest.raises(OSError, match="full"):
        list(in_threads(work, range(100), threads))
    assert len(started) <= 2 + 2 * threads
