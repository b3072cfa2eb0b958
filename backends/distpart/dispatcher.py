"""Scenario ``dispatch`` by our own assignment and our own writer."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.contract import Clock, PartitionTask, WrittenParts
from backends.distpart.assign import AssignOptions, assign
from backends.distpart.dispatch.job import DispatchJob, DispatchOptions
from backends.distpart.dispatch.metadata import part_folder
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.dispatch.part import ORIGINAL_EDGES
from backends.distpart.typed_graph import typed_graph
from backends.kernels.extension import require
from backends.registry import BackendConfig
from datasets.graph import Graph
from datasets.partition.dgl_format import read_tensors

_NAME = "graph"
_UNBOUNDED = 1 << 62  # bytes of memory: no machine has them


class DistDispatcher:
    """A ``contract.Dispatcher``: phases ``assign`` and ``write``."""

    def __init__(self, config: BackendConfig) -> None:
        self.config: Any = config

    def prepare(self, graph: Graph, task: PartitionTask, clock: Clock) -> None:
        """Take over the graph and the task; all work is in the timed call."""
        if self.config.method != "random":
            require("edges are read as an undirected graph")
        torch.set_num_threads(task.threads)
        self.graph, self.stored, self.task = graph, typed_graph(graph), task

    def dispatch(self, folder: Path, clock: Clock) -> None:
        """Assign all nodes and write all parts."""
        task, (assigning, writing) = self.task, options_of(self.config, self.task)
        with clock.phase("assign"):
            parts = assign(self.stored, task.weights, assigning)
        with clock.phase("write"):
            self.numbering = Numbering.of(self.stored, parts, task.parts)
            self.config_path = DispatchJob(self.stored, self.numbering, folder, _NAME, writing).run()

    def written(self) -> WrittenParts:
        """The JSON and the maps of its parts, as ids of the graph."""
        relations, parts = self.stored.schema.relations, range(self.task.parts)
        ids = {str(relation): _edge_ids(self.graph, number) for number, relation in enumerate(relations)}
        tables = [read_tensors(self.config_path.parent / part_folder(part) / ORIGINAL_EDGES) for part in parts]
        edges = [
            ids[str(relation)][table[str(relation)]] if self.stored.is_typed else table[str(relation)]
            for table in tables
            for relation in relations
        ]
        return WrittenParts(self.config_path, self.numbering.originals.astype(np.int64), np.concatenate(edges))

    def facts(self) -> dict[str, Any]:
        """Nothing beside what the harness computes from the files."""
        return {}

    def close(self) -> None:
        """Nothing runs between the calls."""


def options_of(config: Any, task: PartitionTask) -> tuple[AssignOptions, DispatchOptions]:
    """Options of the assignment and of the writing by those of a cell, whose memory is in GiB, 0 without a bound."""
    memory = int(config.memory * 2**30)
    assigning = AssignOptions(
        task.parts,
        config.method,
        task.imbalance,
        task.objective,
        task.seed,
        task.threads,
        memory=memory,
        cycles=config.cycles,
        passes=config.passes,
    )
    return assigning, DispatchOptions(memory or _UNBOUNDED, task.threads, method=config.method)


def _edge_ids(graph: Graph, relation: int) -> NDArray[np.int64]:
    """Ids of a relation's edges in the graph, by their number within the relation; nothing without types."""
    if graph.edge_types is None or graph.schema is None:
        return np.empty(0, dtype=np.int64)
    return np.sort(graph.csr.ids[graph.edge_types == relation]).astype(np.int64)
