"""The cut of the smallest graph: METIS for one constraint, our own bisections for several; the best of some counts."""

import numpy as np

from backends.kernels.partition import Parts, UndirectedGraph, Weights
from datasets.randomness import stream

_HEAVIEST = 32  # edges of a node that are read: the smallest graph of one without clusters is nearly complete
_MOST = 1 << 30  # sum of weights that METIS's 32-bit integers are safe with
_MOST_TRIES = 4
_EDGES_OF_METIS, _EDGES_OF_BISECTIONS = 250_000, 500_000  # that all tries may read
_CUTS = 2


def initial_parts(graph: UndirectedGraph, count: int, bounds: Weights, seed: int, threads: int) -> Parts:
    """Assign the nodes of a small graph to ``count`` parts, near ``bounds`` [constraints].

    Of several cuts, more where the graph is small, that counts which is nearest to the bounds and then lowest.
    """
    if count == 1 or graph.nodes == 0:
        return np.zeros(graph.nodes, dtype=np.int32)
    sparse = graph.heaviest(_HEAVIEST, threads) if len(graph.neighbours) > 2 * _HEAVIEST * graph.nodes else graph
    # bisections read the sparse graph, a refinement and the count of the cut read the whole one, on all threads
    edges = len(sparse.neighbours) * max(1, (count - 1).bit_length()) + len(graph.neighbours) // 2
    metis = len(bounds) == 1 and len(graph.neighbours) > 0
    tries = min(max(1, (_EDGES_OF_METIS if metis else _EDGES_OF_BISECTIONS) // max(1, edges)), _MOST_TRIES)
    best, least = None, None
    for attempt in range(tries):
        key = stream(seed, f"initial {attempt}")
        if metis:
            parts = _metis(sparse, count, bounds, key)
        else:
            parts = sparse.bisected(count, bounds, key, _MOST_TRIES, threads)
        loads = graph.refine(parts, count, bounds, threads)
        score = int(np.maximum(loads - bounds, 0).sum()), graph.cut_of(parts, threads)
        if least is None or score < least:
            best, least = parts, score
    assert best is not None
    return best


def _metis(graph: UndirectedGraph, count: int, bounds: Weights, seed: int) -> Parts:
    import pymetis

    total = int(graph.node_weights.sum())
    imbalance = max(1, int(1000 * (float(bounds[0]) * count / max(1, total) - 1)))
    dtype = pymetis.zero_copy_dtype()
    cut = pymetis.part_graph(
        count,
        pymetis.CSRAdjacency(graph.starts.astype(dtype), graph.neighbours.astype(dtype)),
        vweights=_scaled(graph.node_weights[:, 0]).astype(dtype),
        eweights=None if graph.edge_weights is None else _scaled(graph.edge_weights).astype(dtype),
        recursive=True,  # of many parts thrice as fast as all at once, and no worse a cut
        options=pymetis.Options(seed=seed & 0x7FFFFFFF, ufactor=imbalance, ncuts=_CUTS),
    )
    return np.asarray(cut.vertex_part, dtype=np.int32)


def _scaled(weights: Weights) -> Weights:
    """Weights whose sum fits METIS's integers, at least 1."""
    factor = -(-int(weights.sum()) // _MOST)
    return np.maximum(weights // max(1, factor), 1)
