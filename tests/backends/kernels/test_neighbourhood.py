"""Neighbourhoods against a search in plain Python that shuffles each row; probabilities of every sampler."""

from functools import partial
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from backends.kernels import definition, khop, layer_blocks, sample_neighbors, spmm, union, union_with_places
from backends.kernels.blocks import first_of_rows
from backends.kernels.extension import extension
from backends.kernels.samplers import summed
from backends.kernels.sampling import first_neighbors
from datasets.csr import Csr
from datasets.randomness import hash_ids, keyed
from tests.graphs import awkward_graph

fanout = st.one_of(st.none(), st.integers(1, 6))
target_sets = st.sets(st.integers(0, 19), min_size=1, max_size=6).map(lambda nodes: np.array(sorted(nodes)))
cases = st.tuples(st.integers(0, 50), target_sets, st.lists(fanout, min_size=1, max_size=3))


def shuffled_ids(csr, seed):
    """The same edges with permuted ids, so that the order of the ids differs from the order of the columns."""
    return Csr(csr.indptr, csr.indices, csr.shape, np.random.default_rng(seed).permutation(csr.nnz).astype(np.int32))


def graph(seed):
    return shuffled_ids(awkward_graph(seed, nodes=20, edges=60).csr, seed)


def weights(csr, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 2.0, csr.nnz).astype(np.float32)


def same(actual, expected):
    for name in ("nodes", "distance", "positions", "rank"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), err_msg=name)
    for name in ("indptr", "indices", "edge_ids"):
        np.testing.assert_array_equal(getattr(actual.csr, name), getattr(expected.csr, name), err_msg=name)
    assert actual.fanouts == expected.fanouts


def shuffled(places, node, seed):
    """Fisher and Yates's shuffle of a node's in-edges, one swap at a time."""
    key = int(hash_ids(seed, "neighbour keys", np.array([node]))[0])
    for swap in range(len(places)):
        other = swap + (int(keyed(key, np.array([swap]))[0]) * (len(places) - swap) >> 64)
        places[swap], places[other] = places[other], places[swap]
    return places


def by_search(csr, targets, fanouts, seed):
    """Distance of every node, and the kept positions of every expanded one by rank: uniform, one edge at a time."""
    distance, edges = dict.fromkeys(targets.tolist(), 0), {}
    frontier = targets.tolist()
    for depth in range(len(fanouts)):
        layers = fanouts[: len(fanouts) - depth]
        widest = None if None in layers else max(layers)
        for v in frontier:
            in_edges = list(range(csr.indptr[v], csr.indptr[v + 1]))
            edges[v] = shuffled(in_edges, v, seed)[:widest] if any(fanouts) else in_edges
        reached = {int(csr.indices[edge]) for v in frontier for edge in edges[v]}
        frontier = sorted(reached - distance.keys())
        distance |= dict.fromkeys(frontier, depth + 1)
    return distance, edges


@given(cases)
def test_nodes_distances_and_edges_are_those_of_a_search(case):
    seed, targets, fanouts = case
    csr = graph(seed)
    actual = khop(csr, targets, fanouts, seed)
    distance, edges = by_search(csr, targets, fanouts, seed)
    expected = sorted((depth, node) for node, depth in distance.items())
    assert list(zip(actual.distance.tolist(), actual.nodes.tolist(), strict=True)) == expected
    positions = [edge for _, node in expected for edge in edges.get(node, [])]
    assert actual.positions.tolist() == positions
    np.testing.assert_array_equal(actual.nodes[actual.csr.destinations], csr.destinations[positions])
    np.testing.assert_array_equal(actual.nodes[actual.csr.indices], csr.indices[positions])
    np.testing.assert_array_equal(actual.csr.ids, csr.ids[positions])
    np.testing.assert_array_equal(actual.targets, targets)


@given(cases, st.sampled_from(["uniform", "weighted", "topk"]), st.booleans())
def test_a_neighbourhood_of_several_targets_is_the_union_of_single_ones(case, sampler, replacement):
    seed, targets, fanouts = case
    csr = graph(seed)
    if replacement:
        sampler, fanouts = "weighted" if sampler == "topk" else sampler, [f or 7 for f in fanouts]
    draw = {"seed": seed, "sampler": sampler, "weight": weights(csr), "replacement": replacement}
    single = [khop(csr, targets[i : i + 1], fanouts, **draw) for i in range(len(targets))]
    same(union(single), khop(csr, targets, fanouts, **draw))
    merged, nodes, edges = union_with_places(single)
    np.testing.assert_array_equal(np.concatenate([one.nodes for one in single])[nodes], merged.nodes)
    np.testing.assert_array_equal(np.concatenate([one.positions for one in single])[edges], merged.positions)


