"""The synthetic user-user graph: equal for any number of partitions, skewed, homophilous, learnable."""

import os
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.graph import Graph
from datasets.randomness import uniform
from datasets.synthetic import distributions, uug
from datasets.synthetic.uug import PUBLISHED, load
from datasets.synthetic.uug_partition import TAIL, UugOptions, draw_in_degrees, true_labels, uug_partition


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load("uug", {})


@settings(max_examples=25)
@given(st.integers(100, 1500), st.integers(1, 9), st.integers(0, 3), st.sampled_from([0, 2]))
def test_partitions_are_the_rows_of_the_whole(nodes: int, partitions: int, seed: int, of_edges: int) -> None:
    scale = {"nodes": nodes, "degree": 5, "features": 7, "seed": seed, "edge_features": of_edges}
    whole = load("uug", scale)
    covered = 0
    for index in range(partitions):
        part = uug_partition(UugOptions(**scale, partitions=partitions), index)
        rows = slice(part.first, part.last)
        edges = slice(int(whole.csr.indptr[part.first]), int(whole.csr.indptr[part.last]))
        np.testing.assert_array_equal(part.sources, whole.csr.indices[edges])
        np.testing.assert_array_equal(part.destinations, whole.csr.destinations[edges])
        for field in ("features", "labels", "split"):
            np.testing.assert_array_equal(getattr(part, field), getattr(whole, field)[rows])
        if of_edges:
            assert part.edge_features is not None and whole.edge_features is not None
            np.testing.assert_array_equal(part.edge_features, whole.edge_features[edges])
        assert part.first == covered
        covered = part.last
    assert covered == nodes
    assert load("uug", scale | {"partitions": partitions}).sha256 == whole.sha256


def test_edge_features_are_another_graph_and_tell_whether_labels_agree() -> None:
    plain, scored = (
        load("uug", {"nodes": 3000, "features": 8}),
        load("uug", {"nodes": 3000, "features": 8, "edge_features": 3}),
    )
    assert plain.sha256 != scored.sha256 and plain.edge_features is None and scored.edge_features is not None
    np.testing.assert_array_equal(plain.csr.indices, scored.csr.indices)
    truth = true_labels(UugOptions(nodes=3000, features=8), np.arange(3000))
    agree = truth[scored.csr.indices] == truth[scored.csr.destinations]
    shift = scored.edge_features[agree].mean(0) - scored.edge_features[~agree].mean(0)
    assert 1.1 < shift[0] < 1.3 and np.abs(shift[1:]).max() < 0.05
    assert np.abs(np.corrcoef(scored.edge_features.T) - np.eye(3)).max() < 0.05


def test_equal_options_give_equal_graphs_and_seeds_differ() -> None:
    small = {"nodes": 500, "features": 8}
    assert load("uug", small).sha256 == load("uug", small).sha256
    assert load("uug", small | {"seed": 1}).sha256 != load("uug", small).sha256


def test_counts_are_as_published(graph: Graph) -> None:
    counts = graph.counts()
    assert (counts["nodes"], counts["features"], counts["classes"]) == (10_000, 656, 2)
    assert abs(counts["edges"] / 200_000 - 1) < 0.05
    assert graph.published == PUBLISHED and graph.synthetic and graph.task == "multiclass"
    for split, share in (("train", 0.3), ("validation", 0.1), ("test", 0.2)):
        assert abs(counts[split] / 10_000 - share) < 0.02
    assert graph.labels is not None and graph.split is not None
    np.testing.assert_array_equal(graph.labels == -1, graph.split == 3)


def test_edges_are_distinct_sorted_and_no_loops(graph: Graph) -> None:
    key = graph.csr.destinations.astype(np.int64) * graph.nodes + graph.csr.indices
    assert (np.diff(key) > 0).all()
    assert (graph.csr.indices != graph.csr.destinations).all()


def test_in_degrees_have_a_power_law_tail() -> None:
    degrees = draw_in_degrees(UugOptions(nodes=1_000_000, features=1), np.arange(200_000))
    assert abs(degrees.mean() / 20 - 1) < 0.05
    beyond = [(degrees > bound).mean() for bound in (40, 160, 640)]
    slopes = np.diff(np.log(beyond)) / np.log(4)
    np.testing.assert_allclose(slopes, -TAIL, atol=0.25)


def test_there_are_hubs_both_ways(graph: Graph) -> None:
    sent = np.bincount(graph.csr.indices, minlength=graph.nodes)
    for degrees in (graph.csr.in_degrees, sent):
        assert degrees.max() > 20 * degrees.mean()
        assert np.median(degrees) < 0.9 * degrees.mean()


def test_neighbours_share_labels_and_communities(graph: Graph) -> None:
    options = UugOptions()
    truth = true_labels(options, np.arange(graph.nodes))
    assert 0.45 < truth.mean() < 0.55
    homophily = (truth[graph.csr.indices] == truth[graph.csr.destinations]).mean()
    assert 0.65 < homophily < 0.85
    distance = np.abs(graph.csr.indices - graph.csr.destinations) / graph.nodes
    assert abs(distance.mean() - 1 / 3) < 0.02, "ids must not correlate with communities"


def area_under_curve(scores: np.ndarray, labels: np.ndarray) -> float:
    ranks = np.argsort(np.argsort(scores))
    positive = labels == 1
    pairs = positive.sum() * (~positive).sum()
    return float((ranks[positive].sum() - positive.sum() * (positive.sum() - 1) / 2) / pairs)


