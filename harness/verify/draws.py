"""Parity gate of sampling: draws are random, each in-edge of a node as likely as the others, and new in every epoch.

On a graph whose nodes have equally many in-edges, one batch shows how often the first, the second and every other
in-edge of a node is drawn. Epochs of one batch that draw the same edges reach the same number of nodes.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Hop, Sampler
from backends.model import ModelSpec
from backends.registry import BackendConfig, runtime
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import training_of
from harness.verify.outcome import Incorrect

REGULAR = "a regular graph"
NODES, DEGREE, FANOUT = 4096, 16, 2
TARGETS = NODES // 2
HOPS = 2  # at most: after more of them nearly all nodes are reached
EPOCHS = 5  # two of them reach as many nodes by chance in 2 % of the cases
SIGMAS = 6.0
DRAWING = ("sampler", "filter", "scope", "replacement")  # options of engines that decide which edges are drawn


def options_not_verified(backend: BackendConfig) -> dict[str, dict[str, Any]]:
    """Name the cell's options of drawing instead of which the gate has the definition's, as a part of ``parity``.

    Nothing where the gate leaves them as they are.
    """
    gate = backend.for_parity_gate()
    own = {name: getattr(backend, name) for name in DRAWING if hasattr(backend, name)}
    replaced = {name: value for name, value in own.items() if value != getattr(gate, name)}
    return {"not verified": replaced} if replaced else {}


def verify_trained_draws(config: RunConfig, spec: ModelSpec) -> dict[str, Any]:
    """Check an engine's own sampler, by which its epochs train; raises Incorrect.

    Returns the counts of ``verify_draws`` by name; nothing for an engine whose epochs train on the definition's draws,
    which ``epochs.py`` compares, for one without a sampler of its own, and for all neighbours.
    """
    backend = config.backend.for_parity_gate()
    defined = "train" in backend.draws and backend.draws_in_epochs
    if not spec.fanouts or defined or "sample" not in backend.runtimes:
        return {}
    counts, wrong = verify_draws(config, spec)
    if wrong:
        raise Incorrect(
            f"backend {backend.name} trains on draws that are wrong in {REGULAR}: {wrong}", {REGULAR: counts}
        )
    return {REGULAR: counts}


def verify_draws(config: RunConfig, spec: ModelSpec) -> tuple[dict[str, int], str]:
    """Sample epochs of one batch, then draw it; returns targets, nodes and edges, and what is wrong or nothing."""
    layers = min(spec.layers, HOPS)
    few = replace(spec, layers=layers, fanouts=(FANOUT,) * layers)
    targets = np.arange(TARGETS)
    engine: Sampler = runtime(config.backend.for_parity_gate(), "sample")
    engine.prepare(regular_graph(), few, training_of(config), BatchPlan(targets, None, None, config.seed), Clock())
    try:
        reached = [_nodes_of_epoch(engine, epoch) for epoch in range(EPOCHS)]
        hops = engine.draw(targets)
    finally:
        engine.close()
    counts = {key: sum(len(getattr(hop, key)) for hop in hops) for key in ("nodes", "edges")}
    wrong = f"{EPOCHS} epochs draw the same {reached[0]} nodes" if len(set(reached)) == 1 else ""
    return {"targets": TARGETS} | counts, wrong or next(filter(None, map(_wrong_shares, hops)), "")


def regular_graph() -> Graph:
    """A graph whose nodes have ``DEGREE`` in-edges each, from any others."""
    random = np.random.Generator(np.random.Philox(key=29))
    ends = np.repeat(np.arange(NODES), DEGREE)
    return Graph(
        "regular graph", csr_from_edges((ends + random.integers(1, NODES, len(ends))) % NODES, ends, (NODES,) * 2)
    )


def _nodes_of_epoch(engine: Sampler, epoch: int) -> Any:
    engine.sample(epoch, Clock())
    return engine.facts()["nodes"]


def _wrong_shares(hop: Hop) -> str:
    """A sentence on the in-edge that a hop draws too often or too seldom by its place among a node's, or nothing."""
    drawn = np.bincount(hop.edges % DEGREE, minlength=DEGREE)
    share, nodes = FANOUT / DEGREE, len(hop.nodes)
    far = np.abs(drawn - share * nodes) > SIGMAS * np.sqrt(share * (1 - share) * nodes)
    if not far.any():
        return ""
    place = int(np.flatnonzero(far)[0])
    return f"it draws in-edge {place} of {drawn[place]} of {nodes} nodes, {FANOUT} of {DEGREE} are drawn of each"
