"""What is balanced: classes of any numbers, weights of any size, types without nodes."""

from fractions import Fraction

import numpy as np
import pymetis
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.contract import PartitionTask
from backends.distpart.assign import METHODS, AssignOptions, assign, constraints
from backends.distpart.commandline import main
from backends.distpart.files.chunked import write_chunked
from backends.distpart.multilevel import COARSEST, NODES_PER_PART, Multilevel
from backends.distpart.typed_graph import GraphError, typed_graph
from backends.kernels.extension import extension
from datasets.schema import Relation, Schema
from tests.backends.distpart.graphs import homogeneous, stored_graph
from tests.backends.distpart.plain_graphs import grid

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def test_classes_may_be_any_numbers():
    classes = constraints(homogeneous(), node_types={"_N": np.repeat([0.2, 0.7], 20)})
    np.testing.assert_array_equal(classes.sum(axis=0), [20, 20])


def test_a_class_for_each_node_is_refused():
    with pytest.raises(GraphError, match="1000 classes to balance: at most 256"):
        constraints(homogeneous(nodes=1000), node_types=np.arange(1000))


def test_rows_of_several_numbers_are_no_classes(tmp_path, capsys):
    write_chunked(homogeneous(), tmp_path / "chunks", 1)
    arguments = ["assign", str(tmp_path / "chunks"), "-p", "2", "-o", str(tmp_path / "out"), "--balance"]
    assert main([*arguments, "feat"]) == 2
    assert "_N/feat has rows of [3]: classes are one number for each node" in capsys.readouterr().err
    assert main([*arguments, "label"]) == 0


def test_loads_beyond_the_memory_are_refused_before_they_are_computed(tmp_path, capsys):
    write_chunked(homogeneous(nodes=2000), tmp_path / "chunks", 1)
    arguments = ["assign", str(tmp_path / "chunks"), "-p", "2", "-o", str(tmp_path / "out"), "--memory", "0.0001"]
    assert main([*arguments, "--balance", "label"]) == 1  # 4 classes, 128,000 bytes of 107,374
    message = capsys.readouterr().err
    assert "4 loads of 2,000 nodes need" in message and "balance fewer classes of nodes (--balance)" in message
    assert main(arguments) == 0


def test_in_degrees_are_counted_where_a_relation_has_destinations(monkeypatch):
    graph, lengths, bincount = stored_graph(nodes=1000, edges=3000), [], np.bincount

    def counted(*arguments, **options):
        counts = bincount(*arguments, **options)
        lengths.append(len(counts))
        return counts

    expected = np.zeros(graph.total_nodes, dtype=np.int64)
    for relation in graph.schema.relations:
        np.add.at(expected, graph.read(relation, 0, graph.edges[relation].count)[1], 1)
    monkeypatch.setattr(np, "bincount", counted)
    both = constraints(graph, edges=True)
    np.testing.assert_array_equal(both[:, both.shape[1] // 2 :].sum(axis=1), expected)
    assert 0 < max(lengths) <= 1007, "as many as the larger type has nodes, of 2,007"


@pytest.mark.parametrize("method", ["metis", "multilevel"])
def test_large_weights_are_balanced(method):
    graph = typed_graph(grid(20))
    weights = np.full((400, 1), 1 << 48)
    weights[:200] *= 2
    parts = assign(graph, weights, AssignOptions(4, method, imbalance=1.05))
    loads = np.bincount(parts, weights[:, 0], 4)
    assert loads.max() <= 1.06 * loads.mean()


def test_weights_whose_sum_is_beyond_64_bits_are_refused():
    weights = np.full((400, 2), 1 << 58)
    weights[:, 0] = 1
    with pytest.raises(GraphError, match=r"constraint 1 sum to .*divide them"):
        assign(typed_graph(grid(20)), weights, AssignOptions(4))


@given(parts=st.integers(1, 50), imbalance=st.floats(1, 1e300), total=st.integers(1, 1 << 62))
@example(parts=4, imbalance=1e10, total=1 << 62)
def test_a_bound_is_the_mean_times_the_imbalance_and_at_most_the_whole_load(parts, imbalance, total):
    bound = int(PartitionTask(parts, np.array([[total]]), imbalance, "cut", 0, 1).bounds[0])
    exact = max(min(Fraction(imbalance) / parts, 1) * total, -(-total // parts))
    assert abs(bound - exact) <= (0 if imbalance >= parts else 1 + exact / (1 << 50))


@given(bound=st.integers(0, 1 << 62), count=st.integers(2, 4096))
@example(bound=1 << 62, count=4096)
def test_clusters_of_large_loads_are_as_heavy_as_the_bounds_allow(bound, count):
    smallest = max(COARSEST, NODES_PER_PART * count)
    heaviest = int(Multilevel(count, np.array([bound]), 0, 1, 1).heaviest_cluster(smallest)[0])
    assert heaviest * smallest <= max(bound * count, smallest) < (heaviest + 1) * smallest


@pytest.mark.parametrize("imbalance", [1e10, 1e300])
@pytest.mark.parametrize("method", METHODS)
def test_a_bound_beyond_64_bits_is_no_bound(method, imbalance):
    weights = np.full((400, 1), (1 << 62) // 400)
    parts = assign(typed_graph(grid(20)), weights, AssignOptions(2, method, imbalance, strict=True))
    assert set(parts.tolist()) <= {0, 1}


def fail_in_metis(*_, **__):
    raise RuntimeError("METIS_ERROR_MEMORY")


@pytest.mark.parametrize(
    ("function", "instead", "message"),
    [
        ("zero_copy_dtype", lambda: np.dtype(np.int8), "METIS counts up to 127 neighbours"),
        ("part_graph", fail_in_metis, "METIS failed (METIS_ERROR_MEMORY)"),
    ],
    ids=["beyond its integers", "an error of its own"],
)
def test_what_metis_cannot_do_is_a_sentence(function, instead, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pymetis, function, instead)
    write_chunked(homogeneous(nodes=400, edges=2000), tmp_path / "chunks", 1)
    arguments = ["assign", str(tmp_path / "chunks"), "-p", "4", "-o", str(tmp_path / "out"), "--method", "metis"]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and "use another partitioner, one of multilevel" in error
    assert not (tmp_path / "out").exists()


def test_several_loads_are_refused_by_metis_in_the_words_of_the_command(tmp_path, capsys):
    write_chunked(stored_graph(nodes=400, edges=3000), tmp_path / "chunks", 1)
    arguments = ["assign", str(tmp_path / "chunks"), "-p", "4", "-o", str(tmp_path / "out"), "--method", "metis"]
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert "method 'metis' balances one load, not 2" in message and "choose another of multilevel" in message
    assert "scenario" not in message


@pytest.mark.parametrize("method", ["ldg", "fennel", "metis", "multilevel"])
def test_a_type_without_nodes_is_no_load(method):
    schema = Schema(("none", "paper"), (Relation("paper", "cites", "paper"),))
    graph = stored_graph(schema=schema, nodes=400, edges=3000)
    nodes = {"none": 0, "paper": 400}
    graph = type(graph)("toy", schema, nodes, graph.edges, {}, {})
    parts = assign(graph, constraints(graph), AssignOptions(4, method))
    assert np.bincount(parts, minlength=4).max() <= 104
