"""k-hop neighbourhoods of targets, sampled or full, and their union."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backends.kernels.definition import Drawing, Nodes, Reaches
from backends.kernels.dispatch import sampling_implementation
from backends.kernels.samplers import SummedWeights, Weights, sampler_of, values_and_sums
from backends.kernels.sampling import check_lengths, checked_fanouts, checked_nodes, distinct, row_places
from datasets.csr import Csr, index_dtype

Fanouts = Sequence[int | None]
SCOPES = ("node", "target")
MOST_COPIES = 1 << 62


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """All nodes from which a target can be reached in at most k steps, and the sampled in-edges of those closer than k.

    ``nodes`` [n] are node numbers of the whole graph, by (distance, number), so targets come first, ascending;
    ``distance`` [n] counts steps to the nearest target. ``csr`` [n, n] has local node numbers and the whole graph's
    edge ids, edges by (destination, rank). ``positions`` [nnz] are places in the whole graph's edge order, ``None``
    for records that do not store them. ``fanouts`` has one entry per layer, first layer first. With scope ``target``,
    ``component`` [n] is the target that a node's copy belongs to, and nodes are ordered by (distance, component,
    number).
    """

    nodes: Nodes
    distance: NDArray[np.int32]
    csr: Csr
    positions: Nodes | None
    fanouts: tuple[int | None, ...]
    component: NDArray[np.int32] | None = None

    @cached_property
    def rank(self) -> NDArray[np.int32]:
        """Place of each edge in its destination's order of preference, [nnz]: layer l keeps those below its fanout."""
        return row_places(self.csr.indptr)

    @property
    def targets(self) -> Nodes:
        """The targets, ascending; they are the first nodes."""
        return self.nodes[: int(np.searchsorted(self.distance, 1))]


def expansions(fanouts: tuple[int | None, ...]) -> list[int | None]:
    """Number of in-edges that a node at each distance keeps: the largest fanout of the layers that compute it."""
    deepest = [fanouts[: len(fanouts) - depth] for depth in range(len(fanouts))]
    return [None if None in layers else max(f for f in layers if f is not None) for layers in deepest]


def reaches(fanouts: tuple[int | None, ...], needed: bool = False) -> Reaches:
    """Return the ``reaches`` of ``definition.search`` for the fanouts of a model's layers.

    By default the sources of all kept edges join the next layer. With ``needed`` a source joins the next layer only
    where the last model layer that computes the node reads it; sources that only earlier model layers read join later
    layers, so that fewer nodes are expanded by large fanouts.
    """
    sizes, count = expansions(fanouts), len(fanouts)
    if not needed:
        return [[sizes[depth]] * (count - depth) for depth in range(count)]
    read = [[fanouts[count - layer : count - depth] for layer in range(depth + 1, count + 1)] for depth in range(count)]
    return [[None if None in limits else max(f for f in limits if f is not None) for limits in row] for row in read]


