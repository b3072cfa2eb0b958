"""The cut of the smallest graph: METIS where there is one constraint, else nodes streamed from the heaviest on."""

import numpy as np

from backends.kernels.partition import Parts, UndirectedGraph, Weights
from datasets.randomness import stream

_HEAVIEST = 32  # edges of a node that METIS sees: the smallest graph of one without clusters is nearly complete
_MOST = 1 << 30  # sum of weights that METIS's 32-bit integers are safe with
_MOST_TRIES, _EDGES_OF_TRIES = 8, 500_000  # edges that bisections of all tries may read
_CUTS, _ROUNDS = 2, 8


def initial_parts(graph: UndirectedGraph, count: int, bounds: Weights, seed: int, threads: int) -> Parts:
    """Assign the nodes of a small graph to ``count`` parts, near ``bounds`` [constraints].

    METIS cuts it several times, more often where it is small; the cut that is lowest after refinement counts.
    """
    if count == 1 or graph.nodes == 0:
        return np.zeros(graph.nodes, dtype=np.int32)
    if len(bounds) > 1 or not len(graph.neighbours):
        return graph.streamed(count, bounds, 0.0, 3)
    sparse = graph.heaviest(_HEAVIEST, threads) if len(graph.neighbours) > 2 * _HEAVIEST * graph.nodes else graph
    edges = len(sparse.neighbours) * max(1, (count - 1).bit_length())
    tries = min(max(1, _EDGES_OF_TRIES // edges), _MOST_TRIES)
    best, least = None, None
    for attempt in range(tries):
        parts = _metis(sparse, count, bounds, stream(seed, f"initial {attempt}"))
        loads = graph.refine(parts, count, bounds, stream(seed, f"initial {attempt}"), _ROUNDS, threads)
        score = int(np.maximum(loads - bounds, 0).sum()), graph.cut_of(parts)
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