@given(cases)
def test_scope_target_is_the_disjoint_union_of_independent_samples(case):
    seed, targets, fanouts = case
    csr = graph(seed)
    together = khop(csr, targets, fanouts, seed, scope="target")
    for place, target in enumerate(targets):
        alone = khop(csr, np.array([target]), fanouts, seed, scope="target")
        mine = together.component == place
        np.testing.assert_array_equal(together.nodes[mine], alone.nodes)
        edges = mine[together.csr.destinations]
        np.testing.assert_array_equal(together.positions[edges], alone.positions)
        local = np.cumsum(mine) - 1
        np.testing.assert_array_equal(local[together.csr.indices[edges]], alone.csr.indices)
    order = np.lexsort((together.nodes, together.component, together.distance))
    np.testing.assert_array_equal(order, np.arange(len(order)))
    np.testing.assert_array_equal(together.targets, targets)


def test_targets_sample_apart_where_the_scope_says_so():
    csr = awkward_graph(0, nodes=40, edges=400).csr
    hub = khop(csr, np.array([0]), [8], scope="node").positions
    samples = {
        tuple(sample_neighbors(csr, np.array([0]), 8, targets=np.array([target])).positions) for target in range(5)
    }
    assert len(samples | {tuple(hub)}) == 6


@given(st.integers(0, 50), st.sampled_from(["uniform", "weighted", "topk"]), st.booleans())
def test_samples_nest(seed, sampler, replacement):
    csr = graph(seed)
    replacement = replacement and sampler != "topk"
    draw = {"seed": seed, "sampler": sampler, "weight": weights(csr), "replacement": replacement}
    nodes = np.arange(20)
    small, large = (sample_neighbors(csr, nodes, size, **draw) for size in (3, 5))
    np.testing.assert_array_equal(large.positions[large.rank < 3], small.positions)
    if not replacement:
        assert np.array_equal(small.csr.in_degrees, np.minimum(csr.in_degrees, 3))


@given(st.integers(0, 50), st.sampled_from(["uniform", "weighted", "topk", "full"]), st.booleans())
def test_a_part_of_the_graph_samples_what_the_whole_graph_does(seed, sampler, replacement):
    csr, replacement = graph(seed), replacement and sampler in ("uniform", "weighted")
    weight, nodes = weights(csr), np.flatnonzero(np.random.default_rng(seed).random(20) < 0.5)
    part, positions = csr.rows(nodes)
    part = Csr(part.indptr, part.indices, part.shape, csr.ids[positions])
    options = None if sampler == "full" else 4, seed, sampler
    whole = sample_neighbors(csr, nodes, *options, weight, replacement)
    parted = sample_neighbors(
        part, np.arange(len(nodes)), *options, weight[positions], replacement, None, node_ids=nodes
    )
    np.testing.assert_array_equal(parted.csr.ids, whole.csr.ids)


@given(st.integers(0, 50), st.integers(1, 5), st.one_of(st.none(), st.integers(1, 5)))
def test_first_edges_of_rows_by_rank_are_the_sample(seed, most, fanout):
    csr, nodes = graph(seed), np.arange(20)
    widest = sample_neighbors(csr, nodes, most, seed)
    first = first_neighbors(widest.csr, nodes[::-1], fanout)
    expected = sample_neighbors(csr, nodes[::-1], min(most, fanout or most), seed)
    np.testing.assert_array_equal(first.csr.indptr, expected.csr.indptr)
    np.testing.assert_array_equal(widest.positions[first.positions], expected.positions)


