"""Parity gate of ``flatten``: stored neighbourhoods, read back, against the kernels' definition in numpy."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Flattener, GraphFeature, Nodes, Sampling
from backends.registry import load_object, runtime
from datasets.csr import Csr
from datasets.features import dense_features
from datasets.filters import EdgeFilter
from datasets.graph import Graph
from datasets.randomness import hash_ids
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import neighbourhood_spec_of, training_of
from harness.verify.graphs import small_graph
from harness.verify.outcome import Incorrect

DEFINITION = "backends.kernels.definition"
TARGETS = 16  # of the data set
EDGES_AT_ONCE = 1 << 24


def verify_flattening(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Flatten a small graph and a sample of the targets of ``graph``, and compare; raises Incorrect.

    Returns per graph the numbers of targets, of their nodes and of their edges.
    """
    drawn = hash_ids(config.seed, "verified targets", np.arange(TARGETS)) % np.uint64(graph.nodes)
    targets, small = np.unique(drawn.astype(np.int64)), _small(graph)
    parts = {"small graph": (small, np.arange(small.nodes)), f"{len(targets)} targets": (graph, targets)}
    parity: dict[str, Any] = {}
    for name, (part, nodes) in parts.items():
        parity[name], wrong = _compare(config, part, nodes)
        if wrong:
            raise Incorrect(f"backend {config.backend.name} disagrees with the definition on {name}: {wrong}", parity)
    return parity


def _small(graph: Graph) -> Graph:
    """The gate's small graph with every column that ``graph`` has, because samplers and filters may name any.

    Its nodes and edges have the columns of random ones of ``graph``: of invented values a sampler may refuse some, and
    a filter may let none pass.
    """
    small = small_graph(graph.task, graph.classes, weighted=False)
    random = np.random.Generator(np.random.Philox(key=19))
    nodes = random.integers(0, graph.nodes, small.nodes)
    edges = random.integers(0, max(graph.csr.nnz, 1), small.csr.nnz)
    return replace(
        small,
        features=_rows(graph.features, nodes),
        node_types=_rows(graph.node_types, nodes),
        edge_weights=_rows(graph.edge_weights, edges),
        edge_types=_rows(graph.edge_types, edges),
        edge_features=_rows(graph.edge_features, edges),
    )


def _rows(column: Any, rows: Nodes) -> Any:
    """Some rows of a column; ones where it has none, ``None`` where there is no column."""
    if column is None:
        return None
    return column[rows] if len(column) else np.ones((len(rows), *column.shape[1:]), column.dtype)


def _compare(config: RunConfig, graph: Graph, targets: Nodes) -> tuple[dict[str, int], str]:
    """Count the compared targets, nodes and edges; also return a sentence on the first difference, or an empty one."""
    engine: Flattener = runtime(config.backend, "flatten")
    plan = BatchPlan(targets, None, None, config.seed)
    engine.prepare(graph, neighbourhood_spec_of(config, graph), training_of(config), plan, Clock())
    try:
        engine.flatten(Clock())
        counted = engine.facts()
        records = list(engine.stored())
        sampling = engine.sampling()
        if wrong := _other_sampling(config, graph, sampling):
            return {}, wrong
        expected = {
            int(record.nodes[0]): record
            for record in (definition_of(graph, sampling, int(target)) for target in targets)
        }
    finally:
        engine.close()
    counts = {"targets": len(expected)} | {
        name: sum(len(getattr(record, column)) for record in expected.values())
        for name, column in (("nodes", "nodes"), ("edges", "edge_ids"))
    }
    stored = {int(record.nodes[0]): record for record in records}
    if len(records) != len(stored):
        return counts, f"{len(records) - len(stored)} records are stored more than once"
    if set(stored) != set(expected):
        return counts, f"{len(set(stored) ^ set(expected))} of {len(expected)} records are missing or of other nodes"
    for target, record in expected.items():
        if wrong := difference(stored[target], record):
            return counts, f"{wrong} of target {target} differ"
    return counts, _miscounted(counted, counts)


def _other_sampling(config: RunConfig, graph: Graph, sampling: Sampling) -> str:
    """A sentence on what the engine says that it samples and that is not what the cell asks for, or an empty one."""
    spec, backend = neighbourhood_spec_of(config, graph), config.backend
    fanouts = spec.fanouts or (None,) * spec.layers
    if not getattr(backend, "sampler", "") and tuple(sampling.fanouts) != fanouts:
        return f"the engine samples fanouts {tuple(sampling.fanouts)} instead of {fanouts}"
    if not getattr(backend, "sampler", "") and sampling.seed != training_of(config).seed:
        return f"the engine samples by seed {sampling.seed} instead of {training_of(config).seed}"
    same = _are_edges_that_pass(sampling.csr, graph, getattr(backend, "filter", None))
    return "" if same else f"the engine samples from other edges than those that pass, {sampling.csr.nnz} of them"


