"""Filters of GraphFlat: edges are filtered before sampling, refused expressions name the allowed columns."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from backends.agl.flat import source
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.flat.source import Source
from backends.agl.graphfeature import decode
from datasets.csr import row_ranges
from datasets.features import SparseFeatures, in_layout
from datasets.filters import EdgeFilter, FilterError, check_filter
from datasets.graph import Graph
from tests.backends.agl.flat.test_local import strings_of
from tests.graphs import awkward_graph


def test_edges_are_filtered_before_sampling_and_degrees_are_kept(tmp_path):
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


def edges_that_pass(graph, text):
    return EdgeFilter(graph, text).mask(0, graph.csr.nnz)


def test_a_column_of_sparse_features_is_read_once_for_all_edges(tmp_path, monkeypatch):
    graph, read, column = awkward_graph(4), [], SparseFeatures.column
    graph = replace(graph, features=in_layout(graph.features, "sparse"))
    monkeypatch.setattr(SparseFeatures, "column", lambda self, number: read.append(number) or column(self, number))
    monkeypatch.setattr(source, "EDGES_AT_ONCE", 10)
    Source.build(graph, parse_sampling("full()", 1), "neighbor.feature[2] < 0 or neighbor.feature[2] > 1", tmp_path)
    assert read == [2]


def peak_of(function, *arguments):
    """The most bytes that a call takes at a time, and what it returns."""
    tracemalloc.start()
    result = function(*arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, result


def test_edges_of_a_hub_are_filtered_and_their_weights_added_a_range_at_a_time(tmp_path, monkeypatch):
    in_memory, text = awkward_graph(0, edges=400_000, weighted=True), "weight > 1"
    (tmp_path / "graph").mkdir()
    in_memory.save(tmp_path / "graph")
    graph, strategy = Graph.load(tmp_path / "graph"), parse_sampling("full()", 1)
    monkeypatch.setattr(source, "EDGES_AT_ONCE", 1000)
    peak, built = peak_of(Source.build, graph, strategy, text, tmp_path / "source")
    assert peak < 2 * graph.csr.nnz
    weights = in_memory.edge_weights.astype(np.float64)
    degrees = np.bincount(in_memory.csr.destinations, weights=weights, minlength=graph.nodes)
    assert np.array_equal(built.weighted_degrees, degrees), "to the bit"
    passing = np.flatnonzero(edges_that_pass(in_memory, text))
    assert np.array_equal(built.table.positions, passing)
    assert np.array_equal(built.table.csr.destinations, in_memory.csr.destinations[passing])


def test_ranges_of_rows_do_not_convert_the_starts_of_all_rows():
    indptr = np.arange(1_000_001, dtype=np.int32)
    peak, ranges = peak_of(row_ranges, indptr, 100_000)
    assert peak < indptr.nbytes / 2 and ranges[:2] == [(0, 100_000), (100_000, 200_000)] and len(ranges) == 10


def test_values_in_a_list_or_set_are_those_that_equal_one_of_them():
    graph = awkward_graph(4)
    graph = replace(graph, edge_weights=(np.arange(graph.csr.nnz) % 3 / 10 + 0.1).astype(np.float32))
    either = edges_that_pass(graph, "weight == 0.1 or weight == 0.3")
    assert 0 < either.sum() < len(either)
    for others in ("(0.1, 0.3)", "[0.1, 0.3]", "{0.1, 0.3}"):
        assert np.array_equal(edges_that_pass(graph, f"weight in {others}"), either)
        assert np.array_equal(edges_that_pass(graph, f"weight not in {others}"), ~either)


@pytest.mark.parametrize("text", ["type + 3000000000 > 3000000003", "type * 100000 > 300000", "type in (4, 30000)"])
def test_arithmetic_on_types_neither_wraps_nor_ends_the_command(text):
    graph = awkward_graph(4)
    graph = replace(graph, edge_types=np.where(np.arange(graph.csr.nnz) % 2, 30000, 3).astype(np.int32))
    assert np.array_equal(edges_that_pass(graph, text), graph.edge_types == 30000)


@pytest.mark.parametrize(
    "text", ["weight >", "colour > 1", "neighbor.colour == 1", "weight + 1", "feature[0] > 1", "f()", "1 / 0 > weight"]
)
def test_a_wrong_filter_is_refused_with_the_allowed_columns(text, tmp_path):
    with pytest.raises(
        ValueError, match=r"filter .* (columns are|write for example|compare columns|cannot be compared)"
    ):
        Source.build(awkward_graph(1, weighted=True), parse_sampling("full()", 1), text, tmp_path)


def test_a_number_above_all_floats_is_refused():
    with pytest.raises(FilterError, match="compares values that cannot be compared"):
        edges_that_pass(awkward_graph(1, weighted=True), f"weight + 1{400 * '0'} > 0")


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("type == 'follows'", "'follows'"),
        ("weight != '0.5'", "'0.5'"),
        ("type == None", "None"),
        ("not type != None", "None"),
        ("type in ('1', 2)", r"\('1', 2\)"),
        ("type in {b'1'}", r"\{b'1'\}"),
        ("weight not in [1, None]", r"\[1, None\]"),
        ("type in ((0, 1), (1, 2))", r"\(\(0, 1\), \(1, 2\)\)"),
        ("weight * 'a' > 1", "'a'"),
    ],
)
def test_what_is_no_number_is_refused_and_drops_no_edge(text, literal):
    graph = awkward_graph(4, weighted=True)
    graph = replace(graph, edge_types=np.ones(graph.csr.nnz, dtype=np.int32))
    with pytest.raises(FilterError, match=rf"^filter .* compares with {literal}, but columns hold numbers: give a num"):
        check_filter(graph, text)
    assert edges_that_pass(graph, "type == True and type in {1, 2.5} and type == {1}").all()
    with pytest.raises(FilterError, match="cannot be compared"):
        check_filter(graph, "type == {1, 2}")