def khop(
    csr: Csr,
    targets: NDArray[np.integer],
    fanouts: Fanouts,
    seed: int = 0,
    scope: str = "node",
    sampler: str = "uniform",
    weight: Weights | SummedWeights | None = None,
    replacement: bool = False,
    needed: bool = False,
) -> Neighbourhood:
    """Collect the k-hop in-neighbourhood of ``targets`` together: edges into nodes at distance < k = len(fanouts).

    ``fanouts`` belong to layers, the first layer (the deepest hop) first, ``None`` meaning all neighbours: a node at
    distance j keeps its first max(fanouts[: k - j]) edges; where all are ``None`` edges stand as in the graph, as with
    sampler ``full``. ``targets`` are a set: neither order nor repetition matters. ``scope="node"``: a node has one
    sample for all targets; ``"target"``: one for each target, and the result is the disjoint union of the targets'
    neighbourhoods. ``sampler``, ``weight``, ``replacement`` as in ``sample_neighbors``. ``needed`` expands a node only
    for the layers that read it, which saves work where fanouts are smaller near the targets: ``distance`` is then the
    number of layers above the last one that reads the node, at least its steps, and the targets' rows of ``tight``
    blocks stay the same. Raises ValueError for arguments that are not allowed. (AGL, sections 2.2 and 3.2.)
    """
    fanouts = checked_fanouts(fanouts, sampler, replacement)
    values, sums = values_and_sums(weight)
    check_lengths(csr, sums)
    sampler_of(sampler, values, csr.nnz, replacement)
    sampler = sampler if any(fanouts) else "full"
    roots = distinct(checked_nodes(targets, csr.shape[0], "target"))
    if not len(roots):
        raise ValueError("targets is empty: a neighbourhood needs at least one")
    if scope not in SCOPES:
        raise ValueError(f"scope={scope!r} is unknown: allowed are {', '.join(SCOPES)}")
    if csr.shape[0] != csr.shape[1]:
        raise ValueError(f"the graph has shape {csr.shape}: a neighbourhood needs as many rows as columns")
    apart = scope == "target"
    if apart and len(roots) * csr.shape[1] > MOST_COPIES:
        raise ValueError(f"{len(roots)} targets of {csr.shape[1]} nodes are too many copies: give fewer at a time")
    drawing = Drawing(sampler, seed, values, replacement, sums)
    result = sampling_implementation(drawing).search(csr, drawing, roots, reaches(fanouts, needed), apart)
    nodes, component = result.numbers, None
    if apart:
        component, nodes = (nodes // csr.shape[1]).astype(np.int32), nodes % csr.shape[1]
    dtype = index_dtype(max(len(result.local), len(nodes)))
    indptr, indices = result.edges.starts.astype(dtype, copy=False), result.local.astype(dtype, copy=False)
    local_csr = Csr(indptr, indices, (len(nodes),) * 2, result.edges.ids)
    distance = np.repeat(np.arange(len(result.layers), dtype=np.int32), result.layers)
    return Neighbourhood(nodes, distance, local_csr, result.edges.positions, fanouts, component)


def union(neighbourhoods: Sequence[Neighbourhood]) -> Neighbourhood:
    """Merge neighbourhoods of one graph into that of all their targets together.

    They must have been drawn with the same arguments but the targets. Raises ValueError for different fanouts, and for
    scope ``target``, whose samples of one node differ.
    """
    return union_with_places(neighbourhoods)[0]


def union_with_places(neighbourhoods: Sequence[Neighbourhood]) -> tuple[Neighbourhood, Nodes, Nodes]:
    """Merge like ``union``; also return the places of its nodes and edges in the inputs' concatenated arrays."""
    parts = list(neighbourhoods)
    if not parts:
        raise ValueError("no neighbourhoods were given: a union needs at least one")
    if any(part.component is not None for part in parts):
        raise ValueError("scope='target' gives a node a sample per target: only scope='node' can be merged")
    if len({part.fanouts for part in parts}) > 1:
        raise ValueError(f"fanouts {parts[0].fanouts} differ from others: only equal ones can be merged")
    all_nodes = np.concatenate([part.nodes for part in parts])
    distance = np.concatenate([part.distance for part in parts])
    degrees = np.concatenate([part.csr.in_degrees for part in parts]).astype(np.int64)
    # samples nest, so the copy nearest to a target has every edge that another copy has
    by_node = np.lexsort((-degrees, distance, all_nodes))
    nearest = by_node[np.concatenate(([True], np.diff(all_nodes[by_node]) != 0))]
    places = nearest[np.lexsort((all_nodes[nearest], distance[nearest]))]
    nodes = all_nodes[places]
    starts = (np.cumsum(degrees) - degrees)[places]
    indptr = np.concatenate(([0], np.cumsum(degrees[places])))
    edges = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], degrees[places])
    sources = np.concatenate([part.nodes[part.csr.indices] for part in parts])[edges]
    order = np.argsort(nodes)
    local = order[np.searchsorted(nodes[order], sources)]
    dtype = index_dtype(max(len(edges), len(nodes)))
    ids = np.concatenate([part.csr.ids for part in parts])[edges]
    csr = Csr(indptr.astype(dtype), local.astype(dtype), (len(nodes),) * 2, ids)
    stored = [part.positions for part in parts if part.positions is not None]
    positions = np.concatenate(stored)[edges] if len(stored) == len(parts) else None
    return Neighbourhood(nodes, distance[places], csr, positions, parts[0].fanouts), places, edges
