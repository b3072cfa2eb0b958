"""``python -m backends.agl.infer``: scores as files, resumption after a kill, and refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from safetensors.numpy import load_file, save_file

from backends.agl.infer.__main__ import main
from backends.folder_lock import locked
from datasets.tables.node_stream import NAMES
from tests.backends.agl.infer.test_infer import close, command_of, definition, model_on
from tests.graphs import awkward_graph

ROOT = Path(__file__).resolve().parents[4]
GRAPH = awkward_graph(2)


@pytest.fixture
def saved_inference(tmp_path):
    """A graph and a model on disk, and the scores they should give."""
    graph = awkward_graph(2)
    spec, state = model_on(graph, "gat", 2)
    return tmp_path, command_of(tmp_path, graph, state), definition(graph, spec, state)


def test_a_process_scores_a_graph_and_shows_its_progress(saved_inference):
    folder, command, expected = saved_inference
    settings = ["-c", "partitions=3", "threads=1"]
    run = [sys.executable, "-m", "backends.agl.infer", *command, *settings]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "40 nodes scored" in done.stdout
    assert "round 2: receive" in done.stderr
    close(np.load(folder / "out" / "scores.npy"), expected)
    np.testing.assert_array_equal(np.load(folder / "out" / "nodes.npy"), np.arange(40))
    assert json.loads((folder / "out" / "facts.json").read_text())["embeddings"] == 80
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["facts.json", "nodes.npy", "scores.npy"]


def test_targets_are_scored_in_the_order_given(saved_inference):
    folder, command, expected = saved_inference
    targets = np.array([31, 2, 9])
    np.save(folder / "targets.npy", targets)
    assert main([*command, "-t", str(folder / "targets.npy")]) == 0
    close(np.load(folder / "out" / "scores.npy"), expected[targets])


def test_nodes_keep_the_ids_of_the_tables(saved_inference):
    folder, command, _ = saved_inference
    spoiled(folder, GRAPH, node_ids=np.arange(40) * 3 + 5)
    np.save(folder / "targets.npy", np.array([98, 11, 32]))
    assert main([*command, "-t", str(folder / "targets.npy")]) == 0
    np.testing.assert_array_equal(np.load(folder / "out" / "nodes.npy"), [98, 11, 32])
    (folder / "out").rename(folder / "first")
    again = main([*command, "-t", str(folder / "first" / "nodes.npy")])  # what was written is read back
    assert again == 0
    np.testing.assert_array_equal(*(np.load(folder / name / "scores.npy") for name in ("first", "out")))


def test_numbers_that_are_no_ids_of_the_tables_are_refused(saved_inference, capsys):
    folder, command, _ = saved_inference
    spoiled(folder, GRAPH, node_ids=np.arange(40) * 3 + 5)
    np.save(folder / "targets.npy", np.array([98, 31]))
    assert main([*command, "-t", str(folder / "targets.npy")]) == 2
    assert "targets.npy: no node has the id 31: leave it out" in capsys.readouterr().err


def test_names_are_a_table_beside_the_scores(saved_inference, capsys):
    folder, command, _ = saved_inference
    names = ["n" * 4000, *(f"user {number}" for number in range(1, 40))]
    table = pa.table({"id": np.arange(40), "name": pa.array(names, pa.large_string())})
    parquet.write_table(table, folder / "graph" / NAMES)
    assert main(command) == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["facts.json", "nodes.parquet", "scores.npy"]
    assert parquet.read_table(folder / "out" / "nodes.parquet").column("id").to_pylist() == names
    for name in ("facts.json", "scores.npy"):
        (folder / "out" / name).unlink()
    assert main(command) == 2
    assert "out/nodes.parquet is there and not of a run that can go on" in capsys.readouterr().err


def test_finished_scores_are_never_overwritten(saved_inference, capsys):
    folder, command, _ = saved_inference
    assert main(command) == 0
    before = (folder / "out" / "scores.npy").stat().st_mtime_ns
    assert main(command) == 2
    assert "holds finished scores: give another folder" in capsys.readouterr().err
    assert (folder / "out" / "scores.npy").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["scores.npy", "nodes.npy"])
def test_files_of_the_user_in_the_output_folder_are_never_overwritten(saved_inference, capsys, name):
    folder, command, _ = saved_inference
    (folder / "out").mkdir()
    np.save(folder / "out" / name, np.array([31, 2]))
    assert main([*command, "-t", str(folder / "out" / name)]) == 2
    assert f"out/{name} is there and not of a run that can go on" in capsys.readouterr().err
    assert np.load(folder / "out" / name).tolist() == [31, 2]
    assert [path.name for path in (folder / "out").iterdir()] == [name]


def test_results_that_a_kill_cut_short_are_replaced(saved_inference, monkeypatch):
    folder, command, expected = saved_inference
    move = Path.replace

    def all_but_the_last(path, target):
        if path.name == "facts.json":
            raise KeyboardInterrupt
        return move(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", all_but_the_last)
        assert main([*command, "-c", "infer=neighbourhood"]) == 1
    assert (folder / "out" / "scores.npy").exists()
    assert main([*command, "-c", "infer=neighbourhood"]) == 0
    close(np.load(folder / "out" / "scores.npy"), expected)


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_works(saved_inference, capsys):
    folder, command, _ = saved_inference
    with locked(folder / "out" / "work"):
        assert main(command) == 1
    assert "another run works in" in capsys.readouterr().err
    assert main(command) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("partitions=x", "-c partitions=x is not understood: give one int"),
        ("speed=9", "give key=value with a key of run_on, infer"),
        ("run_on=spark", "run_on=spark is not allowed: one of local, ray"),
        ("fanouts=5", "are not one per layer: the model has 2"),
        ("sampler=best", "sampler='best' is unknown: allowed are uniform"),
        ("sampler=weighted", "sampler weighted samples by 'weight': the graph has no column 'weight'"),
        ("fanouts=0,2", "fanout=0 is not allowed: at least 1"),
        ("hub_threshold=-5", "-c hub_threshold=-5 is not allowed"),
    ],
)
def test_settings_that_do_not_exist_are_refused(saved_inference, capsys, settings, message):
    folder, command, _ = saved_inference
    fanouts = ["fanouts=2,2"] if settings.startswith("sampler") else []
    assert main([*command, "-c", *fanouts, settings]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_a_corrupt_model_is_refused_by_name(saved_inference, capsys):
    folder, command, _ = saved_inference
    model = folder / "model.safetensors"
    model.write_bytes(model.read_bytes()[:100])
    assert main(command) == 2
    assert f"{model} is no complete .safetensors file" in capsys.readouterr().err
    assert not (folder / "out").exists()


def spoiled(folder, graph, **arrays):
    """Save the graph with other arrays in place of the good one."""
    replace(graph, **arrays).save(folder / "graph")


def changed_model(folder, parameters):
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name: np.asarray(value) for name, value in parameters.items()}, path)


def cut(path):
    path.write_bytes(path.read_bytes()[:150])


def with_nan(array, row):
    array = array.copy()
    array[row] = np.nan
    return array


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: cut(path / "graph" / "indices.npy"), "graph/indices.npy is damaged"),
        (lambda path: (path / "graph" / "graph.json").write_text("{"), "graph/graph.json is damaged"),
        (
            lambda path: (path / "graph" / "graph.json").write_text("{}"),
            "describe a prepared graph (KeyError('arrays'))",
        ),
        (
            lambda path: (path / "graph" / "graph.json").write_text("[]"),
            "graph/graph.json does not describe a prepared graph",
        ),
        (lambda path: (path / "graph" / "indptr.npy").unlink(), "graph/indptr.npy"),
        (
            lambda path: spoiled(path, GRAPH, features=with_nan(GRAPH.features, 7)),
            "awkward: features holds NaN or infinite numbers in row 7: mend",
        ),
        (
            lambda path: spoiled(path, GRAPH, features=GRAPH.features[:, :3]),
            "the model takes 6 features, awkward has 3",
        ),
        (lambda path: spoiled(path, GRAPH, edge_weights=np.ones(GRAPH.csr.nnz, np.float32)), "which gat would drop"),
        (lambda path: (path / "targets.npy").write_bytes(b""), "targets.npy is no whole .npy file"),
        (lambda path: cut(path / "targets.npy"), "targets.npy is no whole .npy file"),
        (lambda path: np.save(path / "targets.npy", np.ones(3)), "targets.npy holds float64 of shape (3,)"),
        (
            lambda path: save_file({"layers.0.weight": np.ones(6, np.float32)}, path / "model.safetensors"),
            "give matrices",
        ),
        (lambda path: changed_model(path, {"layers.0.att_src": np.float32(1)}), "layers.0.att_src of shape (): give"),
        (lambda path: changed_model(path, {"head.weight": np.ones(3, np.float32)}), "head.weight of shape (3,): give"),
    ],
)
def test_unusable_files_are_named_and_nothing_is_written(saved_inference, capsys, spoil, message):
    folder, command, _ = saved_inference
    np.save(folder / "targets.npy", np.arange(30))
    spoil(folder)
    assert main([*command, "-t", str(folder / "targets.npy")]) in (1, 2)
    assert message in capsys.readouterr().err
    assert not (folder / "out").exists()


@pytest.mark.parametrize(("reason", "told"), [((), ""), (("Unable to allocate 1 TiB",), " (Unable to allocate 1 TiB)")])
def test_want_of_memory_is_told_with_advice(saved_inference, monkeypatch, capsys, reason, told):
    def fail(*arguments):
        raise MemoryError(*reason)

    monkeypatch.setattr("backends.agl.infer.__main__.scored", fail)
    assert main(saved_inference[1]) == 1
    assert f"error: out of memory{told}: give more -c partitions by rounds" in capsys.readouterr().err


def test_a_full_disk_leaves_no_scores(saved_inference):
    """The next run succeeds in spite of the files that the failed one left."""
    folder, command, expected = saved_inference
    words = " ".join(map(repr, command))
    limited = f"ulimit -f 0; exec {sys.executable} -m backends.agl.infer {words}"
    ended = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1 and "error: " in ended.stderr, ended.stderr
    assert not list((folder / "out").glob("*.npy"))
    assert main(command) == 0
    close(np.load(folder / "out" / "scores.npy"), expected)


def test_a_killed_process_goes_on_where_it_stopped(tmp_path):
    graph = awkward_graph(4, nodes=3000, edges=60000)
    spec, state = model_on(graph, "gat", 3)
    command, out = command_of(tmp_path, graph, state), tmp_path / "out"
    run = [sys.executable, "-m", "backends.agl.infer", *command, "-c", "partitions=400", "threads=1"]
    process = subprocess.Popen(run, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        while not (out / "work" / "rounds" / "round-1.done").exists():
            assert process.poll() is None
            time.sleep(0.002)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not (out / "scores.npy").exists()
    assert main([*command, "-c", "partitions=2"]) == 0
    close(np.load(out / "scores.npy"), definition(graph, spec, state))
    assert "layer 1" not in json.loads((out / "facts.json").read_text())["made"]