@pytest.mark.parametrize(("degree", "fanout"), [(4, 2), (5, 3), (3, 3), (150, 1), (600, 1)])
def test_every_sequence_of_uniform_draws_is_as_likely_as_every_other(degree, fanout):
    rows = 200_000 if degree < 100 else 30_000
    indptr = np.arange(rows + 1, dtype=np.int64) * degree
    csr = Csr(indptr, np.zeros(rows * degree, dtype=np.int32), (rows, 1))
    drawn = sample_neighbors(csr, np.arange(rows), fanout, seed=3).positions.reshape(rows, fanout) % degree
    sequences = np.zeros((degree,) * fanout)
    np.add.at(sequences, tuple(drawn.T), 1)
    possible = [len(set(places)) == fanout for places in np.ndindex(sequences.shape)]
    counts = sequences.ravel()[possible]
    assert counts.sum() == rows
    assert g_statistic(counts, np.full(len(counts), 1 / len(counts))) < chi2.ppf(1 - 1e-6, len(counts) - 1)


def g_statistic(counts, probabilities):
    """G of observed counts: chi-square with one degree less than there are classes, if the probabilities are true."""
    seen = counts > 0
    return 2 * float((counts[seen] * np.log(counts[seen] / (counts.sum() * probabilities[seen]))).sum())


@pytest.mark.parametrize("degree", [1 << 20, 1 << 40])
@pytest.mark.parametrize("count", [1, 15, 200, 5000])
def test_a_hub_costs_its_fanout_not_its_degree(degree, count):
    places = extension.shuffle(degree, count, 7)  # a row of 2^40 edges could not even be read
    moved = {}
    for swap, place in enumerate(places.tolist()):
        other = swap + (int(keyed(7, np.array([swap]))[0]) * (degree - swap) >> 64)
        assert place == moved.get(other, other)
        moved[other] = moved.get(swap, swap)
    assert len(set(places.tolist())) == count and places.min() >= 0 and places.max() < degree


def test_weights_pull_and_uniform_draws_are_level():
    degree, rounds = 8, 4000
    csr = Csr(np.array([0, degree], dtype=np.int32), np.arange(degree, dtype=np.int32), (1, degree))
    pull = np.arange(1, degree + 1, dtype=np.float32)
    for sampler, share in (("uniform", np.full(degree, 1 / degree)), ("weighted", pull / pull.sum())):
        for replacement in (False, True):
            counts = np.zeros(degree)
            for seed in range(rounds):
                first = sample_neighbors(csr, np.array([0]), 1, seed, sampler, pull, replacement)
                counts[first.positions] += 1
            assert np.abs(counts / rounds - share).max() < 0.025
    heaviest = sample_neighbors(csr, np.array([0]), 3, sampler="topk", weight=pull)
    assert heaviest.positions.tolist() == [7, 6, 5]


@given(cases)
def test_pruned_layers_keep_the_rows_that_later_layers_read(case):
    seed, targets, fanouts = case
    csr, layers = graph(seed), len(fanouts)
    actual = khop(csr, targets, fanouts)
    sizes = {}
    for form in ("full", "paper", "tight"):
        blocks = layer_blocks(actual, layers, form)
        sizes[form] = sum(block.csr.nnz for block in blocks)
        for below, above in pairwise(blocks):
            assert below.csr.shape[0] >= above.csr.shape[1]
        assert blocks[-1].csr.shape[0] >= len(targets)
        for layer, block in enumerate(blocks):
            useful = np.searchsorted(actual.distance, layers - layer - 1, side="right")
            expected = np.minimum(csr.in_degrees[actual.nodes[:useful]], fanouts[layer] or csr.nnz)
            np.testing.assert_array_equal(block.csr.in_degrees[:useful], expected)
            np.testing.assert_array_equal(actual.nodes[block.csr.indices], csr.indices[block.positions])
            np.testing.assert_array_equal(actual.nodes[block.csr.destinations], csr.destinations[block.positions])
    assert sizes["tight"] <= sizes["paper"] <= sizes["full"]


@given(cases)
def test_needed_nodes_are_those_that_tight_layers_read(case):
    seed, targets, fanouts = case
    csr, layers = graph(seed), len(fanouts)
    actual, rows = khop(csr, targets, fanouts, needed=True), set(targets.tolist())
    for above, block in enumerate(reversed(layer_blocks(actual, layers))):
        size = fanouts[layers - 1 - above]
        ordered = "uniform" if any(fanouts) else "full"
        sample = sample_neighbors(csr, np.array(sorted(rows)), size, sampler=ordered)
        assert set(actual.nodes[: block.csr.shape[0]]) == rows
        assert sorted(block.positions) == sorted(sample.positions)
        rows |= set(sample.csr.indices.tolist())
        assert set(actual.nodes[: block.csr.shape[1]]) == rows
    assert len(actual.nodes) == len(rows)
    assert len(actual.csr.indices) <= len(khop(csr, targets, fanouts).csr.indices)


