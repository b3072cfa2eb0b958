"""The maps of original ids to parts, whatever ids the edges have."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.distpart.typed_graph import GraphError, typed_graph
from backends.distpart.verify import verify
from backends.kernels.extension import extension
from tests.backends.distpart.graphs import homogeneous, stored_graph
from tests.backends.distpart.test_dispatch import dispatched, random_parts
from tests.graphs import awkward_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def ids_of(edges):
    return edges.original_ids(np.arange(edges.count))


def assert_parts_by_id(graph, parts, folder):
    """Each edge's id names the part of its destination; ids of a relation stand behind those of the ones before."""
    by_id, first = np.load(folder / "edge_map.npy"), 0
    for relation in graph.schema.relations:
        ids = ids_of(graph.edges[relation])
        _, destinations = graph.read(relation, 0, len(ids))
        np.testing.assert_array_equal(by_id[first + ids], parts[destinations])
        first += max(len(ids), int(ids.max(initial=-1)) + 1)
    assert len(by_id) == first


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 99), count=st.integers(1, 5), spread=st.integers(1, 4), typed=st.booleans())
def test_the_map_of_edges_is_by_original_id(tmp_path_factory, seed, count, spread, typed):
    graph, draw = (stored_graph if typed else homogeneous)(seed), np.random.default_rng(seed)
    lists = {
        relation: replace(edges, ids=draw.permutation(spread * edges.count)[: edges.count])
        for relation, edges in graph.edges.items()
    }
    graph, parts = replace(graph, edges=lists), random_parts(graph, count, seed)
    config = dispatched(graph, parts, count, tmp_path_factory.mktemp("parts") / "out")
    assert_parts_by_id(graph, parts, config.parent)
    assert verify(graph, config)["edges"] == graph.total_edges


@pytest.mark.parametrize("ids", ["rows", "permuted", "with gaps"])
def test_the_map_of_a_matrix_is_by_edge_id(ids, tmp_path, monkeypatch):
    monkeypatch.setattr("backends.distpart.dispatch.edge_map._PIECE", 100)
    monkeypatch.setattr("backends.distpart.dispatch.forecast._PIECE", 70)
    monkeypatch.setattr("backends.distpart.dispatch.forecast._LEAST_PIECE", 70)
    graph = awkward_graph(1, 40, 300)
    edge_ids = {"rows": None, "permuted": graph.csr.ids, "with gaps": 2 * graph.csr.ids + 3}[ids]
    graph = typed_graph(replace(graph, csr=replace(graph.csr, edge_ids=edge_ids)))
    parts = random_parts(graph, 3)
    config = dispatched(graph, parts, 3, tmp_path / "out")
    assert_parts_by_id(graph, parts, config.parent)
    assert verify(graph, config)["parts"] == 3


def test_a_map_in_the_order_of_the_rows_is_refused(tmp_path):
    graph = homogeneous(1)
    ((relation, edges),) = graph.edges.items()
    graph = replace(graph, edges={relation: replace(edges, ids=np.arange(edges.count)[::-1].copy())})
    config = dispatched(graph, random_parts(graph, 3), 3, tmp_path / "out")
    path = tmp_path / "out" / "edge_map.npy"
    np.save(path, np.load(path)[ids_of(graph.edges[relation])])
    with pytest.raises(GraphError, match=r"edges of _N:_E:_N in edge_map\.npy"):
        verify(graph, config)
