"""GraphFeatures of many targets (AGL, section 3.2): as arrays, encoded to protobuf strings, and decoded.

``graphfeature.proto`` is the schema; ``encode`` writes its wire format for many records at once, in numpy.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backends.contract import GraphFeature
from backends.kernels.graphfeatures import Strings, decode_columns
from backends.kernels.wire import Bounds, Pieces, differences, headers, interleave, scalars, varints, zigzag
from datasets.features import Features, SparseFeatures

Ints = NDArray[np.integer]
SCHEMA = Path(__file__).with_name("graphfeature.proto")
NUMBERS = ("split", "feature_width")  # one of each record; all other fields are bytes
FIELDS = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+);", SCHEMA.read_text())}


@dataclass(frozen=True, eq=False)
class Records:
    """GraphFeatures of several targets, one after the other.

    Record r holds nodes ``node_bounds[r]`` to ``node_bounds[r + 1]``, target first, and edges ``edge_bounds[r]`` to
    ``edge_bounds[r + 1]``. Per node: ``ids``, ``distance`` (steps to the target), ``in_edges`` (edges stored here),
    ``degrees`` and ``weighted_degrees`` (of the whole graph), ``features``. Per edge: ``sources`` (position inside the
    record), ``ranks``, ``edge_ids``, ``edge_weights``, ``edge_features``. Per record: ``labels`` [records, classes or
    1], empty [records, 0] where there are none, and ``split``.
    """

    hops: int
    node_bounds: Bounds
    edge_bounds: Bounds
    ids: NDArray[np.int64]
    distance: NDArray[np.int64]
    in_edges: NDArray[np.int64]
    sources: NDArray[np.int64]
    ranks: NDArray[np.int64]
    edge_ids: NDArray[np.int64]
    degrees: NDArray[np.int64]
    labels: NDArray[np.int64]
    split: NDArray[np.int64]
    weighted_degrees: NDArray[np.float64] | None = None
    features: Features | None = None
    edge_weights: NDArray[np.float32] | None = None
    edge_features: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.node_bounds) - 1

    @property
    def targets(self) -> NDArray[np.int64]:
        """Id of each record's target."""
        return self.ids[self.node_bounds[:-1]]

    def graph_feature(self, record: int) -> GraphFeature:
        """Return record number ``record`` as a GraphFeature."""
        nodes, edges = (slice(*bounds[record : record + 2]) for bounds in (self.node_bounds, self.edge_bounds))
        return GraphFeature(
            self.ids[nodes],
            self.distance[nodes],
            self.degrees[nodes],
            None if self.features is None else self.features[nodes],
            np.repeat(np.arange(nodes.stop - nodes.start), self.in_edges[nodes]),
            self.sources[edges],
            self.ranks[edges],
            self.edge_ids[edges],
        )


def encode(records: Records) -> Pieces:
    """Serialise records, one protobuf string each; the same content gives the same bytes everywhere."""
    nodes, edges, count = records.node_bounds, records.edge_bounds, len(records)
    columns: dict[str, Pieces | None] = {
        "nodes": varints(zigzag(differences(records.ids, nodes)), nodes),
        "nodes_at": _nodes_at(records),
        "in_edges": varints(records.in_edges, nodes),
        "sources": varints(records.sources, edges),
        "ranks": varints(records.ranks, edges),
        "edges": varints(zigzag(differences(records.edge_ids, edges)), edges),
        "degrees": varints(records.degrees, nodes),
        "weighted_degrees": _raw(records.weighted_degrees, nodes),
        **_features(records.features, nodes),
        "edge_weights": _raw(records.edge_weights, edges),
        "edge_features": _raw(records.edge_features, edges),
        "label": varints(zigzag(records.labels.ravel()), np.arange(count + 1) * records.labels.shape[1]),
        "split": scalars(FIELDS["split"], records.split),
    }
    return interleave(_in_order(columns))


def feature_bytes(features: Features | None, numbers: Ints, nodes: Bounds) -> int:
    """Bytes of a graph's features in encoded records, whose nodes are ``numbers`` and are counted by ``nodes``."""
    if features is None:
        return 0
    if not isinstance(features, SparseFeatures):
        column = Pieces(np.empty(0, dtype=np.uint8), nodes * features.shape[1] * features.itemsize)
        return int(column.bounds[-1]) + len(headers(FIELDS["features"], column).data)
    return sum(len(part.data) for part in _in_order(_features(features[numbers], nodes)))


def _in_order(columns: dict[str, Pieces | None]) -> list[Pieces]:
    """Columns in the order of their fields; those of bytes with headers."""
    parts = []
    for name, column in sorted(columns.items(), key=lambda named: FIELDS[named[0]]):
        if column is not None:
            parts += [column] if name in NUMBERS else [headers(FIELDS[name], column), column]
    return parts


def _features(features: Features | None, nodes: Bounds) -> dict[str, Pieces | None]:
    """Dense features as one column, sparse ones as three: per node how many, their columns, their values.

    Of sparse ones also their width, plus 1 so that it is never 0.
    """
    if not isinstance(features, SparseFeatures):
        return {"features": _raw(features, nodes)}
    csr = features.csr
    entries = csr.indptr[nodes].astype(np.int64)
    return {
        "set_features": varints(csr.in_degrees, nodes),
        "feature_columns": varints(differences(csr.indices, csr.indptr), entries),
        "feature_values": _raw(features.values, entries),
        "feature_width": scalars(FIELDS["feature_width"], np.full(len(nodes) - 1, features.shape[1] + 1)),
    }


def _nodes_at(records: Records) -> Pieces:
    """Number of nodes at each distance from the target, 0 to the hops, per record."""
    count, span = len(records), records.hops + 1
    owner = np.repeat(np.arange(count), np.diff(records.node_bounds))
    counts = np.bincount(owner * span + records.distance, minlength=count * span)
    return varints(counts, np.arange(count + 1) * span)


def _raw(values: NDArray[np.floating] | None, bounds: Bounds) -> Pieces | None:
    if values is None:
        return None
    little_endian = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    row_bytes = little_endian.itemsize * int(np.prod(values.shape[1:]))
    return Pieces(little_endian.view(np.uint8).reshape(-1), bounds * row_bytes)


def decode(strings: Strings | Sequence[bytes | memoryview]) -> Records:
    """Read protobuf strings back; raises CorruptRecord naming the first record that cannot be parsed."""
    return Records(**decode_columns(strings if isinstance(strings, Strings) else Strings.of(strings)))