@given(cases, st.sampled_from(["uniform", "weighted"]), st.booleans())
def test_target_rows_are_equal_in_every_form_and_in_the_whole_graph(case, sampler, replacement):
    seed, targets, fanouts = case
    csr, weight = graph(seed), weights(graph(seed))
    fanouts = [size or 7 for size in fanouts] if replacement else fanouts
    draw = {"seed": seed, "sampler": sampler, "weight": weight, "replacement": replacement}
    actual = khop(csr, targets, fanouts, **draw)
    x = torch.from_numpy(np.random.default_rng(seed).standard_normal((20, 3)))
    value = torch.from_numpy(weight.astype(np.float64))
    expected = x
    for size in fanouts:
        ordered = sampler if any(fanouts) else "full"
        whole = sample_neighbors(csr, np.arange(20), size, **(draw | {"sampler": ordered}))
        expected = spmm(whole.csr, expected, value[torch.from_numpy(whole.positions)], "mean")
    for form in ("tight", "paper", "full"):
        hidden = x[torch.from_numpy(actual.nodes)]
        for block in layer_blocks(actual, len(fanouts), form):
            value_here = value[torch.from_numpy(block.positions)]
            hidden = spmm(block.csr, hidden[: block.csr.shape[1]], value_here, "mean")
        torch.testing.assert_close(hidden[: len(targets)], expected[torch.from_numpy(targets)])


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 9), st.sampled_from([np.int32, np.int64]))
def test_the_first_entries_of_rows_are_the_same_with_and_without_native_code(counts, most, dtype):
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(dtype)
    values = np.random.default_rng(0).integers(0, 99, indptr[-1])
    results = []
    for implementation in (extension, None):
        with patch("backends.kernels.blocks.extension", implementation):
            results.append(first_of_rows(indptr, values, most))
    (starts, kept), (expected_starts, expected) = results
    np.testing.assert_array_equal(starts, expected_starts)
    np.testing.assert_array_equal(kept, expected)
    assert starts.dtype == expected_starts.dtype == dtype
    rows = [values[indptr[row] : indptr[row + 1]][:most] for row in range(len(counts))]
    np.testing.assert_array_equal(kept, np.concatenate([*rows, np.empty(0, dtype=np.int64)]))


