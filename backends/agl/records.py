"""GraphFeatures of many targets as arrays, decoded."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.contract import GraphFeature
from datasets.features import Features

Bounds = NDArray[np.int64]


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
