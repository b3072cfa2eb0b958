"""The cut of the smallest graph: METIS where there is one constraint, else nodes streamed from the heaviest on."""

import numpy as np

from backends.kernels.partition import Parts, UndirectedGraph, Weights

_CUTS = 32  # parts of all cuts that METIS is to choose from, so that many parts take no longer
_MOST = 1 << 30  # sum of weights that METIS's 32-bit integers are safe with


def initial_parts(graph: UndirectedGraph, count: int, bounds: Weights, seed: int) -> Parts:
    """Assign the nodes of a small graph to ``count`` parts, near ``bounds`` [constraints]."""
    if count == 1 or graph.nodes == 0:
        return np.zeros(graph.nodes, dtype=np.int32)
    if len(bounds) == 1 and len(graph.neighbours):
        return _metis(graph, count, bounds, seed)
    return graph.streamed(count, bounds, 0.0, 3)


def _metis(graph: UndirectedGraph, count: int, bounds: Weights, seed: int) -> Parts:
    import pymetis

    total = int(graph.node_weights.sum())
    imbalance = max(1, int(1000 * (float(bounds[0]) * count / max(1, total) - 1)))
    options = pymetis.Options(seed=seed & 0x7FFFFFFF, ufactor=imbalance, ncuts=max(1, _CUTS // count))
    dtype = pymetis.zero_copy_dtype()
    cut = pymetis.part_graph(
        count,
        pymetis.CSRAdjacency(graph.starts.astype(dtype), graph.neighbours.astype(dtype)),
        vweights=_scaled(graph.node_weights[:, 0]).astype(dtype),
        eweights=None if graph.edge_weights is None else _scaled(graph.edge_weights).astype(dtype),
        options=options,
    )
    return np.asarray(cut.vertex_part, dtype=np.int32)


def _scaled(weights: Weights) -> Weights:
    """Weights whose sum fits METIS's integers, at least 1."""
    factor = -(-int(weights.sum()) // _MOST)
    return np.maximum(weights // max(1, factor), 1)
