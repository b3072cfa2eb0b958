"""Data set partition: the parts on disk are the graph again, in their order, and ranks take their bounds."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from backends.distpart.partition_graph import partition_graph
from backends.kernels.extension import extension
from datasets.graph import Graph
from datasets.partition.dgl_format import TensorRows, read_graph, write_graph
from datasets.registry import load_dataset
from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.planning.plan import PlannedRun, form_groups
from harness.usage import UsageError
from tests.backends.distpart.graphs import homogeneous, stored_graph
from tests.graphs import awkward_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_are_the_graph_again(parts, tmp_path):
    graph = awkward_graph(2, 200, 900, weighted=True)
    partition_graph(graph, "mine", parts, tmp_path / "out")
    again = load_dataset("partition", {"config": str(tmp_path / "out" / "mine.json")}, tmp_path)
    np.testing.assert_array_equal(np.sort(again.node_ids), np.arange(graph.nodes))
    np.testing.assert_array_equal(again.features, graph.features[again.node_ids])
    np.testing.assert_array_equal(again.labels, graph.labels[again.node_ids])
    np.testing.assert_array_equal(again.split, graph.split[again.node_ids])
    by_id = np.argsort(graph.csr.ids)
    at = by_id[np.searchsorted(graph.csr.ids, again.csr.ids, sorter=by_id)]
    np.testing.assert_array_equal(again.node_ids[again.csr.indices], graph.csr.indices[at])
    np.testing.assert_array_equal(again.node_ids[again.csr.destinations], graph.csr.destinations[at])
    np.testing.assert_array_equal(again.edge_weights, graph.edge_weights[at])
    assert again.part_bounds[-1] == graph.nodes
    assert len(again.part_bounds) == parts + 1
    folder = tmp_path / "saved"
    folder.mkdir()
    again.save(folder)
    np.testing.assert_array_equal(Graph.load(folder).part_bounds, again.part_bounds)


def test_numbers_that_are_not_finite_and_labels_that_are_ids_are_refused(tmp_path):
    graph = awkward_graph(2, 40, 90, weighted=True)
    features, weights = graph.features.copy(), graph.edge_weights.copy()
    features[7, 1], weights[3] = np.nan, np.inf
    wrong = {
        "feat: row .* is not finite": replace(graph, features=features),
        "weight: row .* is not finite": replace(graph, edge_weights=weights),
        "label 2097153 of new node .* is an id": replace(graph, labels=graph.labels + (1 << 21) * (graph.labels == 1)),
    }
    for number, (message, each) in enumerate(wrong.items()):
        folder = tmp_path / str(number)
        partition_graph(each, "mine", 2, folder, part_method="random")
        with pytest.raises(ValueError, match=message):
            load_dataset("partition", {"config": str(folder / "mine.json")}, tmp_path)


def test_a_typed_graph_becomes_a_union_with_notes(tmp_path):
    graph = stored_graph(1)
    partition_graph(graph, "toy", 2, tmp_path / "out", part_method="random")
    union = load_dataset("partition", {"config": str(tmp_path / "out" / "toy.json")}, tmp_path)
    assert union.nodes == graph.total_nodes
    assert union.csr.nnz + union.self_loops_dropped == graph.total_edges
    assert np.bincount(union.node_types).tolist() == [30, 37]


@pytest.mark.parametrize(
    ("label", "task", "classes", "expected"),
    [
        (np.array([[150], [3]] * 20), "multiclass", 151, [150, 3] * 20),
        (np.array([1, np.nan] * 20, dtype=np.float32), "multiclass", 2, [1, -1] * 20),
        (np.array([[1, 0], [np.nan, 1]] * 20, dtype=np.float32), "multilabel", 2, [[1, 0], [-1, 1]] * 20),
        (np.array([[1], [-1]] * 20, dtype=np.int8), "multilabel", 1, [[1], [-1]] * 20),
        (np.array([[3, 0]] * 40), "refused", 0, []),
        (np.array([-2] * 40), "refused", 0, []),
        (np.array([0.5] * 40), "refused", 0, []),
    ],
    ids=["column", "missing", "several", "set-of-one", "several-wrong", "negative", "half"],
)
def test_labels_of_any_shape_are_those_that_were_stored(label, task, classes, expected, tmp_path):
    graph = homogeneous()
    graph.node_data["_N"].update(label=label, feat=np.arange(40))
    partition_graph(graph, "toy", 2, tmp_path / "out")
    options = {"config": str(tmp_path / "out" / "toy.json")}
    if task == "refused":
        with pytest.raises(ValueError, match=r"label of new node 0 is (3|-2|0\.5): labels are"):
            load_dataset("partition", options, tmp_path)
        return
    again = load_dataset("partition", options, tmp_path)
    assert (again.task, again.classes) == (task, classes)
    assert again.labels.tolist() == [expected[node] for node in again.node_ids]
    assert again.features.tolist() == [[float(node)] for node in again.node_ids]


def with_source(path, node):
    """Rewrite the graph of a part with another source of its first edge."""
    graph = read_graph(path)
    sources = np.array(graph.sources)
    sources[0] = node
    ndata, edata = (
        {name: TensorRows.of(np.array(column)) for name, column in columns.items()}
        for columns in (graph.ndata, graph.edata)
    )
    destinations = TensorRows.of(np.array(graph.destinations))
    write_graph(path, graph.nodes, TensorRows.of(sources), destinations, ndata, edata)


def test_damaged_parts_are_named(tmp_path):
    partition_graph(awkward_graph(2, 60, 200), "mine", 2, tmp_path / "out")
    options = {"config": str(tmp_path / "out" / "mine.json")}
    with_source(tmp_path / "out" / "part1" / "graph.dgl", 1000)
    with pytest.raises(ValueError, match=r"part1/graph.dgl: edge 0 has source 1000, there are \d+ nodes: write"):
        load_dataset("partition", options, tmp_path)
    facts = json.loads((tmp_path / "out" / "mine.json").read_text())
    (tmp_path / "out" / "mine.json").write_text(json.dumps(facts | {"node_map": {}}))
    with_source(tmp_path / "out" / "part1" / "graph.dgl", 0)
    with pytest.raises(ValueError, match="do not belong together"):
        load_dataset("partition", options, tmp_path)


def test_a_partition_without_original_ids_has_its_own(tmp_path):
    graph = awkward_graph(2, 60, 200, weighted=True)
    partition_graph(graph, "mine", 2, tmp_path / "out")
    options = {"config": str(tmp_path / "out" / "mine.json")}
    stored = load_dataset("partition", options, tmp_path)
    for path in (tmp_path / "out").glob("part*/orig_*.dgl"):
        path.unlink()
    again = load_dataset("partition", options, tmp_path)
    assert again.node_ids.tolist() == list(range(60)) and np.array_equal(again.csr.indices, stored.csr.indices)
    assert np.array_equal(again.features, stored.features) and np.array_equal(again.edge_weights, stored.edge_weights)
    assert any("no original ones" in note for note in again.notes)


def test_another_partition_at_the_same_path_is_another_cell(tmp_path):
    hashes = []
    for seed in (2, 2, 3):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        partition_graph(awkward_graph(seed, 60, 200), "mine", 2, tmp_path / "out")
        option = f"+dataset.options.config={tmp_path}/out/mine.json"
        config = load(compose_one(["backend=dummy", "dataset=partition", option]))
        (group,) = form_groups([PlannedRun(config)], lambda config: {})
        hashes.append(group.cells[0].hash)
    assert hashes[0] == hashes[1] != hashes[2]
    assert load_dataset("partition", config.dataset.options, tmp_path).nodes == 60
    with pytest.raises(ValueError, match="changed since the run began"):
        load_dataset("partition", config.dataset.options | {"sha256": "0" * 12}, tmp_path)
    with pytest.raises(UsageError, match="this is another partition"):
        load(compose_one(["backend=dummy", "dataset=partition", option, "+dataset.options.sha256=abc"]))


@pytest.mark.parametrize(
    ("text", "message"), [("{", "does not describe"), ("{}", "it has no"), (None, "does not describe")]
)
def test_what_is_no_partition_is_refused(text, message, tmp_path):
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_dataset("partition", {"config": str(path)}, tmp_path)
    with pytest.raises(ValueError, match=r"needs .*config"):
        load_dataset("partition", {}, tmp_path)
