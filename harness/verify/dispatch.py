"""Parity gate of ``dispatch``: the parts on disk must be the graph; those of our engines must repeat to the byte."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from backends.contract import Dispatcher, PartitionTask
from backends.registry import runtime
from datasets.graph import Graph
from harness.measure.clock import Clock
from harness.measure.written_parts import broken_parts
from harness.planning.schema import RunConfig
from harness.scenario.partition import task_of
from harness.verify.graphs import small_graph_with_loads
from harness.verify.outcome import Incorrect

NODES, NODES_PER_PART = 1000, 16


def verify_dispatch(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Dispatch a small graph into one part and into several, twice each, and read the files back; raises Incorrect."""
    small = small_graph_with_loads(graph, config.scenario.balance, NODES)
    parity: dict[str, Any] = {}
    native = config.backend.kind == "native"
    for parts in sorted({1, min(config.scenario.parts, small.nodes // NODES_PER_PART)}):
        task = task_of(replace(config, scenario=replace(config.scenario, parts=parts)), small)
        with tempfile.TemporaryDirectory() as place:
            folders = [Path(place) / name for name in ("first", "second")]
            wrong = [_dispatched(config, small, task, folder, native) for folder in folders]
            repeats = not native or _files(folders[0]) == _files(folders[1])
        if any(wrong) or not repeats:
            what = wrong[0] or wrong[1] or "a second call writes other bytes"
            raise Incorrect(f"backend {config.backend.name} breaks the contract of dispatch: {what}", parity)
        parity[f"small graph in {parts} parts"] = {"nodes": small.nodes, "edges": small.csr.nnz}
    return parity


def _dispatched(config: RunConfig, graph: Graph, task: PartitionTask, folder: Path, native: bool) -> str:
    """Dispatch once; returns what is wrong with the parts."""
    engine: Dispatcher = runtime(config.backend.for_parity_gate(), "dispatch")
    engine.prepare(graph, task, Clock())
    try:
        engine.dispatch(folder, Clock())
        return broken_parts(graph, engine.written(), only_sources=native)
    finally:
        engine.close()


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
