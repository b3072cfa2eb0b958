"""GraphFlat's forecast of a run: bytes of the shards, edges of their records, memory; and the edges it reads."""

from dataclasses import replace

import numpy as np
import pytest

from backends.agl.flat import drivers
from backends.agl.flat import job as jobs
from backends.agl.flat.job import FlattenJob
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.flat.source import Source
from datasets.csr import csr_from_edges
from datasets.features import in_layout
from tests.backends.agl.flat.test_job import flat
from tests.graphs import awkward_graph


def test_the_estimate_is_close_to_the_result(tmp_path):
    graph = awkward_graph(2, nodes=600, edges=6000)
    manifest = flat(tmp_path / "out", graph, shard_records=200)
    assert 0.9 < manifest["estimated_bytes"] / manifest["sizes"]["file_bytes"] < 1.3


@pytest.mark.parametrize("embed", [True, False])
def test_a_hub_that_the_estimate_draws_stands_for_itself_alone(tmp_path, monkeypatch, embed):
    """One of 3,000 targets has an edge of every node: in a sample of 16 it would stand for 187 others."""
    nodes = np.arange(1, 3000)
    sources, destinations = np.concatenate([nodes, nodes]), np.concatenate([np.zeros_like(nodes), np.roll(nodes, 1)])
    graph = awkward_graph(2, nodes=3000, edges=0)
    graph = replace(graph, csr=csr_from_edges(sources, destinations, (3000, 3000)))
    monkeypatch.setattr(jobs, "ESTIMATE_TARGETS", 16)
    monkeypatch.setattr(jobs, "permutation", lambda seed, purpose, count: np.arange(count))
    manifest = flat(tmp_path / "out", graph, text="full()", embed=embed, shard_records=1000)
    stored = manifest["sizes"]["embedded_bytes" if embed else "shared_bytes"]
    assert 0.9 < manifest["estimated_bytes"] / stored < (1.3 if embed else 1.6)


