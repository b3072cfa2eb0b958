"""Graphs of the parity gate: a small fixed one, and a slice of the cell's data set."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from backends.contract import Nodes
from datasets.csr import Csr, csr_from_edges
from datasets.features import in_layout
from datasets.graph import MISSING, Graph
from datasets.randomness import hash_ids
from harness.planning.schema import RunConfig

ISOLATED, UNLABELLED, PARTLY_LABELLED = 3, 6, 9  # of the small graph, all in the training split
BLOCK = 1024
SLICE_NODES = 4096
SLICE_EDGES = 40_000
SLICE_READS = 50 * SLICE_EDGES  # in-edges of a slice's nodes in the whole graph, among which its own are found
SLICE_FEATURES = 1 << 24  # numbers in the features of a slice, which the definition holds dense
SLICE_OUTPUTS = 1 << 20  # numbers in the outputs of all layers: the more, the likelier one changes sign in float32


def small_graph(
    task: str, classes: int, *, weighted: bool, nodes: int = 60, width: int = 12, edge_width: int = 0
) -> Graph:
    """A fixed asymmetric graph with a hub (node 0), an isolated node, parallel edges, and a node without a label.

    These nodes are among the first of the training split, so that the batches that are compared hold them. Of several
    labels another node lacks one.
    """
    random = np.random.Generator(np.random.Philox(key=17))
    connected = nodes - 1
    source, destination = random.integers(0, connected, 4 * nodes), random.integers(0, connected, 4 * nodes)
    hub = np.arange(1, connected)
    source = np.concatenate((source, hub, source[:10]))
    destination = np.concatenate((destination, np.zeros(len(hub), dtype=np.int64), destination[:10]))
    for ends in (source, destination):  # the last node, which has no edge so far, changes places
        ends[ends == ISOLATED] = connected
    no_loop = source != destination
    csr = csr_from_edges(source[no_loop], destination[no_loop], (nodes, nodes))
    classes = min(max(classes, 2), 8)
    label_sets = (random.random((nodes, classes)) < 0.4).astype(np.int8)
    labels = label_sets if task == "multilabel" else random.integers(0, classes, nodes)
    labels[UNLABELLED] = MISSING
    if task == "multilabel":
        labels[PARTLY_LABELLED, 0] = MISSING
    return Graph(
        "small graph",
        csr,
        features=random.standard_normal((nodes, width)).astype(np.float32),
        labels=labels,
        split=(np.arange(nodes) % 3).astype(np.int8),
        classes=classes,
        task="multilabel" if task == "multilabel" else "multiclass",
        edge_weights=random.uniform(0.5, 2.0, csr.nnz).astype(np.float32) if weighted else None,
        edge_features=random.standard_normal((csr.nnz, edge_width)).astype(np.float32) if edge_width else None,
    )


def small_graph_with_loads(graph: Graph, balance: Sequence[str], nodes: int) -> Graph:
    """The small graph with the number of types of nodes of ``graph``, for partitions that balance these loads.

    Where edges are loads and every node of ``graph`` has some, every node of the small one does too.
    """
    small = small_graph("multiclass", 4, weighted=False, nodes=nodes)
    if graph.node_types is not None:
        random = np.random.Generator(np.random.Philox(key=23))
        types = random.integers(0, 1 + int(graph.node_types.max(initial=0)), nodes)
        small = replace(small, node_types=types.astype(np.int32))
    if graph.csr.in_degrees.all() and any(name.startswith("edges") for name in balance):
        small = replace(small, csr=_with_in_edges(small.csr))
    return small


def _with_in_edges(csr: Csr) -> Csr:
    """The same edges, and one more from its neighbour by number to each node that has no in-edge."""
    without = np.flatnonzero(csr.in_degrees == 0)
    sources = np.concatenate((csr.indices, (without + 1) % len(csr.in_degrees)))
    return csr_from_edges(sources, np.concatenate((csr.destinations, without)), csr.shape)


def with_few_features(graph: Graph) -> Graph:
    """The same graph with sparse features: every third entry of an array, and a node without any."""
    assert isinstance(graph.features, np.ndarray)
    few = np.where(np.arange(graph.features.size).reshape(graph.features.shape) % 3 == 0, graph.features, 0)
    few[1] = 0
    return replace(graph, features=in_layout(few, "sparse"))


def slice_of(graph: Graph, config: RunConfig) -> dict[str, Graph]:
    """Cut a part of a data set: its first graph, or one block of targets with the nodes that they aggregate.

    The targets are nodes that are trained; where there are none, and nothing is to be trained, any nodes. The slice is
    named by how many of them it holds. To be trained on, the first graph must have some.
    """
    trains, most = config.scenario.name == "train", most_nodes(graph, config)
    trained = np.arange(0) if graph.labels is None else graph.nodes_of("train")
    if graph.graph_ids is not None and graph.inductive:
        first = np.flatnonzero(graph.graph_ids == graph.graph_ids[0])
        small = int(graph.csr.in_degrees[first].sum()) <= SLICE_EDGES and len(first) <= most
        if small and (not trains or len(np.intersect1d(first, trained))):
            return {"first graph": graph.subgraph(first)}
    size = config.training.batch_size if trains else None
    candidates = trained if trains or len(trained) else np.arange(graph.nodes)
    if not len(candidates):
        return {}
    targets = _in_hashed_order(candidates)[: min(BLOCK, size or BLOCK)]
    nodes = neighbourhood(graph, targets, config.model.layers, most)
    return {f"neighbourhood of {len(np.intersect1d(nodes, targets))} targets": graph.subgraph(nodes)}


def most_nodes(graph: Graph, config: RunConfig) -> int:
    """Nodes that a slice may have: wide features and layers are many numbers a node."""
    model = config.model
    outputs = (model.layers - 1) * model.hidden * model.heads + graph.classes * model.output_heads
    return min(SLICE_NODES, SLICE_FEATURES // max(graph.width, 1), SLICE_OUTPUTS // max(outputs, 1))


def neighbourhood(graph: Graph, targets: Nodes, hops: int, most: int | None = None) -> Nodes:
    """Return ``targets`` and then their in-neighbours over some hops, at most ``most``, within the bounds of a slice.

    Targets and hops have equal shares of the nodes and of the in-edges that are read: spread over a large graph, the
    targets' neighbours alone would be too many.
    """
    limit = max(hops + 1, SLICE_NODES if most is None else most)
    reads = SLICE_READS // (hops + 1)
    nodes = frontier = _readable(graph, targets[: limit // (hops + 1)], reads)
    for hops_left in range(hops, 0, -1):
        reached = np.setdiff1d(graph.csr.rows(frontier)[0].indices, nodes)
        frontier = _readable(graph, _in_hashed_order(reached)[: (limit - len(nodes)) // hops_left], reads)
        nodes = np.concatenate((nodes, frontier))
    return nodes[: np.searchsorted(_edges_of_prefixes(graph, nodes), SLICE_EDGES, side="right")]


def _in_hashed_order(nodes: NDArray[np.integer]) -> Nodes:
    """The same nodes in a fixed order that says nothing about them: the first of a data set may all be hubs."""
    return nodes[np.argsort(hash_ids(0, "slice", nodes))].astype(np.int64)


def _readable(graph: Graph, nodes: Nodes, reads: int) -> Nodes:
    """Those of ``nodes``, in their order, that have at most ``reads`` in-edges in all; one at least.

    Those of most in-edges are left out: a hub may have more than all others.
    """
    degrees = graph.csr.in_degrees[nodes]
    ascending = np.argsort(degrees, kind="stable")
    fits = np.cumsum(degrees[ascending]) <= reads
    fits[:1] = True
    return nodes[np.sort(ascending[fits])]


def _edges_of_prefixes(graph: Graph, nodes: Nodes) -> NDArray[np.int64]:
    """How many edges the first of ``nodes`` has to itself, how many the first two have among them, and so on, [n]."""
    place = np.full(graph.nodes, -1)
    place[nodes] = np.arange(len(nodes))
    rows, _ = graph.csr.rows(nodes)
    sources = place[rows.indices]
    later_end = np.maximum(sources, rows.destinations)[sources >= 0]
    return np.cumsum(np.bincount(later_end, minlength=len(nodes)))
