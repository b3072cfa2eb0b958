"""Parity gate of ``sample``: drawn neighbourhoods must keep the contract of sampling, whatever the random draws are.

A hop expands nodes that were reached before it, and must expand each of them that no earlier hop has expanded. Each
expanded node has exactly min(fanout, in-degree) of its in-edges, none twice. Where fanouts reach every in-degree
nothing is random, and nodes and edges are those of the whole neighbourhood: an epoch counts as many as its batches do.
Where they do not, ``draws.py`` looks at what the draws are.
"""

from collections.abc import Callable
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
from harness.verify.draws import REGULAR, options_not_verified, verify_draws
from harness.verify.graphs import BLOCK, small_graph
from harness.verify.outcome import Incorrect

EPOCH = "an epoch of the small graph"
BATCHES = 3
FEW = 5  # targets of the small graph, so few that their neighbourhood is not the whole graph


def verify_sampling(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Draw neighbourhoods of a small graph and of one batch of ``graph``, and check them; raises Incorrect.

    Returns per part: targets, expanded nodes and drawn edges, summed over the hops; of an epoch its own counts; and
    under ``not verified`` the options of drawing that were not looked at.
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
    for name, (part, part_spec, targets) in parts.items():
        hops = _draw(config, part, part_spec, targets)
        counts = {key: sum(len(getattr(hop, key)) for hop in hops) for key in ("nodes", "edges")}
        parity[name] = {"targets": len(targets)} | counts
        if wrong := broken(part.csr, targets, part_spec, hops):
            raise Incorrect(f"backend {config.backend.name} breaks the contract of sampling on {name}: {wrong}", parity)
    checks: dict[str, Callable[[], tuple[dict[str, int], str]]] = {EPOCH: lambda: _epoch(config, small, whole)}
    if spec.fanouts:
        checks[REGULAR] = lambda: verify_draws(config, spec)
    for name, check in checks.items():
        parity[name], wrong = check()
        if wrong:
            raise Incorrect(f"backend {config.backend.name} breaks the contract of sampling in {name}: {wrong}", parity)
    return parity | options_not_verified(config.backend)


def _epoch(config: RunConfig, graph: Graph, whole: ModelSpec) -> tuple[dict[str, int], str]:
    """Sample two epochs of all neighbours in several batches; the engine must count what the second one's batches hold.

    Returns the counts of the batches drawn one by one, and a sentence on the first difference, or an empty one.
    """
    plan = BatchPlan(np.arange(graph.nodes), graph.nodes // BATCHES + 1, None, config.seed)
    engine: Sampler = runtime(config.backend.for_parity_gate(), "sample")
    engine.prepare(graph, whole, training_of(config), plan, Clock())
    try:
        for epoch in range(2):
            engine.sample(epoch, Clock())
        counted, batches = engine.facts(), plan.targets(1)
        drawn = [engine.draw(targets) for targets in batches]
    finally:
        engine.close()
    counts, wrong = {"batches": len(batches), "targets": graph.nodes, "nodes": 0, "edges": 0}, ""
    for targets, hops in zip(batches, drawn, strict=True):
        edges = np.concatenate([hop.edges for hop in hops])
        counts["nodes"] += len(np.union1d(targets, graph.csr.indices[edges]))
        counts["edges"] += len(edges)
        wrong = wrong or broken(graph.csr, targets, whole, hops)
    for name, count in counts.items():
        if not wrong and counted.get(name) != count:
            wrong = f"{counted.get(name)} {name} were counted, its batches have {count}"
    return counts, wrong


def _draw(config: RunConfig, graph: Graph, spec: ModelSpec, targets: Nodes) -> list[Hop]:
    """Let a new sampler draw one batch after a whole epoch, which must not change later draws."""
    engine: Sampler = runtime(config.backend.for_parity_gate(), "sample")
    engine.prepare(graph, spec, training_of(config), BatchPlan(targets, None, None, config.seed), Clock())
    try:
        engine.sample(0, Clock())
        return engine.draw(targets)
    finally:
        engine.close()


def broken(csr: Csr, targets: Nodes, spec: ModelSpec, hops: list[Hop]) -> str:
    """Return a sentence on how the hops of one batch break the contract, empty if they keep it."""
    fanouts: list[int | None] = [*reversed(spec.fanouts)] or [None] * spec.layers
    if len(hops) != len(fanouts):
        return f"{len(hops)} hops were drawn, the model has {len(fanouts)}"
    reached, expanded = np.unique(targets), np.zeros(0, dtype=np.int64)
    for number, (hop, fanout) in enumerate(zip(hops, fanouts, strict=True), 1):
        wrong = _wrong_nodes(hop.nodes, reached, expanded)
        wrong = wrong or _wrong_fanout(hop, fanout, fanouts) or _wrong_edges(csr, hop)
        if wrong:
            return f"hop {number} {wrong}"
        reached, expanded = np.union1d(reached, csr.indices[hop.edges]), np.union1d(expanded, hop.nodes)
    return ""


def _wrong_nodes(nodes: Nodes, reached: NDArray[np.integer], expanded: NDArray[np.integer]) -> str:
    """Check the nodes of a hop: all that were reached and not expanded yet, and perhaps nodes that are drawn again."""
    if len(np.unique(nodes)) != len(nodes):
        return "expands a node twice"
    if len(strange := np.setdiff1d(nodes, reached)):
        return f"expands node {strange[0]}, which was not reached"
    if len(left := np.setdiff1d(np.setdiff1d(reached, expanded), nodes)):
        return f"leaves out node {left[0]}, which was reached"
    return ""


def _wrong_fanout(hop: Hop, fanout: int | None, fanouts: list[int | None]) -> str:
    """Check the fanout of a hop: that of its layer, or a larger one of another layer that shares its draw."""
    most = None if None in fanouts else max(other for other in fanouts if other is not None)
    least, drawn, highest = (np.inf if bound is None else bound for bound in (fanout, hop.fanout, most))
    return "" if least <= drawn <= highest else f"draws with fanout {hop.fanout}, its layer asks for {fanout}"


def _wrong_edges(csr: Csr, hop: Hop) -> str:
    """Check the edges of a hop: as many in-edges of each node as the fanout says, none twice."""
    if len(hop.edges) and not 0 <= hop.edges.min() <= hop.edges.max() < csr.nnz:
        return f"holds an edge that the graph of {csr.nnz} edges does not have"
    if len(np.unique(hop.edges)) != len(hop.edges):
        return "holds an edge twice"
    ends = np.searchsorted(csr.indptr, hop.edges, side="right") - 1
    if len(strange := np.setdiff1d(ends, hop.nodes)):
        return f"holds an in-edge of node {strange[0]}, which is not expanded"
    counts = np.bincount(ends, minlength=csr.shape[0])[hop.nodes]
    expected = np.minimum(csr.in_degrees[hop.nodes], np.inf if hop.fanout is None else hop.fanout)
    if len(bad := np.flatnonzero(counts != expected)):
        return f"gives node {hop.nodes[bad[0]]} {counts[bad[0]]} in-edges instead of {int(expected[bad[0]])}"
    return ""
