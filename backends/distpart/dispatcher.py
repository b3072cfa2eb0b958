"""Scenario ``dispatch`` by our own assignment and our own writer."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.contract import Clock, PartitionTask, WrittenParts
from backends.distpart.assign import AssignOptions, assign
from backends.distpart.dispatch.job import DispatchJob, DispatchOptions
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.partition_graph import original_ids_of
from backends.distpart.typed_graph import typed_graph
from backends.registry import BackendConfig
from datasets.graph import Graph

_NAME = "graph"
_MEMORY = 2 << 30  # of a dispatch, unless the config bounds it


class DistDispatcher:
    """A ``contract.Dispatcher``: phases ``assign`` and ``write``."""

    def __init__(self, config: BackendConfig) -> None:
        self.config: Any = config

    def prepare(self, graph: Graph, task: PartitionTask, clock: Clock) -> None:
        """Take over the graph and the task; all work is in the timed call."""
        torch.set_num_threads(task.threads)
        self.graph, self.task = typed_graph(graph), task

    def dispatch(self, folder: Path, clock: Clock) -> None:
        """Assign all nodes and write all parts."""
        task, memory = self.task, int(self.config.memory * 2**30)
        options = AssignOptions(
            task.parts, self.config.method, task.imbalance, task.objective, task.seed, task.threads, memory=memory
        )
        with clock.phase("assign"):
            parts = assign(self.graph, task.weights, options)
        with clock.phase("write"):
            numbering = Numbering.of(self.graph, parts, task.parts)
            written = DispatchOptions(memory or _MEMORY, task.threads, method=self.config.method)
            self.config_path = DispatchJob(self.graph, numbering, folder, _NAME, written).run()

    def written(self) -> WrittenParts:
        """The JSON and the maps that lie beside it."""
        nodes, edges = original_ids_of(self.graph, self.config_path.parent, self.task.parts)
        if self.graph.is_typed:
            kinds, relations = self.graph.schema.node_types, self.graph.schema.relations
            counts = [self.graph.edges[relation].count for relation in relations]
            starts = dict(zip(relations, np.cumsum([0, *counts]).tolist(), strict=False))
            nodes = np.concatenate([nodes[kind] + self.graph.starts[kind] for kind in kinds])
            edges = np.concatenate([edges[relation] + starts[relation] for relation in relations])
        return WrittenParts(self.config_path, nodes, edges)

    def facts(self) -> dict[str, Any]:
        """Nothing beside what the harness computes from the files."""
        return {}

    def close(self) -> None:
        """Nothing runs between the calls."""
