"""The parity gate of ``flatten``: stored neighbourhoods, read back, are those of the kernels' definition in numpy."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Flattener, GraphFeature, Nodes, Sampling
from backends.registry import load_object, runtime
from datasets.graph import Graph
from datasets.randomness import hash_ids
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import neighbourhood_spec_of, training_of
from harness.verify.gradients import Incorrect, small_graph

DEFINITION = "backends.kernels.definition"
SAMPLE = 16  # targets of the data set


def verify_flattening(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Flatten a small graph and a sample of the targets of ``graph``, and compare; raises Incorrect.

    Returns per graph: targets, their nodes and edges together.
    """
    drawn = hash_ids(config.seed, "verified targets", np.arange(SAMPLE)) % np.uint64(graph.nodes)
    targets, small = np.unique(drawn.astype(np.int64)), _small(graph)
    parts = {"small graph": (small, np.arange(small.nodes)), f"{len(targets)} targets": (graph, targets)}
    parity: dict[str, Any] = {}
    for name, (part, wanted) in parts.items():
        parity[name], wrong = _compare(config, part, wanted)
        if wrong:
            raise Incorrect(f"backend {config.backend.name} disagrees with the definition on {name}: {wrong}", parity)
    return parity


def _small(graph: Graph) -> Graph:
    """The gate's small graph with every column that ``graph`` has, since samplers and filters may name any."""
    weighted = graph.edge_weights is not None
    small = small_graph(graph.task, graph.classes, weighted=weighted, width=graph.width)
    random = np.random.Generator(np.random.Philox(key=19))

    def drawn(like: Any, count: int) -> Any:
        if like is None:
            return None
        if like.ndim == 1:
            return random.integers(0, 1 + int(like.max(initial=0)), count).astype(like.dtype)
        return random.standard_normal((count, like.shape[1])).astype(like.dtype)

    return replace(
        small,
        node_types=drawn(graph.node_types, small.nodes),
        edge_types=drawn(graph.edge_types, small.csr.nnz),
        edge_features=drawn(graph.edge_features, small.csr.nnz),
    )


def _compare(config: RunConfig, graph: Graph, targets: Nodes) -> tuple[dict[str, int], str]:
    """Count what was compared, and say what is wrong, or nothing."""
    engine: Flattener = runtime(config.backend, "flatten")
    plan = BatchPlan(targets, None, None, config.seed)
    engine.prepare(graph, neighbourhood_spec_of(config, graph), training_of(config), plan, Clock())
    try:
        engine.flatten(Clock())
        found = {int(record.nodes[0]): record for record in engine.stored()}
        sampling = engine.sampling()
        wanted = {int(record.nodes[0]): record for record in (defined(graph, sampling, int(at)) for at in targets)}
    finally:
        engine.close()
    counted = {"targets": len(wanted)} | {
        name: sum(len(getattr(record, of)) for record in wanted.values())
        for name, of in (("nodes", "nodes"), ("edges", "edge_ids"))
    }
    if set(found) != set(wanted):
        return counted, f"{len(set(found) ^ set(wanted))} of {len(wanted)} records are missing or of other nodes"
    for target, record in wanted.items():
        if wrong := difference(found[target], record):
            return counted, f"{wrong} of target {target} differ"
    return counted, ""


def defined(graph: Graph, sampling: Sampling, target: int) -> GraphFeature:
    """What the record of a target holds, from numpy alone."""
    # torch stands behind the kernels' names: cells without a gate can do without.
    reaches = load_object("backends.kernels.neighbourhood:reaches")
    drawing = load_object(f"{DEFINITION}:Drawing")(
        sampling.sampler, sampling.seed, sampling.weight, sampling.replacement
    )
    steps = reaches(sampling.fanouts)
    found = load_object(f"{DEFINITION}:search")(sampling.csr, drawing, np.array([target]), steps, sampling.per_target)
    nodes, starts = found.numbers, found.kept.starts
    counts = np.diff(starts)
    return GraphFeature(
        nodes if graph.node_ids is None else graph.node_ids[nodes].astype(np.int64),
        np.repeat(np.arange(len(found.layers)), found.layers),
        graph.csr.indptr[nodes + 1].astype(np.int64) - graph.csr.indptr[nodes],
        None if graph.features is None else graph.features[nodes],
        np.repeat(np.arange(len(nodes)), counts),
        np.asarray(found.local),
        np.arange(starts[-1]) - np.repeat(starts[:-1], counts),
        np.asarray(found.kept.ids),
    )


def difference(found: GraphFeature, wanted: GraphFeature) -> str:
    """Name the first column in which two records of a target differ, whatever the order of their nodes and edges."""
    found, wanted = _sorted(found), _sorted(wanted)
    for column in fields(GraphFeature):
        one, other = (getattr(record, column.name) for record in (found, wanted))
        if (one is None) != (other is None) or (one is not None and not np.array_equal(one, other)):
            return column.name.replace("_", " ")
    return ""


def _sorted(record: GraphFeature) -> GraphFeature:
    """Nodes by id, edges by destination and rank; edges name nodes by their id."""
    order = np.argsort(record.nodes, kind="stable")
    sources, destinations = (record.nodes[ends] for ends in (record.sources, record.destinations))
    by_rank = np.lexsort((record.ranks, destinations))
    return GraphFeature(
        record.nodes[order],
        record.distance[order],
        record.degrees[order],
        None if record.features is None else record.features[order],
        destinations[by_rank],
        sources[by_rank],
        record.ranks[by_rank],
        record.edge_ids[by_rank],
    )
