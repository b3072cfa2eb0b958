"""Sampling of the in-edges of some nodes by one fanout: one hop of a neighbourhood."""

from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.definition import Drawing, Nodes
from backends.kernels.dispatch import sampling_implementation
from backends.kernels.samplers import SummedWeights, Weights, sampler_of, values_and_sums
from datasets.csr import Csr, index_dtype
from datasets.randomness import keyed


@dataclass(frozen=True, eq=False)
class SampledEdges:
    """The sampled in-edges of some nodes: row i of ``csr`` is the i-th of these nodes, columns are the whole graph's.

    Edges of a row are ordered by rank; ``positions`` [nnz] are places in the whole graph's edge order, ``csr.edge_ids``
    the whole graph's ids.
    """

    csr: Csr
    positions: Nodes

    @property
    def rank(self) -> NDArray[np.int32]:
        """Place of each edge in its node's order of preference, [nnz]: a fanout F keeps those below F."""
        return row_places(self.csr.indptr)


def row_places(indptr: NDArray[np.integer]) -> NDArray[np.int32]:
    """Place of each edge within its row, [nnz]."""
    return (np.arange(indptr[-1]) - np.repeat(indptr[:-1], np.diff(indptr))).astype(np.int32)


def sample_neighbors(
    csr: Csr,
    nodes: NDArray[np.integer],
    fanout: int | None,
    seed: int = 0,
    sampler: str = "uniform",
    weight: Weights | SummedWeights | None = None,
    replacement: bool = False,
    targets: NDArray[np.integer] | None = None,
    node_ids: NDArray[np.integer] | None = None,
) -> SampledEdges:
    """Keep at most ``fanout`` in-edges (``None``: all) of each of ``nodes``, which may repeat.

    ``uniform`` shuffles the places of a node's in-edges by hashes of (seed, node, swap) and keeps the first: it costs
    the fanout, whatever the degree. So do successive draws by weight (``weighted``) where the weights are ``summed``.
    ``topk`` reads the node's in-edges; ``full`` keeps all as they stand. With replacement, draw d of a node is a place
    among its in-edges, from a hash of (seed, node, d). ``targets`` [nodes] adds a target to each row's hashes (scope
    ``target``). Where ``csr`` is a part of the whole graph, its rows must be whole and in the whole graph's order, and
    ``node_ids`` [nodes] are the nodes' numbers there. ``weight`` [nnz] is read by ``weighted`` and ``topk``. Raises
    ValueError for arguments that are not allowed.
    """
    values, sums = values_and_sums(weight)
    check_lengths(csr, sums)
    sampler_of(sampler, values, csr.nnz, replacement)
    nodes = checked_nodes(nodes, csr.shape[0], "node")
    (fanout,) = checked_fanouts([fanout], sampler, replacement)
    for name, array in (("targets", targets), ("node_ids", node_ids)):
        if array is not None and len(array) != len(nodes):
            raise ValueError(f"{name} has {len(array)} entries: one is needed for each of {len(nodes)} nodes")
    drawing = Drawing(sampler, seed, values, replacement, sums)
    keys = np.full(len(nodes), drawing.key, dtype=np.uint64) if targets is None else keyed(drawing.key, targets)
    numbers = nodes if node_ids is None else np.ascontiguousarray(node_ids, dtype=np.int64)
    edges = sampling_implementation(drawing).sample(csr, drawing, nodes, keys, numbers, fanout)
    indptr = edges.starts.astype(index_dtype(len(edges.positions)))
    sources = np.asarray(csr.indices[edges.positions])
    return SampledEdges(Csr(indptr, sources, (len(nodes), csr.shape[1]), edges.ids), edges.positions)


def first_neighbors(csr: Csr, nodes: NDArray[np.integer], fanout: int | None) -> SampledEdges:
    """Take the first ``fanout`` in-edges (``None``: all) of ``nodes``: their sample, where rows stand by rank."""
    starts = csr.indptr[nodes].astype(np.int64)
    counts = csr.indptr[nodes + 1] - starts
    indptr = np.concatenate(([0], np.cumsum(counts if fanout is None else np.minimum(counts, fanout))))
    positions = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], np.diff(indptr))
    ids = positions if csr.edge_ids is None else csr.edge_ids[positions]
    indptr = indptr.astype(index_dtype(len(positions)))
    return SampledEdges(Csr(indptr, csr.indices[positions], (len(nodes), csr.shape[1]), ids), positions)


def check_lengths(csr: Csr, sums: NDArray[np.float64] | None) -> None:
    """Raise ValueError for row starts, or sums of weights, beyond which a kernel would read."""
    rows, edges = csr.shape[0], csr.nnz
    if csr.indptr.shape != (rows + 1,) or int(csr.indptr[0]) != 0 or int(csr.indptr[-1]) != edges:
        raise ValueError(f"indptr has shape {list(csr.indptr.shape)}: {rows} rows need {rows + 1} starts, 0 to {edges}")
    for name, array in (("indptr", csr.indptr), ("indices", csr.indices)):
        if array.dtype.kind not in "iu":
            raise ValueError(f"{name} is of {array.dtype}: whole numbers are needed")
    if sums is not None and sums.shape != (edges,):
        raise ValueError(f"sums of weights have shape {list(sums.shape)}: one is needed for each of {edges} edges")


def checked_nodes(nodes: NDArray[np.integer], count: int, name: str) -> Nodes:
    """Return node numbers as int64; refuses other types and numbers outside the graph."""
    numbers = np.asarray(nodes)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ValueError(f"{name}s are {numbers.dtype} of shape {numbers.shape}: one dimension of integers is needed")
    bad = np.flatnonzero((numbers < 0) | (numbers >= count))
    if len(bad):
        raise ValueError(f"{name} {numbers[bad[0]]} is not in the graph: allowed are 0 to {count - 1}")
    return numbers.astype(np.int64)


def distinct(values: Nodes) -> Nodes:
    """Return each value once, ascending; faster than ``np.unique``, which hashes and holds Python's global lock."""
    ascending = np.sort(values)
    first = np.ones(len(ascending), dtype=bool)
    first[1:] = ascending[1:] != ascending[:-1]
    return ascending[first]


def checked_fanouts(fanouts: Any, sampler: str, replacement: bool) -> tuple[int | None, ...]:
    """Return fanouts as a tuple; refuses those below 1, none at all, and those that the sampler cannot use."""
    try:
        limits = tuple(None if fanout is None else index(fanout) for fanout in fanouts)
    except TypeError:
        raise ValueError(f"fanouts={fanouts!r}: a sequence is needed, a whole number or None for each layer") from None
    if not limits:
        raise ValueError("fanouts is empty: a neighbourhood has at least 1 hop, so at least one fanout")
    for fanout in limits:
        if fanout is not None and fanout < 1:
            raise ValueError(f"fanout={fanout} is not allowed: at least 1, or None for all neighbours")
        if fanout is None and replacement:
            raise ValueError("fanout=None with replacement=True is not allowed: say how many times to draw")
        if fanout is not None and sampler == "full":
            raise ValueError(f"fanout={fanout} with sampler='full' is not allowed: it takes all, give None")
    return limits