def _are_edges_that_pass(edges: Csr, graph: Graph, filtering: str | None) -> bool:
    """Whether edges are those of the graph that pass a filter, in their order; compared a range at a time."""
    csr, edge_filter, starts = graph.csr, EdgeFilter(graph, filtering) if filtering else None, []
    passed = 0
    for first in range(0, max(csr.nnz, 1), EDGES_AT_ONCE):
        last = min(first + EDGES_AT_ONCE, csr.nnz)
        mask = np.ones(last - first, dtype=bool) if edge_filter is None else edge_filter.mask(first, last)
        places, chosen = first + np.flatnonzero(mask), slice(passed, passed + int(mask.sum()))
        ids = places if csr.edge_ids is None else csr.edge_ids[places]
        own = np.arange(chosen.start, chosen.stop) if edges.edge_ids is None else edges.edge_ids[chosen]
        if not (np.array_equal(edges.indices[chosen], csr.indices[places]) and np.array_equal(own, ids)):
            return False
        rows = csr.indptr[slice(*np.searchsorted(csr.indptr, np.array([first, last], csr.indptr.dtype)))]
        starts.append(passed + np.concatenate(([0], np.cumsum(mask)))[rows - first])
        passed = chosen.stop
    starts.append(np.full(csr.shape[0] + 1 - sum(map(len, starts)), passed))  # of what ends after the last edge
    return passed == edges.nnz and np.array_equal(np.concatenate(starts), edges.indptr)


def _miscounted(counted: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """Compare what the call counted: an engine without a sink builds its records again when they are read."""
    for name, expected in zip(("records", "nodes", "edges"), counts.values(), strict=True):
        if counted.get(name) != expected:
            return f"the call counted {counted.get(name)} {name} instead of {expected}"
    return ""


def definition_of(graph: Graph, sampling: Sampling, target: int) -> GraphFeature:
    """Compute the record of a target by the definition in numpy."""
    # Loaded here: the kernels' package imports torch, which cells without a gate do not need.
    reaches = load_object("backends.kernels.neighbourhood:reaches")
    drawing = load_object(f"{DEFINITION}:Drawing")(
        sampling.sampler, sampling.seed, sampling.weight, sampling.replacement
    )
    steps = reaches(sampling.fanouts)
    search = load_object(f"{DEFINITION}:search")
    hood = search(sampling.csr, drawing, np.array([target]), steps, sampling.per_target)
    nodes, starts = hood.numbers, hood.edges.starts
    counts = np.diff(starts)
    return GraphFeature(
        nodes if graph.node_ids is None else graph.node_ids[nodes].astype(np.int64),
        np.repeat(np.arange(len(hood.layers)), hood.layers),
        graph.csr.indptr[nodes + 1].astype(np.int64) - graph.csr.indptr[nodes],
        None if graph.features is None else dense_features(graph.features[nodes], "the definition"),
        np.repeat(np.arange(len(nodes)), counts),
        np.asarray(hood.local),
        np.arange(starts[-1]) - np.repeat(starts[:-1], counts),
        np.asarray(hood.edges.ids),
    )


def difference(first: GraphFeature, second: GraphFeature) -> str:
    """Name the first column in which two records of a target differ, whatever the order of their nodes and edges."""
    first, second = _sorted(first), _sorted(second)
    for column in fields(GraphFeature):
        one, other = (getattr(record, column.name) for record in (first, second))
        if (one is None) != (other is None) or (one is not None and not np.array_equal(one, other)):
            return column.name.replace("_", " ")
    return ""


def _sorted(record: GraphFeature) -> GraphFeature:
    """Sort nodes by id and edges by destination and rank; the edges' ends become node ids."""
    order = np.argsort(record.nodes, kind="stable")
    sources, destinations = (record.nodes[ends] for ends in (record.sources, record.destinations))
    by_rank = np.lexsort((record.ranks, destinations))
    return GraphFeature(
        record.nodes[order],
        record.distance[order],
        record.degrees[order],
        None if record.features is None else dense_features(record.features, "a comparison")[order],
        destinations[by_rank],
        sources[by_rank],
        record.ranks[by_rank],
        record.edge_ids[by_rank],
    )
