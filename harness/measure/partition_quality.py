"""The quality of a partition, by one function for all engines: cut, volume, replication, balance."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.contract import Nodes, PartitionTask
from datasets.graph import Graph

_CHUNK = 1 << 22  # edges that are looked at together
_FLAGS = 1 << 30  # bytes that say which rows parts need


def broken(graph: Graph, task: PartitionTask, parts: Nodes) -> str:
    """Return a sentence on how an assignment breaks the contract, empty if it keeps it."""
    if parts.shape != (graph.nodes,) or parts.dtype != np.int64:
        return f"the assignment is {parts.dtype} {list(parts.shape)}, int64 [{graph.nodes}] is needed"
    outside = np.flatnonzero((parts < 0) | (parts >= task.parts))
    return f"node {outside[0]} is in part {parts[outside[0]]} of {task.parts}" if len(outside) else ""


def quality_of(graph: Graph, task: PartitionTask, parts: Nodes) -> dict[str, Any]:
    """Count what an assignment costs.

    ``cut``: directed edges, self loops left out, between two parts; ``cut_share`` of all of them. ``volume``: rows that
    parts need of others, each once per part. ``replication``: rows that a part holds, its own and those, over its own,
    mean and worst. ``balance``: largest load over the mean, per constraint, beside ``bound``, which was asked.

    Raises ValueError for an assignment that is none.
    """
    if wrong := broken(graph, task, parts):
        raise ValueError(f"the partition of {graph.name} is wrong: {wrong}")
    edges, cut = _edges_between(graph, parts)
    owned, halo = np.bincount(parts, minlength=task.parts), _rows_of_others(graph, parts, task.parts)
    loads = np.zeros((task.parts, task.weights.shape[1]), dtype=np.int64)
    np.add.at(loads, parts, task.weights)
    mean = task.weights.sum(axis=0) / task.parts
    ratios = np.where(mean > 0, loads.max(axis=0) / np.maximum(mean, 1e-300), 1.0)
    return {
        "parts": task.parts,
        "cut": cut,
        "cut_share": cut / max(1, edges),
        "volume": int(halo.sum()),
        "replication": float((owned.sum() + halo.sum()) / max(1, owned.sum())),
        "worst_replication": float(((owned + halo) / np.maximum(owned, 1)).max()),
        "balance": ratios.tolist(),
        "bound": task.imbalance,
        "empty": int((owned == 0).sum()),
    }


def _edges_between(graph: Graph, parts: Nodes) -> tuple[int, int]:
    """Edges without self loops, and those between parts."""
    edges = cut = 0
    for sources, destinations in _chunks(graph):
        edges += int((sources != destinations).sum())
        cut += int((parts[sources] != parts[destinations]).sum())
    return edges, cut


def _rows_of_others(graph: Graph, parts: Nodes, count: int) -> NDArray[np.int64]:
    """The rows of others that each part needs; keeps a byte for each node and part, of some parts at a time."""
    rows = np.zeros(count, dtype=np.int64)
    together = max(1, _FLAGS // max(1, graph.nodes))
    for first in range(0, count, together):
        last = min(count, first + together)
        needed = np.zeros((last - first, graph.nodes), dtype=bool)
        for sources, destinations in _chunks(graph):
            owners = parts[destinations]
            crossing = np.flatnonzero((owners >= first) & (owners < last) & (parts[sources] != owners))
            needed[owners[crossing] - first, sources[crossing]] = True
        rows[first:last] = needed.sum(axis=1)
    return rows


def _chunks(graph: Graph) -> Iterator[tuple[NDArray[np.integer], NDArray[np.integer]]]:
    """Sources and destinations of all edges, some rows at a time."""
    indptr, indices = graph.csr.indptr, graph.csr.indices
    starts = np.searchsorted(indptr, np.arange(0, max(1, graph.csr.nnz), _CHUNK), side="right") - 1
    for first, last in zip(starts, [*starts[1:], graph.nodes], strict=True):
        destinations = np.repeat(np.arange(first, last), np.diff(indptr[first : last + 1]))
        yield indices[indptr[first] : indptr[last]], destinations
