"""k-hop neighbourhoods against a breadth-first search in plain Python."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels import khop, layer_blocks
from tests.graphs import awkward_graph

cases = st.tuples(st.integers(0, 50), st.integers(1, 3), st.sets(st.integers(0, 19), min_size=1, max_size=6))


def breadth_first(csr, targets, hops):
    distance = dict.fromkeys(targets, 0)
    frontier = set(targets)
    for step in range(1, hops + 1):
        reached = {int(u) for v in frontier for u in csr.indices[csr.indptr[v] : csr.indptr[v + 1]]}
        frontier = reached - distance.keys()
        distance |= dict.fromkeys(frontier, step)
    return distance


@given(cases)
def test_nodes_distances_and_edges_are_those_of_a_search(case):
    seed, hops, targets = case
    csr = awkward_graph(seed, nodes=20, edges=40).csr
    found = khop(csr, np.array(sorted(targets)), hops)
    wanted = breadth_first(csr, targets, hops)
    assert dict(zip(found.nodes.tolist(), found.distance.tolist(), strict=True)) == wanted
    assert sorted(zip(found.distance.tolist(), found.nodes.tolist(), strict=True)) == list(
        zip(found.distance.tolist(), found.nodes.tolist(), strict=True)
    )
    inside = {i for i in range(csr.nnz) if wanted.get(int(csr.destinations[i]), hops) < hops}
    assert set(found.positions.tolist()) == inside
    np.testing.assert_array_equal(found.nodes[found.csr.destinations], csr.destinations[found.positions])
    np.testing.assert_array_equal(found.nodes[found.csr.indices], csr.indices[found.positions])
    np.testing.assert_array_equal(found.csr.ids, csr.ids[found.positions])


@given(cases)
def test_pruned_layers_keep_what_the_later_ones_read(case):
    seed, layers, targets = case
    csr = awkward_graph(seed, nodes=20, edges=40).csr
    found = khop(csr, np.array(sorted(targets)), layers)
    sizes = {}
    for form in ("full", "paper", "tight"):
        blocks = layer_blocks(found, layers, form)
        sizes[form] = sum(block.csr.nnz for block in blocks)
        for below, above in pairwise(blocks):
            assert below.csr.shape[0] >= above.csr.shape[1]
        assert blocks[-1].csr.shape[0] >= len(targets)
        for layer, block in enumerate(blocks):
            wanted = found.distance[block.csr.destinations] <= layers - layer - 1
            assert wanted.sum() == (found.distance[found.csr.destinations] <= layers - layer - 1).sum()
    assert sizes["tight"] <= sizes["paper"] <= sizes["full"]


def test_bad_hops_and_forms_are_refused():
    csr = awkward_graph().csr
    with pytest.raises(ValueError, match="at least 1 hop"):
        khop(csr, np.array([1]), 0)
    with pytest.raises(ValueError, match="allowed are full, paper, tight"):
        layer_blocks(khop(csr, np.array([1]), 1), 1, "tigth")
