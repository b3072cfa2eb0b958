"""``python -m backends.agl.flat``: from tables to shards, messages for wrong input, killed and repeated runs."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from backends.agl.flat import job
from backends.agl.flat.__main__ import main
from backends.agl.flat.reader import GraphFeatureReader

NODES = {"id": [10, 20, 30, 40], "a": [1.0, 2.0, 3.0, 4.0], "label": [0, 1, None, 1], "split": ["train"] * 4}
EDGES = {"source": [10, 20, 30, 10], "target": [20, 30, 20, 40], "weight": [1.0, 0.5, 2.0, 1.0]}


def write(folder, nodes=NODES, edges=EDGES, ending="parquet"):
    arguments = []
    for flag, name, columns in (("-n", "nodes", nodes), ("-e", "edges", edges)):
        path = folder / f"{name}.{ending}"
        (parquet.write_table if ending == "parquet" else csv.write_csv)(pa.table(columns), path)
        arguments += [flag, str(path)]
    return [*arguments, "-o", str(folder / "out"), "-h", "2"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_tables_become_shards(tmp_path, ending, capsys):
    assert main([*write(tmp_path, ending=ending), "-s", "uniform(15);uniform(10)"]) == 0
    assert "3 GraphFeatures" in capsys.readouterr().out
    records = next(GraphFeatureReader(tmp_path / "out").batches(10))
    place = records.targets.tolist().index(20)
    second = slice(*records.node_bounds[place : place + 2])
    assert records.ids[second].tolist() == [20, 10, 30]
    assert records.features[second, 0].tolist() == [2.0, 1.0, 3.0]
    assert records.weighted_degrees[second].tolist() == [3.0, 0.0, 0.5]
    labels = dict(zip(records.targets.tolist(), records.labels[:, 0].tolist(), strict=True))
    assert labels == {10: 0, 20: 1, 40: 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"edges.{ending}", f"nodes.{ending}", "out"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_targets_of_a_graph_without_edges_stand_alone(tmp_path, ending):
    arguments = write(tmp_path, edges={name: [] for name in EDGES}, ending=ending)
    assert main([*arguments, "-s", "uniform(3)"]) == 0
    (records,) = GraphFeatureReader(tmp_path / "out").batches(10)
    assert records.targets.tolist() == records.ids.tolist() and sorted(records.ids.tolist()) == [10, 20, 40]
    assert len(records.edge_ids) == 0


MISTAKES = [
    ({}, ["--partitions", "8"], "--run-on local does not use --partitions: leave it out, or give --run-on ray"),
    ({}, ["--hub-threshold", "5"], "--run-on local does not use --hub-threshold: leave it out"),
    ({}, ["--run-on", "ray", "--threads", "8"], "--run-on ray does not use --threads: leave it out"),
    ({"nodes": NODES | {"id": [10, 20, 10, 40]}}, [], r"nodes.parquet: row 3: id 10 appeared before"),
    ({"nodes": NODES | {"id": [10, None, 30, 40]}}, [], r"nodes.parquet: row 2, column 'id': is empty"),
    ({"nodes": NODES | {"a": [1.0, float("nan"), 1.0, 1.0]}}, [], r"nodes.parquet: row 2, column 'a': a number is NaN"),
    (
        {"edges": EDGES | {"source": [10, 20, 99, 10]}},
        [],
        r"edges.parquet: row 3, column 'source': no node has the id 99",
    ),
    (
        {"edges": EDGES | {"weight": [1.0, 1.0, 1.0, None]}},
        [],
        r"edges.parquet: row 4, column 'weight': a number is NaN",
    ),
    ({"nodes": {name: [] for name in NODES}}, [], r"nodes.parquet: the node table has no rows"),
    (
        {"edges": EDGES | {"weight": [1.0, float("nan"), 1.0, 1.0]}},
        [],
        r"edges.parquet: row 2, column 'weight': a number is NaN",
    ),
    (
        {"nodes": NODES | {"a": [[1.0], [2.0], [3.0, 4.0], [5.0]]}},
        [],
        r"nodes.parquet: row 3, column 'a'",
    ),
    ({}, ["--width", "7"], r"nodes.parquet: 1 features in a, but width=7"),
    ({}, ["-h", "0"], r"hop 0 is not allowed"),
    ({}, ["--memory", "0"], r"--memory 0.0 is not allowed: give GiB above 0"),
    ({}, ["--memory", "nan"], r"--memory nan is not allowed"),
    ({}, ["-s", "nearest(3)"], r"sampler 'nearest\(3\)' is unknown: allowed are uniform"),
    ({}, ["-s", "topk(by=colour, limit=3)"], r"samples by 'colour'"),
    ({}, ["-f", "colour > 3"], r"filter 'colour > 3' names 'colour'"),
    ({}, ["-n", "nothing.parquet"], r"nothing.parquet"),
    ({}, ["--label", "klass", "--targets", "all"], r"nodes.parquet: there is no column 'klass', only id, a, label"),
    ({}, ["--split", "fold"], r"nodes.parquet: there is no column 'fold', only id, a, label"),
    (
        {"edges": EDGES | {"weight": [1.0, 0.5, 0.0, -1.0]}},
        ["-s", "weighted(2)"],
        r"edges.parquet: row 3: has weight 0.0, sampler weighted needs finite numbers above 0",
    ),
    (
        {"edges": EDGES | {"weight": [1.0, 0.5, 1.0, -1.0]}},
        ["-s", "weighted(2)", "--undirected"],
        r"edges.parquet: row 4: has weight -1.0",
    ),
    ({"edges": EDGES | {"f": [1.0, None, 0.0, 0.0]}}, ["--edge-features", "f"], r"edges.parquet: row 2, column 'f'"),
    ({}, ["--edge-features", "f"], r"edges.parquet: there is no column 'f'"),
    ({}, ["-f", "weight > 'heavy'"], r"filter .* compares with 'heavy', but columns hold numbers: give a number"),
    ({}, ["-f", "weight > [1, 2]"], r"filter .* compares values that cannot be compared"),
    ({}, ["-s", "uniform(3, seed=2.5)"], r"seed=2.5 .* give a whole number"),
    ({}, ["-s", "uniform(99999999999999999999)"], r"limit=9+ .* from 1 to 2147483647"),
    ({}, ["-n", "s3://bucket/nodes.parquet"], r"s3://bucket/nodes.parquet: Install s3fs"),
    ({}, ["-n", "nowhere://nodes.parquet"], r"nowhere://nodes.parquet: Protocol not known"),
    ({}, ["--targets", "test"], r"there are no targets in tables: give labels and splits, or targets=all"),
]


@pytest.mark.parametrize(("tables", "more", "message"), MISTAKES, ids=[message for *_, message in MISTAKES])
def test_wrong_input_is_named_and_leaves_nothing_behind(tmp_path, tables, more, message, capsys):
    import re

    arguments = [*write(tmp_path, **tables), *more]
    assert main(arguments) in (1, 2)
    output = capsys.readouterr().err
    error = output[output.index("error: ") :]
    assert re.search(message, error) and "Traceback" not in output and error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.parquet", "nodes.parquet"]


def test_only_nodes_of_a_label_table_without_splits_are_flattened(tmp_path):
    arguments = write(tmp_path, {name: NODES[name] for name in ("id", "a")})
    parquet.write_table(pa.table({"id": [40, 20], "label": [1, 0]}), tmp_path / "labels.parquet")
    assert main([*arguments, "-l", str(tmp_path / "labels.parquet")]) == 0
    (records,) = GraphFeatureReader(tmp_path / "out").batches(10)
    assert dict(zip(records.targets.tolist(), records.labels[:, 0].tolist(), strict=True)) == {20: 0, 40: 1}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_ids_that_are_strings_keep_their_names(tmp_path, ending):
    named = {place: [f"user {number}" for number in EDGES[place]] for place in ("source", "target")}
    nodes = NODES | {"id": [f"user {number}" for number in NODES["id"]]}
    assert main([*write(tmp_path, nodes, EDGES | named, ending), "--targets", "all"]) == 0
    reader = GraphFeatureReader(tmp_path / "out")
    (records,) = reader.batches(10)
    targets = reader.names(records.targets).to_pylist()
    assert sorted(targets) == nodes["id"]
    place = targets.index("user 20")
    names = reader.names(records.ids[slice(*records.node_bounds[place : place + 2])])
    assert names.to_pylist() == ["user 20", "user 10", "user 30"]


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_works(tmp_path, capsys):
    from backends.folder_lock import locked

    for name in ("tables", "partial"):
        with locked(tmp_path / f".out.{name}"):
            assert main(write(tmp_path)) == 1
            assert "another run works in" in capsys.readouterr().err and not (tmp_path / "out").exists()
    assert main(write(tmp_path)) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.parquet", "nodes.parquet", "out"]


def test_a_finished_folder_is_not_overwritten(tmp_path, capsys):
    arguments = write(tmp_path)
    assert main(arguments) == 0
    stamp = (tmp_path / "out" / "manifest.json").stat().st_mtime_ns
    assert main(arguments) == 2 and "exists: delete it" in capsys.readouterr().err
    assert (tmp_path / "out" / "manifest.json").stat().st_mtime_ns == stamp


def test_a_full_disk_ends_with_one_and_without_a_folder(tmp_path):
    nodes = {"id": np.arange(4000), "a": np.random.default_rng(0).normal(size=4000), "label": np.zeros(4000, dtype=int)}
    edges = {"source": np.arange(3999), "target": np.arange(1, 4000)}
    arguments = [*write(tmp_path, nodes, edges), "--targets", "all"]
    limited = f"ulimit -f 40; exec {sys.executable} -m backends.agl.flat " + " ".join(map(repr, arguments))
    ended = subprocess.run(["bash", "-c", limited], capture_output=True, text=True)
    assert (
        ended.returncode == 1
        and "File too large" in ended.stderr
        and "/out: " in ended.stderr
        and "Traceback" not in ended.stderr
    )
    assert not (tmp_path / "out").exists()


def test_a_run_that_ended_after_it_kept_the_graph_goes_on(tmp_path, monkeypatch):
    arguments = [*write(tmp_path), "--keep-graph"]
    with monkeypatch.context() as patch:
        patch.setattr(job, "MANIFEST", "nowhere/manifest.json")
        assert main(arguments) == 1
    assert (tmp_path / ".out.partial" / "shards" / "graph" / "graph.json").is_file()
    assert main(arguments) == 0
    assert (tmp_path / "out" / "graph" / "graph.json").is_file() and len(GraphFeatureReader(tmp_path / "out")) == 3


def test_a_killed_run_goes_on(tmp_path):
    nodes = {"id": np.arange(3000), "a": np.random.default_rng(0).normal(size=3000), "label": np.zeros(3000, dtype=int)}
    ends = np.random.default_rng(1).integers(0, 3000, (2, 60000))
    arguments = [*write(tmp_path, nodes, {"source": ends[0], "target": ends[1]}), "--targets", "all"]
    arguments += ["-s", "uniform(8)", "--shard-records", "20"]
    child = subprocess.Popen([sys.executable, "-m", "backends.agl.flat", *arguments], stderr=subprocess.DEVNULL)
    shards = tmp_path / ".out.partial" / "shards"
    while child.poll() is None and len(list(shards.glob("part-*.parquet"))) < 3:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    stamps = {path.name: path.stat().st_mtime_ns for path in sorted(shards.glob("part-*.parquet"))}
    assert len(stamps) >= 3 and not (tmp_path / "out").exists()
    assert main(arguments) == 0
    again = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.parquet")}
    assert len(again) == 150 and sum(again[name] == stamp for name, stamp in stamps.items()) >= len(stamps) - 1
    assert main([*arguments, "-o", str(tmp_path / "whole")]) == 0
    for name in again:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
