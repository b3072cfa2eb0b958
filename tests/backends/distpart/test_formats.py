"""Formats around partitions: chunked graphs, assignments, the text of pm_dglpart; bad input names file and row."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from backends.distpart.commandline import main
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.files.assignment import read_assignment, write_assignment
from backends.distpart.files.chunked import FORMATS, read_chunked, write_chunked
from backends.distpart.typed_graph import GraphError
from backends.kernels.extension import extension
from datasets.partition.dgl_format import read_graph, read_tensors
from tests.backends.distpart.graphs import TYPED, homogeneous, stored_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def run(*arguments):
    return main([str(argument) for argument in arguments])


def assert_equal_graphs(first, second):
    assert first.schema == second.schema
    assert dict(first.nodes) == dict(second.nodes)
    for relation in first.schema.relations:
        count = first.edges[relation].count
        assert count == second.edges[relation].count
        for ours, theirs in zip(
            first.edges[relation].read(0, count), second.edges[relation].read(0, count), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    for tables in ((first.node_data, second.node_data), (first.edge_data, second.edge_data)):
        for kind, arrays in tables[0].items():
            for name, array in arrays.items():
                stored = tables[1][kind][name][np.arange(len(array))]
                np.testing.assert_array_equal(stored.reshape(array.shape).astype(array.dtype), array)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("make", [stored_graph, homogeneous], ids=["typed", "homogeneous"])
@pytest.mark.parametrize("chunks", [1, 3])
def test_a_chunked_graph_is_read_back(form, make, chunks, tmp_path):
    graph = make(1)
    write_chunked(graph, tmp_path / "chunks", chunks, form, form)
    assert_equal_graphs(graph, read_chunked(tmp_path / "chunks", tmp_path / "work"))


@pytest.mark.parametrize("unit", ["chunk", "type"])
def test_counts_may_stand_per_chunk_or_per_type(unit, tmp_path):
    graph = stored_graph()
    write_chunked(graph, tmp_path / "chunks", 2)
    path = tmp_path / "chunks" / "metadata.json"
    facts = json.loads(path.read_text())
    for what in ("nodes", "edges"):
        del facts[f"num_{what}_per_{'type' if unit == 'chunk' else 'chunk'}"]
    path.write_text(json.dumps(facts))
    assert_equal_graphs(graph, read_chunked(tmp_path / "chunks", tmp_path / "work"))


def test_the_steps_are_the_whole(tmp_path):
    graph = stored_graph(2, nodes=80, edges=400)
    chunks, assigned = tmp_path / "chunks", tmp_path / "assigned"
    write_chunked(graph, chunks, 2)
    assert run("assign", chunks, "-p", 4, "-o", assigned) == 0
    assert run("dispatch", chunks, assigned, "-o", tmp_path / "steps", "--name", "toy") == 0
    assert run("partition", chunks, "-p", 4, "-o", tmp_path / "whole", "--name", "toy") == 0
    for part in range(4):
        for file in ("graph.dgl", "node_feat.dgl", "edge_feat.dgl", "orig_nids.dgl"):
            steps, whole = (tmp_path / folder / f"part{part}" / file for folder in ("steps", "whole"))
            assert steps.read_bytes() == whole.read_bytes()
    assert run("verify", chunks, tmp_path / "steps" / "toy.json") == 0
    assert run("partition", chunks, "-p", 4, "-o", tmp_path / "whole", "--name", "toy") == 2


def test_dgl_reads_our_assignment_and_we_read_that_of_its_tools(tmp_path):
    graph = stored_graph()
    parts = np.random.default_rng(0).integers(0, 3, graph.total_nodes).astype(np.int32)
    write_assignment(graph, parts, 3, "multilevel", tmp_path / "ours")
    facts = json.loads((tmp_path / "ours" / "partition_meta.json").read_text())
    assert (facts["version"], facts["num_parts"], facts["algo_name"]) == ("1.0.0", 3, "metis")
    assert (tmp_path / "ours" / "author.txt").read_text() == "".join(f"{part}\n" for part in parts[:30])
    read, count, method = read_assignment(graph, tmp_path / "ours")
    np.testing.assert_array_equal(read, parts)
    assert (count, method) == (3, "multilevel")
    (tmp_path / "ours" / "partition_meta.json").write_text(
        '{"version": "1.0.0", "num_parts": 3, "algo_name": "random"}'
    )
    assert read_assignment(graph, tmp_path / "ours")[1:] == (3, "random")


def spoil_metadata(key, value):
    def spoil(folder):
        path = folder / "metadata.json"
        facts = json.loads(path.read_text())
        if value is None:
            del facts[key]
        else:
            facts[key] = value
        path.write_text(json.dumps(facts))

    return spoil


def rewrite(name, change):
    def spoil(folder):
        path = folder / name
        np.save(path, change(np.load(path)))

    return spoil


def truncate(path: Path):
    path.write_bytes(path.read_bytes()[:-7])


SPOILT = {
    "no metadata": (lambda folder: (folder / "metadata.json").unlink(), "metadata.json does not exist"),
    "no JSON": (lambda folder: (folder / "metadata.json").write_text("{"), "is no JSON"),
    "no counts": (
        lambda folder: (
            spoil_metadata("num_nodes_per_chunk", None)(folder),
            spoil_metadata("num_nodes_per_type", None)(folder),
        ),
        "neither num_nodes_per_chunk",
    ),
    "counts of text": (spoil_metadata("num_nodes_per_chunk", ["x", [3], [4]]), "nodes of author as .*whole numbers"),
    "half a node": (spoil_metadata("num_nodes_per_chunk", [[15, 15.5], [3], [4]]), "nodes of author as .*whole"),
    "a type too many": (spoil_metadata("node_type", ["author", "paper", "venue", "x"]), "counts nodes of 3 types"),
    "a type twice": (spoil_metadata("node_type", ["author", "paper", "paper"]), "paper is named twice"),
    "an unknown end": (
        spoil_metadata("edge_type", ["author:writes:book", "b:c:d", "a:b:c", "d:e:f"]),
        "names node type",
    ),
    "a missing chunk": (lambda f: (f / "node_data/paper/feat-1.npy").unlink(), r"feat-1\.npy does not exist"),
    "a cut chunk": (lambda f: truncate(f / "node_data/paper/feat-1.npy"), r"feat-1\.npy is no NumPy file, or cut"),
    "another type": (
        rewrite("node_data/paper/feat-1.npy", lambda a: a.astype(np.int64)),
        r"feat-1\.npy has rows of int64",
    ),
    "another width": (rewrite("node_data/paper/feat-1.npy", lambda a: a[:, :1]), r"feat-1\.npy has rows"),
    "a row too few": (
        rewrite("node_data/paper/feat-1.npy", lambda a: a[:-1]),
        "feat has 36 rows, there are 37 of paper",
    ),
    "text for an id": (
        lambda f: (f / "edge_index/author:writes:paper-0.txt").write_text("1 x\n" * 30),
        "cannot be read as rows of numbers",
    ),
    "a ragged row": (
        lambda f: (f / "edge_index/author:writes:paper-0.txt").write_text("1 2\n" * 29 + "1 2 3\n"),
        r"paper-0\.txt cannot be read.*[Rr]ow #",
    ),
    "an edge too few": (
        lambda f: (f / "edge_index/author:writes:paper-0.txt").write_text("1 2\n" * 29),
        r"paper-0\.txt has 29 rows",
    ),
    "a dangling edge": (
        lambda f: (f / "edge_index/author:writes:paper-0.txt").write_text("1 2\n" * 29 + "1 99\n"),
        "edge 29 of author:writes:paper has destination 99",
    ),
}


@pytest.mark.parametrize("what", SPOILT)
def test_a_spoilt_chunked_graph_is_refused_by_name_and_nothing_is_left(what, tmp_path, capsys):
    spoil, message = SPOILT[what]
    write_chunked(stored_graph(), tmp_path / "chunks", 2)
    spoil(tmp_path / "chunks")
    assert (
        run("partition", tmp_path / "chunks", "-p", 2, "-o", tmp_path / "out", "--name", "toy", "--method", "random")
        == 2
    )
    assert re.search(message, capsys.readouterr().err)
    assert not list(tmp_path.glob("out/*.json"))
    assert not list(tmp_path.glob("out/part*"))


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("author.txt", "0\n" * 29, "29 lines for 30 nodes"),
        ("author.txt", "0\n" * 29 + "5\n", "row 29 is part 5"),
        ("author.txt", "0\n" * 29 + "x\n", "does not have a part in every line"),
        ("author.txt", "", "0 lines for 30 nodes"),
        ("partition_meta.json", "{}", "does not say num_parts"),
        ("partition_meta.json", '{"num_parts": 0}', "at least 1"),
    ],
)
def test_a_spoilt_assignment_is_refused(file, text, message, tmp_path):
    graph = stored_graph()
    write_assignment(graph, np.zeros(graph.total_nodes, np.int32), 3, "random", tmp_path / "assigned")
    (tmp_path / "assigned" / file).write_text(text)
    with pytest.raises(GraphError, match=message):
        read_assignment(graph, tmp_path / "assigned")


TOY_NODES = ["0 1 0 0 7.5", "0 1 0 1 8.5", "0 1 0 2 9.5", "1 0 1 0 1.5", "1 0 1 1 2.5", "1 0 1 2 3.5", "1 0 1 3 4.5"]
TOY_EDGES = ["0 3 0 0 1", "1 4 1 0 2", "2 5 2 0 3", "3 0 0 1 4", "4 1 1 1 5", "6 2 2 1 6", "3 4 0 2 7", "5 6 1 2 8"]
TOY_SCHEMA = {
    "nid": {"user": [0, 3], "item": [3, 7]},
    "eid": {"buys": [0, 3], "bought_by": [3, 6], "like": [6, 8]},
}


def write_toy(folder, nodes=TOY_NODES, edges=TOY_EDGES, stats=None):
    for what, rows in (("nodes", nodes), ("edges", edges), ("stats", [stats or f"{len(nodes)} {len(edges)} 2"])):
        (folder / f"toy_{what}.txt").write_text("".join(f"{row}\n" for row in rows))
    (folder / "schema.json").write_text(json.dumps(TOY_SCHEMA))


def converted(folder, parts, *options, weights=2):
    return run(
        "convert", "--input-dir", folder, "--graph-name", "toy", "--schema", folder / "schema.json",
        "--num-parts", parts, "--num-node-weights", weights, "--output", folder / "dgl", *options,
    )  # fmt: skip


@pytest.mark.parametrize("processes", [1, 4])
def test_the_chapters_toy_goes_through_dglpart_and_convert(processes, tmp_path, monkeypatch):
    write_toy(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 1, "-np", processes) == 0
    names = {f"p{part:03d}-toy_{what}.txt" for part in range(processes) for what in ("nodes", "edges", "stats")}
    assert names <= {path.name for path in tmp_path.iterdir()}
    rows = [
        row.split()
        for part in range(processes)
        for row in (tmp_path / f"p{part:03d}-toy_nodes.txt").read_text().splitlines()
    ]
    assert [int(row[0]) for row in rows] == list(range(7))
    original = {(int(row.split()[0]), int(row.split()[3])): row.split()[4] for row in TOY_NODES}
    assert {(int(row[1]), int(row[4])): row[5] for row in rows} == original
    assert converted(tmp_path, processes, "--node-attr-dtype", "float32", "--edge-attr-dtype", "int64") == 0
    facts = json.loads((tmp_path / "dgl" / "toy.json").read_text())
    assert list(facts["etypes"]) == ["user:buys:item", "item:bought_by:user", "item:like:item"]
    weights = {}
    for part in range(processes):
        features = read_tensors(tmp_path / "dgl" / f"part{part}" / "node_feat.dgl")
        ids = read_tensors(tmp_path / "dgl" / f"part{part}" / "orig_nids.dgl")
        assert features["item/feat"].dtype == np.float32
        for kind, first in (("user", 7.5), ("item", 1.5)):
            np.testing.assert_array_equal(features[f"{kind}/feat"][:, 0], ids[kind] + np.float32(first))
        edge_ids = read_tensors(tmp_path / "dgl" / f"part{part}" / "orig_eids.dgl")
        attributes = read_tensors(tmp_path / "dgl" / f"part{part}" / "edge_feat.dgl")
        for relation, own in edge_ids.items():
            weights |= {
                (relation, int(e)): int(w) for e, w in zip(own, attributes[f"{relation}/feat"][:, 0], strict=True)
            }
    assert sorted(weights.values()) == list(range(1, 9))
    if processes == 4:
        assert all(read_graph(tmp_path / "dgl" / f"part{part}" / "graph.dgl").nodes >= 1 for part in range(4))


@pytest.mark.needs_dgl
@pytest.mark.parametrize("processes", [1, 4])
def test_dgl_loads_the_toy(processes, tmp_path, monkeypatch):
    from backends.dgl.quiet import dgl

    monkeypatch.setenv("DGL_DIST_DEBUG", "1")
    write_toy(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 1, "-np", processes) == 0
    assert converted(tmp_path, processes) == 0
    edges = 0
    for part in range(processes):
        local, *_ = dgl.distributed.load_partition(str(tmp_path / "dgl" / "toy.json"), part)
        edges += int(local.edata["inner_edge"].sum())
    assert edges == len(TOY_EDGES)


def test_removed_edges_come_back_with_their_attributes(tmp_path, monkeypatch):
    write_toy(tmp_path, edges=TOY_EDGES[:-2])
    removed = ["3 4 0 2 7", "3 3 1 2 8"]
    (tmp_path / "removed.txt").write_text("".join(f"{row}\n" for row in removed))
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 2) == 0
    assert converted(tmp_path, 2, "--removed-edges", "removed.txt", "--edge-attr-dtype", "float64") == 0
    feats = [
        read_tensors(tmp_path / "dgl" / f"part{part}" / "edge_feat.dgl")["item:like:item/feat"] for part in range(2)
    ]
    assert sorted(np.concatenate(feats)[:, 0].tolist()) == [7.0, 8.0]


def test_duplicates_and_self_loops_stay_in_the_output(tmp_path, monkeypatch):
    write_toy(tmp_path, edges=[*TOY_EDGES, "0 3 3 0 9", "2 2 4 0 10"])
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 2) == 0
    rows = [row for part in range(2) for row in (tmp_path / f"p{part:03d}-toy_edges.txt").read_text().splitlines()]
    assert sorted(int(row.split()[6]) for row in rows) == list(range(1, 11))


def test_the_dialect_with_lists_writes_a_part_for_each_node(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("0 1 0 0\n0 1 0 1\n0 1 0 2\n")
    (tmp_path / "b.txt").write_text("1 0 1 0\n1 0 1 1\n1 0 1 2\n1 0 1 3\n")
    (tmp_path / "nodes.txt").write_text("a.txt 0 3\nb.txt 3 7\n")
    (tmp_path / "e.txt").write_text("0 3\n1 4\n2 5\n3 4\n")
    (tmp_path / "edges.txt").write_text("e.txt\n")
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 2, "nodes.txt", "edges.txt") == 0
    rows = [tuple(map(int, row.split())) for row in (tmp_path / "toy_part.2").read_text().splitlines()]
    assert [node for node, _ in rows] == list(range(7))
    assert {part for _, part in rows} == {0, 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stats": "7 8"}, r"toy_stats\.txt: row 1 has 2 columns"),
        ({"stats": "8 8 2"}, "has 7 rows, toy_stats.txt says 8"),
        ({"stats": "7 8 3"}, r"toy_nodes\.txt: row 1 has orig_type_node_id '7\.5'"),
        ({"stats": "x 8 2"}, "row 1 has num_nodes 'x'"),
        ({"nodes": [*TOY_NODES[:6], "1 0 -1 3"]}, "row 7 has a weight below 0"),
        ({"nodes": [*TOY_NODES[:6], "1 0"]}, "row 7 has 2 columns"),
        ({"nodes": [*TOY_NODES[:6], "3 0 1 3"]}, "row 7 has a node type that is not contiguous"),
        ({"nodes": [*TOY_NODES[:6], "1 0 1 2"]}, "row 7 has an orig_type_node_id that another node"),
        ({"nodes": [*TOY_NODES[:6], "1 0 1 9"]}, "row 7 has an orig_type_node_id beyond"),
        ({"edges": [*TOY_EDGES[:7], "5 7 1 2"]}, r"toy_edges\.txt: row 8 names a node beyond 0 to 6"),
        ({"edges": [*TOY_EDGES[:7], "5"]}, "row 8 has 1 columns"),
        ({"edges": [*TOY_EDGES[:7], "5 6 1 -2"]}, "row 8 has an id or a type below 0"),
    ],
    ids=str,
)
def test_spoilt_text_is_refused_by_file_and_row(changes, message, tmp_path, monkeypatch, capsys):
    write_toy(tmp_path, **changes)
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 2) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not list(tmp_path.glob("p0*"))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"nid": {"user": [0, 4], "item": [3, 7]}}, "the range before ends at 4"),
        ({"nid": {"user": [0, 3], "item": [4, 7]}}, "the range before ends at 3"),
        ({"nid": {"user": 3}}, "must name a range"),
        ({"nid": {"user": [0, 3], "item": [3, 8]}}, "node 7 of the schema is in no part"),
        ({"eid": {"buys": [0, 8]}}, "an edge has type 1"),
        ({"eid": {"buys": [0, 2], "bought_by": [2, 5], "like": [5, 7]}}, "edge 2 of buys"),
    ],
    ids=str,
)
def test_a_wrong_schema_is_refused(schema, message, tmp_path, monkeypatch, capsys):
    write_toy(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 2) == 0
    (tmp_path / "schema.json").write_text(json.dumps(TOY_SCHEMA | schema))
    assert converted(tmp_path, 2) == 2
    assert message in capsys.readouterr().err


def test_attributes_that_not_all_types_have_are_refused(tmp_path, monkeypatch, capsys):
    write_toy(tmp_path, nodes=[*TOY_NODES[:3], *(row + " 1" for row in TOY_NODES[3:])])
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 2) == 0
    assert converted(tmp_path, 2, "--node-attr-dtype", "float32") == 2
    assert "another number of attributes each (user 1, item 2)" in capsys.readouterr().err
    assert converted(tmp_path, 2) == 0


def test_the_real_program_must_be_on_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 2, "--tool", "pm_dglpart") == 2
    assert "pm_dglpart is not on PATH" in capsys.readouterr().err


def test_new_ids_that_are_not_contiguous_are_refused():
    graph = stored_graph(schema=TYPED)
    parts = np.zeros(graph.total_nodes, np.int32)
    with pytest.raises(GraphError, match="each once"):
        Numbering.with_ids(graph, parts, 1, np.zeros(graph.total_nodes, np.int64))
    with pytest.raises(GraphError, match="not contiguous"):
        Numbering.with_ids(graph, parts, 1, np.arange(graph.total_nodes)[::-1].copy())


def test_the_real_program_is_run_where_it_is_installed(tmp_path, monkeypatch, capfd):
    for name in ("mpirun", "pm_dglpart"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\nexit "${{STATUS:-0}}"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert run("dglpart", "toy", 2, "-np", 4, "--tool", "pm_dglpart") == 0
    assert "mpirun -np 4 pm_dglpart toy 2" in capfd.readouterr().out
    monkeypatch.setenv("STATUS", "3")
    assert run("dglpart", "toy", 2, "-np", 4, "--tool", "pm_dglpart") == 2
    assert "ended with exit code 3" in capfd.readouterr().err
