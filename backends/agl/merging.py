"""GraphFeatures of a batch made into one neighbourhood: merged where they overlap, or side by side."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.agl.records import Records
from backends.kernels import Neighbourhood
from datasets.csr import Csr, index_dtype

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Merged:
    """A batch's neighbourhood; ``nodes`` [n] are places of its nodes in the records' nodes, ``roots`` its targets.

    ``held.positions`` are places of its edges in the records' edges; ``roots`` [records] are rows of ``held``.
    """

    held: Neighbourhood
    nodes: Ints
    roots: Ints


def merge(records: Records, fanouts: tuple[int | None, ...], apart: bool = False) -> Merged:
    """Join records drawn with ``fanouts``; ``apart`` keeps a copy of a node for every record that holds it.

    Where a node has one sample for all targets, the record that holds it nearest to its target has the most of its
    edges, and the others a prefix of them. Samples drawn per target differ: those must stay apart.
    """
    count = len(records.ids)
    keys, copy_of = (np.arange(count), np.arange(count)) if apart else np.unique(records.ids, return_inverse=True)
    nearest = np.lexsort((records.distance, copy_of))
    first = nearest[np.searchsorted(copy_of[nearest], np.arange(len(keys)))]
    order = np.lexsort((records.ids[first], records.distance[first]))
    nodes, local = first[order], np.empty(len(keys), dtype=np.int64)
    local[order] = np.arange(len(keys))
    csr, edges = _edges(records, nodes, local[copy_of])
    distance = records.distance[nodes].astype(np.int32)
    held = Neighbourhood(records.ids[nodes], distance, csr, edges, fanouts)
    return Merged(held, nodes, local[copy_of[records.node_bounds[:-1]]])


def _edges(records: Records, nodes: Ints, local: Ints) -> tuple[Csr, Ints]:
    """The edges into ``nodes`` [n] (places in the records) between rows ``local`` [places]; and their places."""
    counts = records.in_edges[nodes]
    indptr = np.concatenate(([0], np.cumsum(counts)))
    starts = (np.cumsum(records.in_edges) - records.in_edges)[nodes]
    edges = np.repeat(starts - indptr[:-1], counts) + np.arange(indptr[-1])
    owner = np.searchsorted(records.node_bounds, nodes, side="right") - 1
    sources = local[np.repeat(records.node_bounds[owner], counts) + records.sources[edges]]
    dtype = index_dtype(max(len(edges), len(nodes)))
    return Csr(indptr.astype(dtype), sources.astype(dtype), (len(nodes),) * 2, records.edge_ids[edges]), edges
