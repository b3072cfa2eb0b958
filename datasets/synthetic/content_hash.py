"""sha256 of a generated graph's arrays, its name in the cache and in records."""

import hashlib
from dataclasses import replace

import numpy as np

from datasets.features import SparseFeatures
from datasets.graph import Graph


def with_content_hash(graph: Graph) -> Graph:
    """Return the graph with ``sha256`` computed from its name and arrays, and the trust ``generated``."""
    sha256 = hashlib.sha256(graph.name.encode())
    nodes, edges = (graph.features, graph.labels, graph.split), (graph.csr.indptr, graph.csr.indices, graph.csr.ids)
    attributes = (graph.edge_features, graph.edge_weights, graph.node_types, graph.edge_types)
    arrays = (*edges, *nodes, *attributes, graph.graph_ids, graph.node_ids, graph.part_bounds)
    for array in (
        part for whole in arrays for part in (whole.arrays if isinstance(whole, SparseFeatures) else (whole,))
    ):
        if array is not None:
            sha256.update(f"{array.dtype} {array.shape}".encode())
            sha256.update(np.ascontiguousarray(array).data)
    return replace(graph, sha256=sha256.hexdigest(), trust="generated")
