"""k-hop neighbourhoods of target batches and the matrix of each layer on them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr

Nodes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """All nodes from which a target can be reached in at most k steps, and the edges into those expanded.

    ``nodes`` [n] are ids of the whole graph, by (distance, id); ``distance`` [n] counts steps to the nearest target;
    ``csr`` [n, n] holds local numbers and original edge ids; ``positions`` [nnz] are places in the whole graph's
    edge order.
    """

    nodes: Nodes
    distance: NDArray[np.int32]
    csr: Csr
    positions: Nodes


def khop(csr: Csr, targets: Nodes, hops: int) -> Neighbourhood:
    """Collect the full k-hop in-neighbourhood of all targets together: edges into nodes at distance < ``hops``.

    Targets come first, in ascending order (AGL, section 2.2; edge set as in systems.md 1.4).
    """
    targets = np.unique(targets)
    if hops < 1:
        raise ValueError(f"hops={hops} is not allowed: a neighbourhood has at least 1 hop")
    seen = np.zeros(csr.shape[1], dtype=bool)
    seen[targets] = True
    layers = [targets]
    for _ in range(hops):
        reached = np.unique(csr.rows(layers[-1])[0].indices)
        fresh = reached[~seen[reached]].astype(np.int64)
        seen[fresh] = True
        layers.append(fresh)
    nodes = np.concatenate(layers)
    distance = np.repeat(np.arange(hops + 1, dtype=np.int32), [len(layer) for layer in layers])
    local = np.empty(csr.shape[1], dtype=csr.indices.dtype)
    local[nodes] = np.arange(len(nodes), dtype=local.dtype)
    expanded, positions = csr.rows(nodes[distance < hops])
    order = np.lexsort((local[expanded.indices], expanded.destinations))
    indptr = np.concatenate((expanded.indptr, np.full(len(nodes) + 1 - len(expanded.indptr), expanded.indptr[-1])))
    ids = expanded.ids[order]
    inside = Csr(indptr.astype(csr.indptr.dtype), local[expanded.indices][order], (len(nodes), len(nodes)), ids)
    return Neighbourhood(nodes, distance, inside, positions[order])


@dataclass(frozen=True, eq=False)
class Block:
    """One layer's matrix: rows are the nodes it makes, columns the nodes it reads, both prefixes of the neighbourhood.

    ``positions`` [nnz] are places in the whole graph's edge order.
    """

    csr: Csr
    positions: Nodes


def layer_blocks(neighbourhood: Neighbourhood, layers: int, form: str = "tight") -> list[Block]:
    """Return the matrix of each layer, first layer first.

    ``full`` keeps all edges in every layer; ``paper`` drops at layer k (1-based) every node further than
    ``layers - k + 1`` and its edges (AGL, section 3.3.2); ``tight`` also drops edges into nodes that no later layer
    reads: destinations are within ``layers - k``.
    """
    if form not in ("full", "paper", "tight"):
        raise ValueError(f"form={form!r} is unknown: allowed are full, paper, tight")
    return [_block(neighbourhood, layers - layer - 1, form, last=layer == layers - 1) for layer in range(layers)]


def _block(held: Neighbourhood, reach: int, form: str, last: bool) -> Block:
    """The matrix of the layer whose useful outputs lie within ``reach`` steps of a target."""
    csr = held.csr
    within = int(np.searchsorted(held.distance, reach, side="right"))
    read = int(np.searchsorted(held.distance, reach + 1, side="right"))
    if form == "full":
        return Block(csr, held.positions)
    if form == "tight":
        end = int(csr.indptr[within])
        tight = Csr(csr.indptr[: within + 1], csr.indices[:end], (within, read), csr.ids[:end])
        return Block(tight, held.positions[:end])
    end = int(csr.indptr[read])
    kept = csr.indices[:end] < read
    destinations = csr.destinations[:end][kept]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(destinations, minlength=read)))).astype(csr.indptr.dtype)
    return Block(Csr(indptr, csr.indices[:end][kept], (read, read), csr.ids[:end][kept]), held.positions[:end][kept])
