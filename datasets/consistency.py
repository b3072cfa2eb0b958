"""Checks of a loaded graph, whoever wrote its loader: arrays as long as its nodes and edges, numbers finite."""

import numpy as np

from datasets.features import SparseFeatures
from datasets.graph import Graph

ROWS_AT_ONCE = 1 << 16
NODE_ARRAYS = ("features", "labels", "split", "graph_ids", "node_ids", "node_types")
EDGE_ARRAYS = ("edge_weights", "edge_types", "edge_features")


def check_lengths(graph: Graph) -> None:
    """Raise ValueError for an array that has not one row for each node, or for each edge."""
    for names, rows, of in ((NODE_ARRAYS, graph.nodes, "nodes"), (EDGE_ARRAYS, graph.csr.nnz, "edges")):
        for name in names:
            array = getattr(graph, name)
            if array is not None and len(array) != rows:
                raise ValueError(f"{name} has {len(array):,} rows, but the graph has {rows:,} {of}")


def check_finite(graph: Graph) -> None:
    """Raise ValueError, with the row, for features of nodes or edges, or weights, that are no numbers or infinite."""
    for name in ("features", "edge_weights", "edge_features"):
        array = getattr(graph, name)
        values = array.values if isinstance(array, SparseFeatures) else array
        for start in range(0, 0 if values is None else len(values), ROWS_AT_ONCE):
            finite = np.isfinite(values[start : start + ROWS_AT_ONCE])
            if not finite.all():
                row = start + int(np.argmin(finite.reshape(len(finite), -1).all(axis=1)))
                if isinstance(array, SparseFeatures):
                    row = int(np.searchsorted(array.csr.indptr, row, side="right")) - 1
                raise ValueError(f"{name} holds NaN or infinite numbers in row {row}")
