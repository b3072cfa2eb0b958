"""Small random graphs with hubs, isolated nodes, parallel edges and missing labels."""

import numpy as np

from datasets.csr import csr_from_edges
from datasets.graph import Graph


def awkward_graph(
    seed: int = 0,
    nodes: int = 40,
    edges: int = 160,
    width: int = 6,
    classes: int = 4,
    *,
    weighted=False,
    multilabel=False,
) -> Graph:
    """An asymmetric graph: node 0 is a hub, the last node is isolated, some edges are parallel, labels are missing."""
    draw = np.random.default_rng(seed)
    source = draw.integers(0, nodes - 1, edges)
    destination = draw.integers(0, nodes - 1, edges)
    source = np.concatenate([source, np.arange(1, nodes - 1), source[:7]])
    destination = np.concatenate([destination, np.zeros(nodes - 2, dtype=np.int64), destination[:7]])
    no_loop = source != destination
    csr = csr_from_edges(source[no_loop], destination[no_loop], (nodes, nodes))
    if multilabel:
        labels = draw.integers(0, 2, (nodes, classes)).astype(np.int8)
        labels[3] = -1
        labels[5, 1] = -1
    else:
        labels = draw.integers(0, classes, nodes)
        labels[3] = -1
    return Graph(
        "awkward",
        csr,
        features=draw.normal(size=(nodes, width)).astype(np.float32),
        labels=labels,
        split=draw.integers(0, 3, nodes).astype(np.int8),
        classes=classes,
        task="multilabel" if multilabel else "multiclass",
        edge_weights=draw.uniform(0.2, 2.0, csr.nnz).astype(np.float32) if weighted else None,
    )