CSR = awkward_graph().csr
ONE = np.array([1])
BAD = np.where(CSR.destinations == 1, np.float32(np.nan), np.float32(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: khop(CSR, ONE, []), "at least 1 hop"),
        (lambda: khop(CSR, ONE, 2), "a sequence is needed"),
        (lambda: khop(CSR, ONE, [0]), "fanout=0 is not allowed: at least 1"),
        (lambda: khop(CSR, ONE, [5, -1]), "fanout=-1 is not allowed"),
        (lambda: khop(CSR, np.array([], dtype=np.int64), [1]), "targets is empty"),
        (lambda: khop(CSR, np.array([40]), [1]), "target 40 is not in the graph: allowed are 0 to 39"),
        (lambda: khop(CSR, np.array([-1]), [1]), "target -1 is not in the graph"),
        (lambda: khop(CSR, np.array([1.0]), [1]), "one dimension of integers"),
        (lambda: khop(CSR, ONE, [1], scope="edge"), "allowed are node, target"),
        (lambda: khop(CSR, ONE, [1], sampler="random"), "allowed are uniform, weighted, topk, full"),
        (lambda: khop(CSR, ONE, [1], sampler="full"), "it takes all, give None"),
        (lambda: khop(CSR, ONE, [1], sampler="topk"), "needs weight, one number for each"),
        (lambda: khop(CSR, ONE, [1], sampler="topk", weight=BAD[:-1]), "has shape"),
        (lambda: khop(CSR, ONE, [1], sampler="topk", weight=BAD, replacement=True), "allowed are uniform, weighted"),
        (lambda: khop(CSR, ONE, [None], replacement=True), "say how many times"),
        (lambda: khop(CSR, ONE, [1], sampler="weighted", weight=BAD), r"edge \d+ has weight nan"),
        (lambda: khop(CSR, ONE, [1], sampler="weighted", weight=0 * BAD), r"edge \d+ has weight"),
        (lambda: khop(CSR, ONE, [1], sampler="topk", weight=BAD), r"edge \d+ has weight nan"),
        (lambda: khop(CSR, ONE, [1], sampler="weighted", weight=np.full(CSR.nnz, -1.0)), "finite and above 0"),
        (
            lambda: khop(CSR, ONE, [1], sampler="weighted", weight=np.full(CSR.nnz, 1e308)),
            r"edge \d+ has weight 1e\+308",
        ),
        (lambda: khop(CSR, ONE, [1], sampler="weighted", weight=np.full(CSR.nnz, 1e-300)), "from 1e-290 to 1e\\+290"),
        (lambda: summed(CSR, np.full(CSR.nnz, 1e308)), r"edge \d+ has weight 1e\+308"),
        (lambda: summed(CSR, np.zeros(CSR.nnz, dtype=np.float32)), r"edge \d+ has weight 0.0"),
        (lambda: summed(CSR, np.full(CSR.nnz, np.inf, dtype=np.float32)), r"edge \d+ has weight inf"),
        (lambda: khop(Csr(CSR.indptr, CSR.indices, (40, 50)), ONE, [1]), "as many rows as columns"),
        (
            lambda: khop(Csr(CSR.indptr[:3], CSR.indices, CSR.shape), ONE, [1]),
            "indptr has shape .3.: 40 rows need 41 starts",
        ),
        (
            lambda: sample_neighbors(Csr(CSR.indptr + 1, CSR.indices, CSR.shape), ONE, 1),
            f"40 rows need 41 starts, 0 to {CSR.nnz}",
        ),
        (lambda: khop(Csr(CSR.indptr, CSR.indices * 1.0, CSR.shape), ONE, [1]), "indices is of float64: whole numbers"),
        (lambda: sample_neighbors(CSR, ONE, 3, targets=np.arange(2)), "targets has 2 entries"),
        (lambda: layer_blocks(khop(CSR, ONE, [None]), 1, "tigth"), "allowed are tight, paper, full"),
        (lambda: layer_blocks(khop(CSR, ONE, [None]), 2), "the neighbourhood has 1 hops"),
        (lambda: union([]), "at least one"),
        (lambda: union([khop(CSR, ONE, [1], scope="target")]), "only scope='node' can be merged"),
        (lambda: union([khop(CSR, ONE, [1]), khop(CSR, ONE, [2])]), "only equal ones can be merged"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_targets_are_a_set_and_weights_elsewhere_do_not_matter():
    same(khop(CSR, np.array([5, 1, 5]), [3, 2]), khop(CSR, np.array([1, 5]), [3, 2]))
    elsewhere = np.where(CSR.destinations == 2, BAD[0], np.float32(1))
    assert khop(CSR, ONE, [2], sampler="weighted", weight=elsewhere).csr.nnz == 2


@pytest.mark.parametrize(("sampler", "replacement"), [("uniform", False), ("topk", False), ("weighted", True)])
def test_the_definition_lists_the_in_edges_of_some_rows_at_a_time(sampler, replacement, monkeypatch):
    csr, nodes, lists, in_edges = graph(3), np.arange(20), [], definition.in_edges
    monkeypatch.setattr("backends.kernels.dispatch.extension", None)
    monkeypatch.setattr(definition, "in_edges", lambda *rows: lists.append(in_edges(*rows)) or lists[-1])
    sample = partial(sample_neighbors, csr, nodes, 3, 0, sampler, weights(csr), replacement)
    whole = sample()
    monkeypatch.setattr(definition, "_EDGES_AT_ONCE", 5)
    in_parts = sample()
    assert np.array_equal(in_parts.positions, whole.positions)
    assert np.array_equal(in_parts.csr.indptr, whole.csr.indptr)
    assert len(lists[0][0]) == csr.nnz
    assert max(len(rows) for rows, _ in lists[1:]) <= 5 + csr.in_degrees.max() < csr.nnz
