"""GraphFlat's driver counts shards: its memory does not grow with the graph, and tasks send it no lists of nodes."""

import numpy as np
import pytest

from backends.agl.flat import drivers, shards
from backends.agl.flat.drivers import flatten_batches
from backends.agl.flat.job import FlattenJob, flatten_to
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.flat.shards import Sizes
from backends.agl.flat.source import Source
from backends.parallel.executor import InlineExecutor
from tests.backends.agl.flat.test_mapreduce import by_tasks
from tests.backends.agl.infer.test_memory import even_graph, peak_of
from tests.graphs import awkward_graph

STRATEGY = parse_sampling("uniform(2);uniform(2)", 2)


def test_a_run_takes_no_memory_by_the_nodes_of_the_graph(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "NODES_AT_ONCE", 4096)
    peaks, targets = [], np.arange(0, 40_000, 400)
    for nodes in (40_000, 40_000, 400_000):  # the first one pays what is loaded once
        folder = tmp_path / str(len(peaks))
        graph, job = even_graph(nodes, folder / "graph", weighted=False), FlattenJob(STRATEGY, shard_records=16)
        peaks.append(peak_of(lambda: flatten_to(folder / "out", graph, targets, job)))  # noqa: B023
    assert peaks[2] < 1.3 * peaks[1], peaks


@pytest.mark.parametrize("piece", [3, 1 << 20])
@pytest.mark.parametrize("nodes", [40, 603])
def test_nodes_that_shards_share_count_once(tmp_path, monkeypatch, nodes, piece):
    monkeypatch.setattr(shards, "NODES_AT_ONCE", piece)
    graph, targets = awkward_graph(2, nodes), np.arange(0, nodes, 3)
    manifest = flatten_to(tmp_path / "out", graph, targets, FlattenJob(STRATEGY, shard_records=16))
    source = Source.build(graph, STRATEGY, None, tmp_path / "source")
    numbers = np.concatenate([batch.numbers for batch in flatten_batches(source, targets, STRATEGY)])
    assert manifest["distinct_nodes"] == len(np.unique(numbers)) < len(numbers) == manifest["sizes"]["nodes"]


def test_tasks_return_the_sizes_of_shards_without_their_nodes(tmp_path):
    returned = []

    class Noting(InlineExecutor):
        def submit(self, results, task, *arguments):
            outputs = super().submit(results, task, *arguments)
            returned.extend(outputs if task is drivers.store_shard else [])
            return outputs

    by_tasks(tmp_path, awkward_graph(2), STRATEGY, 2, None, executor=Noting())
    assert [type(of_shard) for of_shard in returned] == [Sizes] * 3
