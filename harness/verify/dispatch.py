"""Parity gate of ``dispatch``: the parts on disk must be the graph; those of our engines must repeat to the byte."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.contract import Dispatcher, PartitionTask, WrittenParts
from backends.registry import runtime
from datasets.graph import Graph
from datasets.partition.dgl_format import read_tensors
from harness.measure.clock import Clock
from harness.measure.written_parts import broken_parts
from harness.planning.schema import RunConfig
from harness.scenario.partition import task_of
from harness.verify.graphs import small_graph_with_loads
from harness.verify.outcome import Incorrect

NODES, NODES_PER_PART = 1000, 16


def verify_dispatch(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Dispatch a small graph into one part and into several, twice each, and read the files back; raises Incorrect."""
    small = _with_edge_attributes(small_graph_with_loads(graph, config.scenario.balance, NODES))
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
        written = engine.written()
        return broken_parts(graph, written, only_sources=native) or broken_edge_attributes(graph, written)
    finally:
        engine.close()


def _with_edge_attributes(graph: Graph) -> Graph:
    """The same graph with weights, types and features of its edges, all of them drawn by a fixed key."""
    random = np.random.Generator(np.random.Philox(key=31))
    edges = graph.csr.nnz
    return replace(
        graph,
        edge_weights=random.uniform(0.5, 2.0, edges).astype(np.float32),
        edge_types=random.integers(0, 3, edges).astype(np.int32),
        edge_features=random.standard_normal((edges, 2)).astype(np.float32),
    )


def broken_edge_attributes(graph: Graph, written: WrittenParts) -> str:
    """Return a sentence on the first part of a graph without a schema whose edges have other attributes than there.

    Empty if all are right. The maps of ``written`` must be one to one, and its ranges contiguous.
    """
    arrays: dict[str, Any] = {"weight": graph.edge_weights, "type": graph.edge_types, "feat": graph.edge_features}
    facts = json.loads(written.config.read_text(encoding="utf-8"))
    ((relation, ranges),) = facts["edge_map"].items()
    order = np.argsort(graph.csr.ids, kind="stable")
    positions = order[np.searchsorted(graph.csr.ids, written.edges, sorter=order)]
    for part, (start, end) in enumerate(ranges):
        stored = read_tensors(written.config.parent / facts[f"part-{part}"]["edge_feats"])
        for name, array in arrays.items():
            rows = stored.get(f"{relation}/{name}")
            if array is not None and (rows is None or not np.array_equal(rows, array[positions[start:end]])):
                return f"part {part}: the rows of {name} are not those of its edges"
    return ""


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
