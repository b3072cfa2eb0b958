"""The parity gate of ``sample``: whatever an engine draws at random, it keeps the contract of a sampled neighbourhood.

A hop asks nodes that were reached before, all of those that it is the first to ask among them; each keeps exactly
min(fanout, in-degree) of its in-edges, none twice. Where fanouts reach every in-degree nothing is left to chance, and
nodes and edges are those of the whole neighbourhood.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.batches import BatchPlan
from backends.contract import Hop, Nodes, Sampler
from backends.model import ModelSpec
from backends.registry import runtime
from datasets.csr import Csr
from datasets.graph import Graph
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import labelled_of, neighbourhood_spec_of, training_of
from harness.verify.gradients import BLOCK, Incorrect, small_graph

FEW = 5  # targets of the small graph, whose neighbourhood is not all of it


def verify_sampling(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Draw neighbourhoods of a small graph and of one batch of ``graph``, and check them; raises Incorrect.

    Returns per part: targets, nodes that were asked, edges that were drawn, summed over the hops.
    """
    small = small_graph("multiclass", 4, weighted=False)
    spec = neighbourhood_spec_of(config, graph)
    whole = replace(spec, fanouts=(int(small.csr.in_degrees.max()),) * spec.layers)
    block = labelled_of(graph)[: min(BLOCK, config.training.batch_size or BLOCK)]
    everyone, few = np.arange(small.nodes), np.arange(FEW) + 1
    parts = {
        "small graph": (small, spec, everyone),
        "all neighbours in the small graph": (small, whole, few),
        f"{len(block)} targets": (graph, spec, block),
    }
    parity: dict[str, Any] = {}
    for name, (part, asked, targets) in parts.items():
        hops = _drawn(config, part, asked, targets)
        counted = {key: sum(len(getattr(hop, key)) for hop in hops) for key in ("nodes", "edges")}
        parity[name] = {"targets": len(targets)} | counted
        if wrong := broken(part.csr, targets, asked, hops):
            raise Incorrect(f"backend {config.backend.name} breaks the contract of sampling on {name}: {wrong}", parity)
    return parity


def _drawn(config: RunConfig, graph: Graph, spec: ModelSpec, targets: Nodes) -> list[Hop]:
    """What a new sampler draws for one batch, after another one: what that left behind must not matter."""
    engine: Sampler = runtime(config.backend.checked(), "sample")
    engine.prepare(graph, spec, training_of(config), BatchPlan(targets, None, None, config.seed), Clock())
    try:
        engine.sample(0, Clock())
        return engine.draw(targets)
    finally:
        engine.close()


def broken(csr: Csr, targets: Nodes, spec: ModelSpec, hops: list[Hop]) -> str:
    """Say what of the contract the hops of one batch break, or nothing."""
    fanouts: list[int | None] = [*reversed(spec.fanouts)] or [None] * spec.layers
    if len(hops) != len(fanouts):
        return f"{len(hops)} hops were drawn, {len(fanouts)} are asked"
    reached, done = np.unique(targets), np.zeros(0, dtype=np.int64)
    for number, (hop, fanout) in enumerate(zip(hops, fanouts, strict=True), 1):
        wrong = _wrong_nodes(hop.nodes, reached, done) or _wrong_fanout(hop, fanout, fanouts) or _wrong_edges(csr, hop)
        if wrong:
            return f"hop {number} {wrong}"
        reached, done = np.union1d(reached, csr.indices[hop.edges]), np.union1d(done, hop.nodes)
    return ""


def _wrong_nodes(nodes: Nodes, reached: NDArray[np.integer], done: NDArray[np.integer]) -> str:
    """A hop may ask again, as layers that draw each for themselves do, but must ask all that are new."""
    if len(np.unique(nodes)) != len(nodes):
        return "asks a node twice"
    if len(strange := np.setdiff1d(nodes, reached)):
        return f"asks node {strange[0]}, which was not reached"
    if len(left := np.setdiff1d(np.setdiff1d(reached, done), nodes)):
        return f"leaves out node {left[0]}, which was reached"
    return ""


def _wrong_fanout(hop: Hop, own: int | None, fanouts: list[int | None]) -> str:
    """More than its own fanout only as a draw for a deeper layer, whose edges hold this one's."""
    most = None if None in fanouts else max(fanout for fanout in fanouts if fanout is not None)
    least, given, highest = (np.inf if fanout is None else fanout for fanout in (own, hop.fanout, most))
    return "" if least <= given <= highest else f"draws with fanout {hop.fanout}, its layers ask for {own}"


def _wrong_edges(csr: Csr, hop: Hop) -> str:
    """Each node keeps as many as it must, of its own in-edges, none twice."""
    if len(hop.edges) and not 0 <= hop.edges.min() <= hop.edges.max() < csr.nnz:
        return f"holds an edge that the graph of {csr.nnz} edges does not have"
    if len(np.unique(hop.edges)) != len(hop.edges):
        return "holds an edge twice"
    ends = np.searchsorted(csr.indptr, hop.edges, side="right") - 1
    if len(strange := np.setdiff1d(ends, hop.nodes)):
        return f"holds an in-edge of node {strange[0]}, which was not asked"
    kept = np.bincount(ends, minlength=csr.shape[0])[hop.nodes]
    wanted = np.minimum(csr.in_degrees[hop.nodes], np.inf if hop.fanout is None else hop.fanout)
    if len(bad := np.flatnonzero(kept != wanted)):
        return f"gives node {hop.nodes[bad[0]]} {kept[bad[0]]} in-edges instead of {int(wanted[bad[0]])}"
    return ""
