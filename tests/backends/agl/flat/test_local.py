"""GraphFlat in one process: records equal the definition, whatever the batches, and samples are those of ``khop``."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.agl.flat import local
from backends.agl.flat.local import flatten_batches, in_threads
from backends.agl.flat.sampling_strategy import StrategyError, parse_sampling
from backends.agl.flat.source import Source
from backends.agl.graphfeature import decode
from backends.kernels import SAMPLERS, EdgeSampler, khop
from backends.kernels.sampling import distinct
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
    monkeypatch.setattr(local, "MOST_BYTES", 8000)
    source = Source.build(graph, strategy, None, tmp_path)
    batches = list(flatten_batches(source, np.arange(graph.nodes), strategy, threads=threads))
    assert max(len(batch.strings.data) for batch in batches if len(batch.records) > 1) <= 8000
    assert len(batches) > 2 and strings_in(batches) == whole


def test_a_filter_thins_edges_out_before_they_are_sampled_and_keeps_degrees(tmp_path):
    graph = awkward_graph(4, weighted=True)
    text = "weight > 1.0 and not neighbor.feature[2] < 0"
    passes = (graph.edge_weights > 1) & ~(graph.features[graph.csr.indices, 2] < 0)
    record = decode(strings_of(graph, parse_sampling("full()", 1), tmp_path, filtering=text))
    assert sorted(record.edge_ids) == sorted(graph.csr.ids[passes]) and 0 < passes.sum() < graph.csr.nnz
    assert record.degrees[record.node_bounds[:-1]].tolist() == graph.csr.in_degrees.tolist()
    sampled = decode(strings_of(graph, parse_sampling("weighted(2)", 1), tmp_path, filtering=text))
    assert np.isin(sampled.edge_ids, graph.csr.ids[passes]).all()
    at = {edge: position for position, edge in enumerate(graph.csr.ids.tolist())}
    assert np.array_equal(sampled.edge_weights, graph.edge_weights[[at[edge] for edge in sampled.edge_ids.tolist()]])


def test_a_filter_computes_and_compares_in_chains(tmp_path):
    graph = awkward_graph(4, weighted=True)
    passes = (graph.edge_weights * 2 > 1) & (graph.edge_weights + 0.5 <= 2)
    record = decode(strings_of(graph, parse_sampling("full()", 1), tmp_path, filtering="0.5 < weight <= 3 / 2"))
    assert sorted(record.edge_ids) == sorted(graph.csr.ids[passes]) and 0 < passes.sum() < graph.csr.nnz


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


@pytest.mark.parametrize(
    "text", ["weight >", "colour > 1", "neighbor.colour == 1", "weight + 1", "feature[0] > 1", "f()", "1 / 0 > weight"]
)
def test_a_filter_that_cannot_be_read_says_what_can(text, tmp_path):
    with pytest.raises(
        ValueError, match=r"filter .* (columns are|write for example|compare columns|cannot be compared)"
    ):
        Source.build(awkward_graph(1, weighted=True), parse_sampling("full()", 1), text, tmp_path)


@pytest.mark.parametrize(
    ("text", "hops", "fanouts"),
    [
        ("uniform(15);uniform(10)", 2, (10, 15)),
        ("random_sampler(limit=4)", 3, (4, 4, 4)),
        ("weighted_sampler(by=weight, limit=2);weighted_sampler(by=weight, limit=3)", 3, (3, 3, 2)),
        ("full()", 2, (None, None)),
    ],
)
def test_hops_of_the_grammar_become_fanouts_of_layers(text, hops, fanouts):
    assert parse_sampling(text, hops).fanouts == fanouts


@pytest.mark.parametrize(
    ("text", "hops", "complaint"),
    [
        ("uniform(15)", 0, "hop 0"),
        ("nearest(3)", 1, "allowed are uniform"),
        ("uniform(0)", 1, "from 1"),
        ("uniform(-3)", 1, "from 1"),
        ("uniform(2.5)", 1, "from 1"),
        ("uniform(2147483648)", 1, "from 1 to 2147483647"),
        ("uniform(3, 5)", 1, "given twice"),
        ("uniform(3, seed=1.5)", 1, "seed=1.5 .* whole number"),
        ("uniform(3, replacement=2)", 1, "replacement=2 .* true or false"),
        ("uniform(3, by=weight)", 1, "reads no column"),
        ("full(replacement=true)", 1, "neither by, replacement nor reverse"),
        ("uniform()", 1, "without limit"),
        ("uniform(2);uniform(3);uniform(4)", 2, "describes 3 hops"),
        ("uniform(2);topk(3)", 2, "differently"),
        ("uniform(limit=2, colour=3)", 1, "allowed are by"),
        ("uniform(limit=two)", 1, "neither"),
        ("full(3)", 1, "no limit"),
        ("uniform(3, reverse=true)", 1, "only topk"),
        ("topk(3, replacement=true)", 1, "replacement"),
        ("", 1, "0 hops"),
    ],
)
def test_a_strategy_that_cannot_be_carried_out_says_what_can(text, hops, complaint):
    with pytest.raises(StrategyError, match=complaint):
        parse_sampling(text, hops)


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_distinct_values_are_those_of_numpy(values):
    array = np.array(values, dtype=np.int64)
    assert distinct(array).tolist() == np.unique(array).tolist()


@given(count=st.integers(0, 20), threads=st.integers(1, 5))
def test_results_come_in_order_from_no_more_threads_than_asked(count, threads):
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
