"""GraphInfer's memory follows the size of a partition: graphs of more nodes, in partitions of as many, take no more."""

import pickle
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from backends.agl.flat import source as source_module
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.flat.source import Source
from backends.agl.infer import drivers, mapreduce
from backends.agl.infer import job as job_module
from backends.agl.infer.job import InferenceJob, Workspace
from backends.parallel.executor import InlineExecutor
from backends.progress import silent
from datasets.csr import Csr
from datasets.graph import Graph
from tests.backends.agl.infer.test_infer import model_on, users_model

SIZES, ROWS = (80_000, 320_000), 10_000  # nodes of a graph, and of a partition
DEGREES = "edges.sum(sent / (1 + edges.source_degrees[:, None]))"


def even_graph(nodes: int, folder: Path, weighted: bool) -> Graph:
    """A mapped graph in which every node has two in-edges, from those after it."""
    ends = (np.repeat(np.arange(nodes), 2) + np.tile([1, 2], nodes)) % nodes
    indices = np.sort(ends.reshape(nodes, 2), axis=1).ravel().astype(np.int32)
    csr = Csr(np.arange(0, 2 * nodes + 1, 2, dtype=np.int32), indices, (nodes, nodes))
    weights = np.ones(2 * nodes, np.float32) if weighted else None
    folder.mkdir(parents=True)
    Graph("even", csr, features=np.ones((nodes, 3), np.float32), classes=3, edge_weights=weights).save(folder)
    return Graph.load(folder)


def peak_of(work) -> int:
    """Bytes that arrays take at most while ``work`` runs, beside what it returns; mapped files are none of them."""
    tracemalloc.start()
    result = work()
    peak = tracemalloc.get_traced_memory()[1] - getattr(result, "nbytes", 0)
    tracemalloc.stop()
    return peak


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of which these graphs have several; each copy of all nodes is a file."""
    monkeypatch.setattr(job_module, "SCRATCH_BYTES", 0)
    monkeypatch.setattr(drivers, "TARGETS_AT_ONCE", ROWS)
    monkeypatch.setattr(mapreduce, "ROWS_AT_ONCE", ROWS)
    monkeypatch.setattr(source_module, "EDGES_AT_ONCE", ROWS)


def model_of(graph, model, fanouts=()):
    return (users_model(graph, "h", DEGREES), {}) if model == "user" else model_on(graph, model, 2, fanouts=fanouts)


@pytest.mark.parametrize("model", ["gcn", "sage", "user"])
def test_map_and_rounds_take_the_memory_of_a_partition(tmp_path, model):
    peaks = []
    for nodes in SIZES:
        graph = even_graph(nodes, tmp_path / str(nodes) / "graph", weighted=model != "sage")
        job = InferenceJob(graph, *model_of(graph, model), partitions=nodes // ROWS)
        engine = drivers.LocalInference(job, Workspace(tmp_path / str(nodes) / "work", job.identity(), unmap=True))
        peaks.append(max(peak_of(engine.map), peak_of(engine.run)))
    assert peaks[1] < 1.3 * peaks[0], peaks


@pytest.mark.parametrize("model", ["gcn", "user"])
def test_the_driver_and_map_take_the_memory_of_a_partition(tmp_path, model):
    peaks, strategy = [], SamplingStrategy((1, 1), "topk", "weight")
    for nodes in SIZES:
        graph = even_graph(nodes, tmp_path / str(nodes) / "graph", weighted=True)
        model_and_state = model_of(graph, model, fanouts=(1, 1))
        source = tmp_path / str(nodes) / "source"
        table = Source.build(graph, strategy, None, source).table
        job = InferenceJob(graph, *model_and_state, strategy=strategy, partitions=nodes // ROWS, table=table)
        driver = partial(drivers.InferenceRounds, InlineExecutor(), job, source, 10, silent)
        rounds = driver()
        task = partial(mapreduce.map_partition, rounds.setup, 0, 1)
        task()  # opens the source
        peaks.append([peak_of(driver), peak_of(task), len(pickle.dumps(rounds.setup))])
    assert (np.array(peaks[1]) < 1.5 * np.array(peaks[0])).all(), peaks
