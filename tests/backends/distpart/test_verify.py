"""Verification of written parts: each column is compared, damage is a refusal, and any order of nodes is right."""

import json
import re

import numpy as np
import pytest

from backends.distpart.commandline import main
from backends.distpart.dispatch.job import DispatchJob, DispatchOptions
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.files.chunked import read_chunked, write_chunked
from backends.distpart.partition_graph import partition_graph
from backends.distpart.typed_graph import ArrayEdges, GraphError
from backends.distpart.verify import verify
from backends.kernels.extension import extension
from datasets.partition.dgl_format import TensorRows, read_graph, read_tensors, write_graph, write_tensors
from tests.backends.distpart.graphs import stored_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")
PARTS = 3


def written(graph, folder, **options):
    parts = np.random.default_rng(0).integers(0, PARTS, graph.total_nodes).astype(np.int32)
    options = DispatchOptions(**({"hops": 2, "original_ids": True} | options))
    return DispatchJob(graph, Numbering.of(graph, parts, PARTS), folder, "toy", options).run()


def rewrite(path, change):
    """Change a graph's file: ``change`` gets its columns, with both ends of the edges as ``ends``."""
    stored = read_graph(path)
    nodes, edges = (
        {name: np.array(column) for name, column in table.items()} for table in (stored.ndata, stored.edata)
    )
    ends = np.stack([stored.sources, stored.destinations])
    change(nodes, edges, ends)
    tables = ({name: TensorRows.of(column) for name, column in table.items()} for table in (nodes, edges))
    write_graph(path, stored.nodes, *map(TensorRows.of, ends), *tables)


def add_one(table, name, place):
    table[name][place] += 1


def set_end(ends, place, value):
    ends[place] = value


def shorten(table, name):
    table[name] = table[name][:-1]


def reach(ends, nodes, edges):
    """Another source for the last edge, of those that other parts own."""
    ends[0, -1] = (ends[0, -1] + 1) % len(nodes["_ID"])


GRAPH_CHANGES = {
    "part of a node": (lambda n, e, _: add_one(n, "part_id", -1), "part_id"),
    "type of a node": (lambda n, e, _: add_one(n, "_TYPE", 0), "_TYPE"),
    "original id of a node": (lambda n, e, _: add_one(n, "orig_id", 1), "orig_id"),
    "type of an edge": (lambda n, e, _: add_one(e, "_TYPE", 0), "_TYPE"),
    "original id of an edge": (lambda n, e, _: add_one(e, "orig_id", 0), "orig_id"),
    "source of a far edge": (lambda n, e, ends: reach(ends, n, e), "far edges"),
    "number of a far edge": (lambda n, e, _: e["_ID"].__setitem__(-1, e["_ID"][-2]), "orig_id of edges|far edges"),
    "a source beyond": (lambda n, e, ends: set_end(ends, (0, 0), 1 << 40), "edge 0 has source"),
    "a destination below": (lambda n, e, ends: set_end(ends, (1, 2), -1), "edge 2 has destination -1"),
    "a short column": (lambda n, e, _: shorten(e, "_ID"), "_ID has"),
    "an id beyond": (lambda n, e, _: n["_ID"].__setitem__(-1, 1 << 40), "HALO nodes"),
    "an edge's number beyond": (lambda n, e, _: e["_ID"].__setitem__(-1, 1 << 40), "far edges"),
    "no column": (lambda n, e, _: n.pop("part_id"), "part_id"),
}


@pytest.mark.parametrize("what", GRAPH_CHANGES)
def test_each_column_of_a_part_is_compared(what, tmp_path):
    graph, (change, message) = stored_graph(2), GRAPH_CHANGES[what]
    config = written(graph, tmp_path / "out")
    verify(graph, config)
    rewrite(tmp_path / "out" / "part1" / "graph.dgl", change)
    with pytest.raises(ValueError, match=rf"part 1 is wrong: .*({message})"):
        verify(graph, config)


def drop_ranges(folder):
    path = folder / "toy.json"
    facts = json.loads(path.read_text())
    facts["node_map"]["paper"].pop()
    path.write_text(json.dumps(facts))


def cut_map(folder):
    np.save(folder / "edge_map.npy", np.load(folder / "edge_map.npy")[:-1])


def rewrite_tensor(path, name, change):
    tensors = {each: np.array(column) for each, column in read_tensors(path).items()}
    tensors[name] = change(tensors[name])
    write_tensors(path, {each: TensorRows.of(column) for each, column in tensors.items()})


def more_rows(folder):
    path = folder / "part1" / "node_feat.dgl"
    rewrite_tensor(path, "paper/feat", lambda rows: np.concatenate([rows, np.zeros((1, 3), np.float32)]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop_ranges, "node_map has no range of paper in part 2"),
        (cut_map, r"edge_map\.npy has 179 rows"),
        (lambda folder: (folder / "node_map.npy").write_bytes(b""), r"node_map\.npy is no NumPy file"),
        (more_rows, "number of rows of paper/feat"),
    ],
    ids=["too few ranges", "a short map", "an empty map", "a row too many"],
)
def test_other_damage_is_refused(change, message, tmp_path, capsys):
    write_chunked(stored_graph(2), tmp_path / "chunks", 1)
    written(stored_graph(2), tmp_path / "out")
    change(tmp_path / "out")
    assert main(["verify", str(tmp_path / "chunks"), str(tmp_path / "out" / "toy.json")]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_parts_whose_nodes_are_in_another_order_are_right(tmp_path):
    graph = stored_graph(2)
    parts = np.zeros(graph.total_nodes, np.int32)
    new_ids = np.arange(graph.total_nodes)
    new_ids[:30] = new_ids[:30][::-1]  # of the authors
    job = DispatchJob(graph, Numbering.with_ids(graph, parts, 1, new_ids), tmp_path / "out", "toy")
    config = job.run()
    write_chunked(graph, tmp_path / "chunks", 2)
    assert verify(read_chunked(tmp_path / "chunks", tmp_path / "work"), config)["nodes"] == graph.total_nodes


@pytest.mark.parametrize(
    ("file", "name", "message"),
    [
        ("node_feat.dgl", "paper", "trainer_id of nodes"),
        ("edge_feat.dgl", "author:writes:paper", "trainer_id of edges"),
    ],
    ids=["nodes", "edges"],
)
def test_trainers_are_compared(file, name, message, tmp_path):
    graph = stored_graph(2)
    partition_graph(graph, "toy", 2, tmp_path / "out", part_method="random", num_trainers_per_machine=3)
    verify(graph, tmp_path / "out" / "toy.json")
    rewrite_tensor(tmp_path / "out" / "part1" / file, f"{name}/trainer_id", lambda ids: ids - 3)
    with pytest.raises(GraphError, match=f"part 1 is wrong: {message}"):
        verify(graph, tmp_path / "out" / "toy.json")


def test_each_part_is_opened_once_and_each_relation_sorted_once(tmp_path, monkeypatch):
    graph = stored_graph(2)
    config = written(graph, tmp_path / "out")
    opened, sorted_relations, original_ids = [], [], ArrayEdges.original_ids
    monkeypatch.setattr("backends.distpart.verify.read_graph", lambda path: opened.append(path) or read_graph(path))
    monkeypatch.setattr(
        ArrayEdges, "original_ids", lambda self, rows: sorted_relations.append(self) or original_ids(self, rows)
    )
    verify(graph, config)
    assert len(opened) == PARTS
    assert len(sorted_relations) == len(graph.schema.relations)
