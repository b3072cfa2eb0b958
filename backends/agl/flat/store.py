"""GraphFlat's Store stage (AGL, section 3.2.1): neighbourhoods sorted, joined with the graph's columns, encoded."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.agl.flat.rounds import Ints, RequestedEdges
from backends.agl.flat.source import Source
from backends.agl.graphfeature import encode
from backends.agl.records import Records
from backends.agl.wire import Pieces
from backends.progress import gibibytes
from datasets.features import SparseFeatures
from datasets.graph import NO_SPLIT, Graph

LARGEST_RECORD = (1 << 31) - (1 << 16)  # bytes: a page of Parquet and a message of protobuf have less than 2 GiB


class RecordTooLarge(ValueError):
    """A GraphFeature that no shard can hold; the message names its target and what to do."""


@dataclass(frozen=True, eq=False)
class TargetNeighbourhoods:
    """Nodes and edges of the neighbourhoods of ``count`` targets, in any order.

    ``requests`` [n] are the nodes (``target * nodes + node``, targets numbered from 0), ``distance`` [n] their steps to
    the target.
    """

    count: int
    hops: int
    requests: Ints
    distance: Ints
    edges: RequestedEdges


@dataclass(frozen=True, eq=False)
class EncodedBatch:
    """A batch of GraphFeatures: records as arrays and as protobuf strings, and the graph's numbers of their nodes."""

    records: Records
    strings: Pieces
    numbers: Ints


def encode_neighbourhoods(neighbourhoods: TargetNeighbourhoods, source: Source, *, embed: bool = True) -> EncodedBatch:
    """Sort, join and encode neighbourhoods; ``embed`` stores features in every record.

    Raises RecordTooLarge, where features alone are too large before they are read.
    """
    _refuse_too_large(_bytes_of_features(neighbourhoods, source.graph, embed), neighbourhoods, source.graph, embed)
    records, numbers = sort_and_join(neighbourhoods, source, embed=embed)
    strings = encode(records)
    _refuse_too_large(strings.sizes, neighbourhoods, source.graph, embed)
    return EncodedBatch(records, strings, numbers)


def _bytes_of_features(neighbourhoods: TargetNeighbourhoods, graph: Graph, embed: bool) -> Ints:
    """Bytes that values of features take in each record: of nodes with ``embed``, and of edges."""
    requests, features, count = neighbourhoods.requests, graph.features, neighbourhoods.count
    sizes = np.zeros(count, dtype=np.int64)
    if embed and isinstance(features, SparseFeatures):
        starts, nodes = features.csr.indptr, requests % graph.nodes
        entries = starts[nodes + 1].astype(np.int64) - starts[nodes]
        sizes += 4 * np.bincount(requests // graph.nodes, weights=entries, minlength=count).astype(np.int64)
    elif embed and features is not None:
        sizes += 4 * features.shape[1] * np.bincount(requests // graph.nodes, minlength=count)
    if graph.edge_features is not None:
        edges = np.bincount(neighbourhoods.edges.requests // graph.nodes, minlength=count)
        sizes += 4 * graph.edge_features.shape[1] * edges
    return sizes


def _refuse_too_large(sizes: Ints, neighbourhoods: TargetNeighbourhoods, graph: Graph, embed: bool) -> None:
    """Raise RecordTooLarge where the record of a neighbourhood takes more than ``LARGEST_RECORD`` bytes."""
    if sizes.max(initial=0) <= LARGEST_RECORD:
        return
    largest, requests = int(sizes.argmax()), neighbourhoods.requests
    is_target = (requests // graph.nodes == largest) & (neighbourhoods.distance == 0)
    target = ids_of(graph, requests[is_target] % graph.nodes)[0]
    raise RecordTooLarge(
        f"the GraphFeature of node {target} takes {gibibytes(sizes[largest])} or more, and a record is at most "
        f"{gibibytes(LARGEST_RECORD)}: give {'--shared (backend.features=shared) or ' if embed else ''}smaller fanouts"
    )


def sort_and_join(neighbourhoods: TargetNeighbourhoods, source: Source, *, embed: bool = True) -> tuple[Records, Ints]:
    """Sort nodes by (target, distance, number), edges by (target, destination, rank); join the graph's columns.

    Returns the records and the numbers of their nodes in the whole graph.
    """
    graph, count = source.graph, source.graph.nodes
    requests, hops = neighbourhoods.requests, neighbourhoods.hops
    order = np.argsort((requests // count * (hops + 1) + neighbourhoods.distance) * count + requests % count)
    requests, numbers = requests[order], requests[order] % count
    node_bounds = np.searchsorted(requests // count, np.arange(neighbourhoods.count + 1))
    by_key = np.argsort(requests)
    keys, places = requests[by_key], by_key - np.repeat(node_bounds[:-1], np.diff(node_bounds))

    def place_of(requested: Ints) -> Ints:
        """Place of each request's node inside its record."""
        return places[np.searchsorted(keys, requested)]

    edges = neighbourhoods.edges
    owner = edges.requests // count
    destination = node_bounds[owner] + place_of(edges.requests)
    # ranks of a destination are distinct, so any sort gives this order
    by_edge = np.argsort(destination * (int(edges.ranks.max(initial=0)) + 1) + edges.ranks)
    positions = edges.positions[by_edge]
    records = Records(
        hops=hops,
        node_bounds=node_bounds,
        edge_bounds=np.searchsorted(owner[by_edge], np.arange(neighbourhoods.count + 1)),
        ids=ids_of(graph, numbers),
        distance=neighbourhoods.distance[order],
        in_edges=np.bincount(destination, minlength=len(requests)),
        sources=place_of(owner * count + edges.sources)[by_edge],
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
    columns = {"edge_weights": graph.edge_weights, "edge_features": graph.edge_features}
    return {name: column[positions] for name, column in columns.items() if column is not None}
