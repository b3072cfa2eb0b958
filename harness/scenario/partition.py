"""Scenario ``partition``: assigning all nodes of a graph to parts is timed."""

from typing import Any

import numpy as np

from backends.contract import Clock, Nodes, Partitioner, PartitionTask
from backends.registry import runtime
from datasets.graph import Graph
from harness.measure.partition_quality import quality_of
from harness.planning.schema import RunConfig
from harness.scenario.base import EngineScenario


class Partition(EngineScenario):
    """A partitioner on the whole graph."""

    engine: Partitioner
    batches = 1

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph, self.task = config, graph, task_of(config, graph)

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the partitioner."""
        self.engine = runtime(self.config.backend, "partition")
        self.engine.prepare(self.graph, self.task, clock)

    def run(self, index: int, clock: Clock) -> None:
        """Assign all nodes."""
        self.engine.partition(clock)

    def facts(self) -> dict[str, Any]:
        """Facts of the engine, and the quality of its last assignment."""
        return self.engine.facts() | {"partition": quality_of(self.graph, self.task, self.engine.assignment())}


def task_of(config: RunConfig, graph: Graph) -> PartitionTask:
    """The task of a cell; raises ValueError for more parts than nodes, and for loads that the graph does not have."""
    scenario = config.scenario
    if scenario.parts > graph.nodes:
        raise ValueError(
            f"scenario.parts={scenario.parts} is more than the {graph.nodes} nodes of {graph.name}: lower it"
        )
    weights = np.concatenate([_loads(name, graph) for name in scenario.balance], axis=1)
    return PartitionTask(scenario.parts, weights, scenario.imbalance, scenario.objective, config.seed, config.threads)


def _loads(name: str, graph: Graph) -> Nodes:
    """The loads of each node that a name stands for, int64 [nodes, constraints]."""
    if name == "nodes":
        return np.ones((graph.nodes, 1), dtype=np.int64)
    if name == "edges":
        return graph.csr.in_degrees.astype(np.int64)[:, None]
    if name in ("types", "edges_by_type"):
        if graph.node_types is None:
            raise ValueError(f"data set {graph.name} has no types of nodes: leave {name} out of scenario.balance")
        numbers = np.arange(int(graph.node_types.max(initial=0)) + 1)
        kinds: Nodes = (graph.node_types[:, None] == numbers).astype(np.int64)
        return kinds if name == "types" else kinds * graph.csr.in_degrees.astype(np.int64)[:, None]
    if graph.labels is None:
        raise ValueError(f"data set {graph.name} has no splits to balance: leave split out of scenario.balance")
    splits = [graph.nodes_of(split) for split in ("train", "validation", "test")]
    loads = np.zeros((graph.nodes, len(splits)), dtype=np.int64)
    for column, nodes in enumerate(splits):
        loads[nodes, column] = 1
    if not loads.any():
        raise ValueError(f"no node of {graph.name} is in a split: leave split out of scenario.balance")
    return loads[:, loads.any(axis=0)]
