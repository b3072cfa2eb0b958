"""The Store stage: nodes and edges of neighbourhoods in their fixed order, joined with what the graph knows of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.agl.flat.rounds import Edges, Ints
from backends.agl.flat.source import Source
from backends.agl.graphfeature import encode
from backends.agl.records import Records
from backends.agl.wire import Pieces
from datasets.graph import NO_SPLIT, Graph


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Nodes and edges of the neighbourhoods of ``count`` targets, in any order.

    ``held`` [n] are requests (``target * nodes + node``, targets numbered from 0), ``distance`` [n] their distances.
    """

    count: int
    hops: int
    held: Ints
    distance: Ints
    edges: Edges


@dataclass(frozen=True, eq=False)
class Flattened:
    """A batch of GraphFeatures: their records, their protobuf strings, and the numbers of all their nodes."""

    records: Records
    strings: Pieces
    numbers: Ints


def flatten(found: Neighbourhoods, source: Source, *, embed: bool = True) -> Flattened:
    """Order, join and encode neighbourhoods; ``embed`` puts features into every record."""
    records, numbers = ordered(found, source, embed=embed)
    return Flattened(records, encode(records), numbers)


def ordered(found: Neighbourhoods, source: Source, *, embed: bool = True) -> tuple[Records, Ints]:
    """Sort nodes by (target, distance, number), edges by (target, destination, rank, id); join what is known of them.

    Returns the records and the numbers of their nodes in the whole graph.
    """
    graph, count = source.graph, source.graph.nodes
    order = np.argsort((found.held // count * (found.hops + 1) + found.distance) * count + found.held % count)
    held, numbers = found.held[order], found.held[order] % count
    node_bounds = np.searchsorted(held // count, np.arange(found.count + 1))
    by_key = np.argsort(held)
    keys, places = held[by_key], by_key - np.repeat(node_bounds[:-1], np.diff(node_bounds))

    def place(requests: Ints) -> Ints:
        return places[np.searchsorted(keys, requests)]

    edges = found.edges
    owner = edges.asked // count
    destination = node_bounds[owner] + place(edges.asked)
    by_edge = np.argsort(destination * (int(edges.ranks.max(initial=0)) + 1) + edges.ranks)  # a rank is there but once
    positions = edges.positions[by_edge]
    records = Records(
        hops=found.hops,
        node_bounds=node_bounds,
        edge_bounds=np.searchsorted(owner[by_edge], np.arange(found.count + 1)),
        ids=ids_of(graph, numbers),
        distance=found.distance[order],
        in_edges=np.bincount(destination, minlength=len(held)),
        sources=place(owner * count + edges.sources)[by_edge],
        ranks=edges.ranks[by_edge],
        edge_ids=(positions if graph.csr.edge_ids is None else graph.csr.edge_ids[positions]).astype(np.int64),
        degrees=source.degrees_of(numbers),
        weighted_degrees=None if source.weighted_degrees is None else source.weighted_degrees[numbers],
        features=graph.features[numbers] if embed and graph.features is not None else None,
        **_of_targets(graph, numbers[node_bounds[:-1]]),
        **_of_edges(graph, positions),
    )
    return records, numbers


def ids_of(graph: Graph, numbers: Ints) -> Ints:
    """Original ids of nodes."""
    return numbers if graph.node_ids is None else graph.node_ids[numbers].astype(np.int64)


def _of_targets(graph: Graph, targets: Ints) -> dict[str, Any]:
    labels = np.zeros((len(targets), 0)) if graph.labels is None else graph.labels[targets].reshape(len(targets), -1)
    split = np.full(len(targets), NO_SPLIT) if graph.split is None else graph.split[targets]
    return {"labels": labels.astype(np.int64), "split": split.astype(np.int64)}


def _of_edges(graph: Graph, positions: Ints) -> dict[str, Any]:
    held = {"edge_weights": graph.edge_weights, "edge_features": graph.edge_features}
    return {name: array[positions] for name, array in held.items() if array is not None}
