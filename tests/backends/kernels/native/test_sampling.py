"""The compiled search and sampling against their numpy definition, bit for bit, for any number of threads."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import definition
from backends.kernels.definition import Drawing
from backends.kernels.extension import extension
from backends.kernels.native import sampling
from backends.kernels.neighbourhood import reaches
from datasets.csr import Csr, csr_from_edges
from datasets.randomness import hash_ids, keyed, logarithm, unit_interval

NODES = 3000
choices = st.sampled_from(
    [("uniform", False), ("weighted", False), ("topk", False), ("full", False), ("uniform", True), ("weighted", True)]
)


def crowd(seed, ids="shuffled", index=np.int32, real=np.float32):
    """Hubs of some 10,000 in-edges, nodes of about 100 (where the way of selecting changes), a long tail, ties."""
    draw = np.random.default_rng(seed)
    tail = np.minimum((draw.pareto(1.1, 20000) * 5).astype(np.int64), NODES - 2)
    destinations = np.concatenate(
        [np.zeros(10000, dtype=np.int64), np.full(9000, 7), draw.integers(8, 300, 26000), tail]
    )
    sources = draw.integers(0, NODES, len(destinations))
    csr = csr_from_edges(sources, destinations, (NODES, NODES))
    names = {"shuffled": draw.permutation(csr.nnz).astype(index), "large": csr.ids.astype(np.int64) * 97 + 2**40}
    weight = draw.choice(np.array([0.25, 0.5, 1.0, 3.0]), csr.nnz).astype(real)
    return Csr(csr.indptr.astype(index), csr.indices.astype(index), csr.shape, names.get(ids)), weight


def with_isolated_nodes(csr, count=1 << 21):
    """Add so many isolated nodes that a search keeps a table of the touched nodes instead of a bit for each node."""
    indptr = np.concatenate([csr.indptr, np.full(count, csr.nnz, dtype=csr.indptr.dtype)])
    return Csr(indptr, csr.indices, (csr.shape[0] + count,) * 2, csr.edge_ids)


def equal(actual, expected):
    np.testing.assert_array_equal(actual.starts, expected.starts)
    np.testing.assert_array_equal(actual.positions, expected.positions)
    np.testing.assert_array_equal(actual.ids, expected.ids)
    assert actual.ids.dtype == expected.ids.dtype


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 3),
    choices,
    st.sampled_from(["shuffled", "large", "position"]),
    st.sampled_from([(np.int32, np.float32), (np.int64, np.float64)]),
    st.lists(st.integers(1, 120), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2, 3, 8]),
)
def test_searches_are_equal(seed, choice, ids, types, fanouts, apart, needed, many, workers):
    csr, weight = crowd(seed, ids, *types)
    sampler, replacement = choice
    drawing = Drawing(sampler, seed, weight, replacement)
    widest = reaches(tuple([None] * len(fanouts) if sampler == "full" else fanouts), needed)
    roots = np.sort(np.random.default_rng(seed).permutation(NODES)[:20])
    csr = csr if many else with_isolated_nodes(csr)
    before = torch.get_num_threads()
    torch.set_num_threads(workers)
    try:
        actual = sampling.search(csr, drawing, roots, widest, apart)
    finally:
        torch.set_num_threads(before)
    expected = definition.search(csr, drawing, roots, widest, apart)
    equal(actual.edges, expected.edges)
    assert actual.layers == expected.layers
    np.testing.assert_array_equal(actual.numbers, expected.numbers)
    np.testing.assert_array_equal(actual.local, expected.local)


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 3), choices, st.sampled_from(["shuffled", "position"]), st.sampled_from([1, 5, 95, 97, 4000, None])
)
def test_samples_are_equal(seed, choice, ids, fanout):
    csr, weight = crowd(seed, ids)
    sampler, replacement = choice
    fanout = (fanout or 50) if replacement else None if sampler == "full" else fanout
    drawing = Drawing(sampler, seed, weight, replacement)
    nodes = np.random.default_rng(seed).integers(0, NODES, 500)
    keys, numbers = keyed(drawing.key, nodes[::-1]), nodes + 2**33
    equal(
        sampling.sample(csr, drawing, nodes, keys, numbers, fanout),
        definition.sample(csr, drawing, nodes, keys, numbers, fanout),
    )


@pytest.mark.parametrize("ids", ["shuffled", "position"])
@pytest.mark.parametrize("fanout", [1, 5, 15, 23, 40, 97])
def test_few_of_many_edges_are_equal(fanout, ids):
    csr, _ = crowd(1, ids)
    nodes, drawing = np.concatenate([[0, 7], np.arange(8, 400)]), Drawing("uniform", 2, None, False)
    keys = keyed(drawing.key, nodes)
    actual, expected = (one.sample(csr, drawing, nodes, keys, nodes, fanout) for one in (sampling, definition))
    equal(actual, expected)


def test_hashes_and_logarithms_are_the_same_bits():
    ids = np.array([0, 1, 5, 2**31, 2**40 + 7])
    assert [extension.keyed(12345, int(i)) for i in ids] == keyed(12345, ids).tolist()
    values = np.concatenate([unit_interval(hash_ids(0, "values", np.arange(20000))), [1.0, 2.0**-53]])
    assert [extension.logarithm(float(value)) for value in values] == logarithm(values).tolist()


def test_arrays_on_disk_are_read_where_they_lie(tmp_path):
    csr, weight = crowd(0)
    for name, array in {"indptr": csr.indptr, "indices": csr.indices, "ids": csr.edge_ids, "weight": weight}.items():
        np.save(tmp_path / name, array)
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in tmp_path.iterdir()}
    mapped = Csr(arrays["indptr"], arrays["indices"], csr.shape, arrays["ids"])
    for array, read in zip((mapped.indptr, mapped.indices, mapped.edge_ids), sampling._arrays(mapped), strict=True):
        assert np.shares_memory(array, read)
    drawings = [Drawing("weighted", 0, which, False) for which in (weight, arrays["weight"])]
    roots = np.arange(10)
    pairs = zip((csr, mapped), drawings, strict=True)
    ours, theirs = (sampling.search(*pair, roots, [[5, 5], [5]], False) for pair in pairs)
    equal(theirs.edges, ours.edges)


@pytest.mark.parametrize("damage", ["source", "row", "weight"])
def test_damaged_graphs_are_refused_before_memory_is_allocated(damage):
    csr, weight = crowd(0)
    indptr, indices = csr.indptr.copy(), csr.indices.copy()
    if damage == "source":
        indices[indptr[0]] = NODES
    elif damage == "row":
        indptr[1] = csr.nnz + 5
    else:
        weight[indptr[0] + 3] = np.nan
    message = {"source": "has source 3000", "row": "row 0 reaches", "weight": f"edge {csr.edge_ids[3]} has weight nan"}
    with pytest.raises(ValueError, match=message[damage]):
        sampling.search(
            Csr(indptr, indices, csr.shape, csr.edge_ids),
            Drawing("topk", 0, weight, False),
            np.arange(1),
            [[20000]],
            False,
        )