def fit(inputs: torch.Tensor, graph: Graph) -> float:
    """Test AUC of a logistic regression, at the epoch that is best on validation."""
    labels, nodes = (
        torch.from_numpy(graph.labels).float(),
        {s: graph.nodes_of(s) for s in ("train", "validation", "test")},
    )
    weight = torch.zeros(inputs.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.01, weight_decay=0.01)
    best = (0.0, 0.0)
    for _ in range(40):
        optimizer.zero_grad()
        scores = inputs @ weight
        torch.nn.functional.binary_cross_entropy_with_logits(scores[nodes["train"]], labels[nodes["train"]]).backward()
        optimizer.step()
        values = scores.detach().numpy()
        best = max(
            best, tuple(area_under_curve(values[nodes[s]], graph.labels[nodes[s]]) for s in ("validation", "test"))
        )
    return best[1]


def test_two_rounds_of_neighbours_beat_features_alone(graph: Graph) -> None:
    degrees = np.maximum(graph.csr.in_degrees, 1)
    mean = torch.sparse_csr_tensor(
        torch.from_numpy(graph.csr.indptr),
        torch.from_numpy(graph.csr.indices),
        torch.from_numpy(np.repeat(1 / degrees, graph.csr.in_degrees).astype(np.float32)),
        graph.csr.shape,
    )
    features = torch.from_numpy(graph.features)
    once = mean @ features
    rounds = [part / part.std() for part in (features, once, mean @ once)]
    alone, together = fit(features, graph), fit(torch.cat(rounds, dim=1), graph)
    assert 0.6 < alone < 0.8
    assert together > alone + 0.08
    assert 0.84 < together < 0.99


def peak_of(options: UugOptions, index: int) -> int:
    tracemalloc.start()
    part = uug_partition(options, index)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert part.last - part.first == options.nodes // options.partitions
    return peak


def test_memory_depends_on_the_partition_not_on_the_graph() -> None:
    small = peak_of(UugOptions(nodes=10**5, features=64, partitions=10**2), 3)
    large = peak_of(UugOptions(nodes=10**7, features=64, partitions=10**4), 3)
    assert large < 1.5 * small
    assert large < 30 * 2**20


@pytest.mark.parametrize("edge_features", [0, 2])
def test_the_graph_does_not_depend_on_its_pieces(edge_features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"nodes": 700, "degree": 5, "features": 24, "edge_features": edge_features}
    whole = load("uug", options)
    monkeypatch.setattr(uug, "EDGES_OF_A_PIECE", 300)
    assert load("uug", options).sha256 == whole.sha256


def test_the_graph_takes_little_memory_beyond_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    options = {"nodes": 400_000, "degree": 20, "features": 8}
    tracemalloc.start()
    graph = load("uug", options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * graph.nbytes + 200 * 2**20


def test_many_cores_have_a_thread_each_and_smaller_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, partitions = set(), []
    monkeypatch.setattr(uug, "EDGES_OF_A_PIECE", 300)
    monkeypatch.setattr(distributions, "_BLOCK", 64)
    hashed, generated = distributions.hash_ids, uug.uug_partition

    def hash_ids(*arguments: Any) -> Any:
        threads.add(threading.current_thread())
        return hashed(*arguments)

    def partition(options: UugOptions, index: int) -> Any:
        partitions.append(options.partitions)
        return generated(options, index)

    monkeypatch.setattr(distributions, "hash_ids", hash_ids)
    monkeypatch.setattr(uug, "uug_partition", partition)
    for cores in (8, 32):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, cores=cores: set(range(cores)))
        threads.clear()
        load("uug", {"nodes": 700, "degree": 5, "features": 24})
        assert len(threads) <= cores
    assert max(partitions) == 2 * min(partitions)


@pytest.mark.slow
def test_one_partition_of_ten_million_nodes_stays_small() -> None:
    options = UugOptions(nodes=10**7, partitions=200)
    assert peak_of(options, 137) < 600 * 2**20
    part = uug_partition(options, 137)
    assert abs(len(part.sources) / 50_000 / 20 - 1) < 0.1
    assert part.sources.max() > 9 * 10**6 and part.sources.min() < 10**6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"node": 5}, "did you mean 'nodes'"),
        ({"nodes": 5}, "nodes=5: allowed are 100 and more"),
        ({"degree": 5000}, "nodes / 20 = 500"),
        ({"features": 0}, "features=0"),
        ({"partitions": 0}, "partitions=0"),
    ],
)
def test_misuse_says_what_is_allowed(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load("uug", options)


def test_a_partition_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed are 0 to 3"):
        uug_partition(UugOptions(partitions=4), 4)


def test_hash_purposes_are_independent() -> None:
    ids = np.arange(20_000)
    purposes = ("uug inside", "uug source", "uug degree", "uug label", "uug split")
    drawn = np.corrcoef([uniform(0, purpose, ids) for purpose in purposes])
    assert np.abs(drawn - np.eye(len(purposes))).max() < 0.05


def test_wide_features_do_not_depend_on_how_many_are_made_at_once(graph: Graph) -> None:
    part = uug_partition(UugOptions(partitions=7), 3)
    assert part.features.size < graph.features.size / 6
    np.testing.assert_array_equal(part.features, graph.features[part.first : part.last])
