"""Parity gate of ``partition``: an assignment must name one part for each node; that of our engines must repeat."""

from dataclasses import replace
from typing import Any

from backends.contract import Nodes, Partitioner, PartitionTask
from backends.registry import runtime
from datasets.graph import Graph
from harness.measure.clock import Clock
from harness.measure.partition_quality import broken, quality_of
from harness.planning.schema import RunConfig
from harness.scenario.partition import task_of
from harness.verify.graphs import small_graph_with_loads
from harness.verify.outcome import Incorrect

NODES, NODES_PER_PART = 4000, 16


def verify_partition(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Partition a small graph, into one part and into several, twice each, and check the assignments; raises Incorrect.

    The assignment of the cell's own graph is checked after it is timed, when its quality is computed.
    """
    small = small_graph_with_loads(graph, config.scenario.balance, NODES)
    parity: dict[str, Any] = {}
    for parts in sorted({1, min(config.scenario.parts, small.nodes // NODES_PER_PART)}):
        task = task_of(replace(config, scenario=replace(config.scenario, parts=parts)), small)
        first, second = (_assignment(config, small, task) for _ in range(2))
        repeats = config.backend.kind != "native" or bool((first == second).all())
        wrong = broken(small, task, first) or ("" if repeats else "a second call answers otherwise")
        if wrong:
            raise Incorrect(f"backend {config.backend.name} breaks the contract of partition: {wrong}", parity)
        quality = quality_of(small, task, first)
        parity[f"small graph in {parts} parts"] = {"nodes": small.nodes, "cut": quality["cut"]}
    return parity


def _assignment(config: RunConfig, graph: Graph, task: PartitionTask) -> Nodes:
    engine: Partitioner = runtime(config.backend.for_parity_gate(), "partition")
    engine.prepare(graph, task, Clock())
    try:
        engine.partition(Clock())
        return engine.assignment().copy()
    finally:
        engine.close()