def test_the_estimate_of_large_neighbourhoods_ends_after_enough_edges(tmp_path, monkeypatch):
    graph, job = awkward_graph(2, nodes=600, edges=6000), FlattenJob(parse_sampling("full()", 2), shard_records=20)
    source, targets = Source.build(graph, job.strategy, None, tmp_path / "source"), np.arange(600)
    whole = jobs.estimate(source, targets, job)
    monkeypatch.setattr(jobs, "ESTIMATE_EDGES", whole[1] // 20)
    monkeypatch.setattr(drivers, "MOST_BYTES", drivers.bytes_of(whole[1] // 100, source))
    sampled, encode = [], drivers.encode_neighbourhoods

    def counted(part, *arguments, **options):
        sampled.append(part.count)
        return encode(part, *arguments, **options)

    monkeypatch.setattr(drivers, "encode_neighbourhoods", counted)
    for part, all_of_them in zip(jobs.estimate(source, targets, job), whole, strict=True):
        assert 0.7 < part / all_of_them < 1.4
    assert sum(sampled) < jobs.ESTIMATE_TARGETS / 2


@pytest.mark.parametrize("shard_records", [1, 16, 1024])
@pytest.mark.parametrize("every", [1, 2])
def test_giants_that_end_the_sample_stand_for_the_others(tmp_path, monkeypatch, every, shard_records):
    """All targets, or every second one, have the 900 in-edges of each of 3 hubs; the others have none."""
    nodes = np.arange(1000, 1900)
    targets = np.arange(3, 1000, every)
    sources = np.concatenate([np.tile(nodes, 3), np.tile(np.arange(3), len(targets))])
    destinations = np.concatenate([np.repeat(np.arange(3), 900), np.repeat(targets, 3)])
    graph = replace(awkward_graph(2, nodes=1900, edges=0), csr=csr_from_edges(sources, destinations, (1900, 1900)))
    job = FlattenJob(parse_sampling("full()", 2), shard_records=shard_records)
    source = Source.build(graph, job.strategy, None, tmp_path / "source")
    monkeypatch.setattr(jobs, "ESTIMATE_EDGES", 2000)
    monkeypatch.setattr(drivers, "MOST_BYTES", drivers.bytes_of(2000, source))
    searched, neighbourhoods = [], drivers.neighbourhoods

    def counted(source, targets, strategy):
        hoods = neighbourhoods(source, targets, strategy)
        searched.append(len(hoods.edges.requests))
        return hoods

    monkeypatch.setattr(drivers, "neighbourhoods", counted)
    edges = jobs.estimate(source, np.arange(3, 1000), job)[1]
    assert 0.25 < edges / (2703 * len(targets)) < 2.5
    assert sum(edges > 2000 for edges in searched) <= 3


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("shard_records", [20, 2000])
def test_the_estimate_counts_features_stored_once_as_often_as_shards_hold_them(tmp_path, shard_records, layout):
    graph = awkward_graph(2, nodes=2000, edges=6000, width=64)
    graph = replace(graph, features=in_layout(graph.features, layout))
    manifest = flat(tmp_path / "out", graph, shard_records=shard_records, embed=False)
    assert 1 < manifest["estimated_bytes"] / manifest["sizes"]["shared_bytes"] < 1.25


@pytest.mark.parametrize(("record", "memory"), [(1 << 30, 16), (10 << 20, 4), (1 << 20, 4), (1 << 18, 1)])
def test_the_forecast_of_memory_is_that_of_a_batch_or_a_larger_record_for_each_thread(tmp_path, record, memory):
    job = FlattenJob(parse_sampling("full()", 1), threads=4)
    assert f"free), and {memory} GiB of memory at a time" in jobs.forecast(1000 * record, 1000, job, tmp_path)


def test_reducers_grow_with_the_edges_of_a_round(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "EDGES_PER_REDUCER", 100)
    graph, job, targets = awkward_graph(2), FlattenJob(parse_sampling("full()", 2)), np.arange(40)
    source = Source.build(graph, job.strategy, None, tmp_path / "source")
    all_edges, none = (jobs.estimate(source, some, job)[1] for some in (targets, targets[39:]))
    assert all_edges == flat(tmp_path / "out", graph, text="full()")["sizes"]["edges"] > graph.csr.nnz and none == 0
    assert jobs.reducers_of(job, 2, all_edges) == -(-all_edges // 100) > 2
    assert jobs.reducers_of(job, 2, 1) == 2 and jobs.reducers_of(replace(job, partitions=3), 2, all_edges) == 3


@pytest.mark.parametrize(
    ("reducers", "cores", "edges_of_shard", "shards"),
    [(2, 2, 50.0, 4), (2, 2, 10_000.0, 1), (4, 2, 0.0, 50), (8, 64, 1.0, 25), (30, 64, 1.0, 30), (30, 2, 50.0, 4)],
)
def test_shards_are_searched_together_by_edges_and_pieces(monkeypatch, reducers, cores, edges_of_shard, shards):
    monkeypatch.setattr(jobs, "EDGES_PER_REDUCER", 100)
    monkeypatch.setattr(jobs, "MOST_PIECES", 200)
    assert jobs.shards_at_once(reducers, cores, edges_of_shard) == shards


def test_a_source_takes_nothing_over_from_a_run_with_a_filter_that_was_killed(tmp_path):
    graph, strategy = awkward_graph(2, weighted=True), parse_sampling("weighted(3)", 2)
    Source.build(graph, strategy, "weight > 1", tmp_path)
    (tmp_path / "source.json").unlink()
    source = Source.build(graph, strategy, None, tmp_path)
    assert len(source.table.weight) == graph.csr.nnz
    np.testing.assert_array_equal(source.table.weight, graph.edge_weights)


def test_shards_of_sorted_tables_hold_targets_from_everywhere(tmp_path):
    """A batch is of one shard: of a table in the order of its classes it would be of one class."""
    flat(tmp_path / "out", awkward_graph(2, nodes=400, edges=800), shard_records=50)
    reader = GraphFeatureReader(tmp_path / "out")
    shards = [reader.labelled((number,))[0] for number in range(len(reader.shards))]
    assert np.array_equal(np.sort(np.concatenate(shards)), np.arange(400))
    assert all(len(np.unique(ids // 50)) >= 4 for ids in shards)
