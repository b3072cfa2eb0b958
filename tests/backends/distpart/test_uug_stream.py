"""The streamed UUG: the graph of the data set without storing it, to the same parts and files."""

import filecmp
import pickle
import threading
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.distpart import uug_stream as stream
from backends.distpart.commandline import main
from backends.distpart.typed_graph import typed_graph
from backends.distpart.uug_stream import uug_stream
from backends.kernels.extension import extension
from datasets.synthetic import uug

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


@settings(max_examples=30, deadline=None)
@given(st.integers(100, 900), st.integers(0, 2), st.sampled_from([0, 2]), st.integers(1, 9), st.data())
def test_rows_are_those_of_the_stored_graph(nodes, seed, of_edges, partitions, data):
    options = {"nodes": nodes, "degree": 5, "features": 3, "seed": seed, "edge_features": of_edges}
    stored, streamed = typed_graph(uug.load("uug", options)), uug_stream(options | {"partitions": partitions})
    assert (streamed.nodes, streamed.total_edges, streamed.name) == (stored.nodes, stored.total_edges, stored.name)
    (relation,) = stored.schema.relations
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, stored.total_edges)] * 2)))
    for ids, expected in zip(streamed.read(relation, start, stop), stored.read(relation, start, stop), strict=True):
        np.testing.assert_array_equal(ids, expected)
    tables = [(graph.node_data["_N"], graph.edge_data[relation]) for graph in (streamed, stored)]
    for table, arrays in zip(*tables, strict=True):
        assert set(table) == set(arrays)
        for name, array in arrays.items():
            column = pickle.loads(pickle.dumps(table[name]))
            rows = np.sort(np.random.default_rng(seed).integers(0, len(array), 40))
            assert (column.dtype, column.shape, len(column)) == (array.dtype, array.shape, len(array))
            for chosen in (rows, slice(None), slice(7, 30), rows[:0]):
                np.testing.assert_array_equal(column[chosen], array[chosen])


def test_parts_of_the_stream_have_the_bytes_of_those_of_the_stored_graph(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(uug, "EDGES_OF_A_PIECE", 700)
    options = ["--option", "nodes=600", "--option", "features=4", "--option", "edge_features=2"]
    for name in ("uug", "uug_stream"):
        arguments = ["partition", name, *options, "-p", "3", "-o", str(tmp_path / name), "--balance", "train_mask"]
        assert main([*arguments, "--name", "graph", "--threads", "2"]) == 0
    files = sorted(path.relative_to(tmp_path / "uug") for path in (tmp_path / "uug").rglob("*") if path.is_file())
    same, different, missing = filecmp.cmpfiles(tmp_path / "uug", tmp_path / "uug_stream", files, shallow=False)
    assert len(same) == len(files) > 10 and not different and not missing
    assert main(["verify", "uug_stream", *options, str(tmp_path / "uug_stream" / "graph.json")]) == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_edges_are_counted_by_the_threads_that_were_asked_for(threads, tmp_path, monkeypatch):
    monkeypatch.setattr(uug, "EDGES_OF_A_PIECE", 700)
    draw, workers = stream._in_edges, set()

    def noted(options, index):
        workers.add(threading.get_ident())
        time.sleep(0.002)  # long enough that no thread counts the pieces of another
        return draw(options, index)

    monkeypatch.setattr(stream, "_in_edges", noted)
    options = ["--option", "nodes=900", "--option", "degree=5", "--option", "features=3", "--threads", str(threads)]
    assert main(["assign", "uug_stream", *options, "-p", "2", "-o", str(tmp_path / "out"), "--method", "random"]) == 0
    assert len(workers) == threads


def test_options_that_uug_does_not_have_are_refused(tmp_path, capsys):
    assert main(["assign", "uug_stream", "--option", "node=5", "-p", "2", "-o", str(tmp_path / "out")]) == 2
    assert "did you mean 'nodes'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("method", "memory"), [("multilevel", 0.005), ("random", 1)])
def test_memory_does_not_grow_with_the_edges(method, memory, tmp_path, monkeypatch):
    monkeypatch.setattr(uug, "EDGES_OF_A_PIECE", 40_000)
    monkeypatch.setattr("backends.distpart.assign._PIECE", 20_000)
    monkeypatch.setattr("backends.kernels.partition._ROWS_AT_ONCE", 20_000)
    monkeypatch.setattr("backends.distpart.dispatch.forecast._PIECE", 20_000)
    monkeypatch.setattr("backends.distpart.multilevel.COARSEST", 100)  # its edges grow, up to its nodes' pairs
    peaks = []
    for degree in (10, 60):
        options = ["--option", "nodes=20000", "--option", f"degree={degree}", "--option", "features=16"]
        options += ["-p", "4", "--method", method, "--memory", str(memory), "-o", str(tmp_path / str(degree))]
        tracemalloc.start()
        assert main(["partition", "uug_stream", *options]) == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0], f"{peaks[0]:,} and {peaks[1]:,} bytes"
