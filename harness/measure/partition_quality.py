"""The quality of a partition, by one function for all engines: cut, volume, replication, balance."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.contract import Nodes, PartitionTask
from datasets.graph import Graph

_CHUNK = 1 << 24  # edges that are looked at together


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
    edges, cut, needed = _edges_between(graph, parts, task.parts)
    owned = np.bincount(parts, minlength=task.parts)
    halo = np.bincount(needed, minlength=task.parts)
    loads = np.zeros((task.parts, task.weights.shape[1]), dtype=np.int64)
    np.add.at(loads, parts, task.weights)
    mean = task.weights.sum(axis=0) / task.parts
    ratios = np.where(mean > 0, loads.max(axis=0) / np.maximum(mean, 1e-300), 1.0)
    return {
        "parts": task.parts,
        "cut": cut,
        "cut_share": cut / max(1, edges),
        "volume": len(needed),
        "replication": float((owned.sum() + halo.sum()) / max(1, owned.sum())),
        "worst_replication": float(((owned + halo) / np.maximum(owned, 1)).max()),
        "balance": ratios.tolist(),
        "bound": task.imbalance,
        "empty": int((owned == 0).sum()),
    }


def _edges_between(graph: Graph, parts: Nodes, count: int) -> tuple[int, int, NDArray[np.int64]]:
    """Edges without self loops, those between parts, and for each row that a part needs of others that part."""
    indptr, indices = graph.csr.indptr, graph.csr.indices
    edges = cut = 0
    keys = np.empty(0, dtype=np.int64)
    starts = np.searchsorted(indptr, np.arange(0, max(1, graph.csr.nnz), _CHUNK), side="right") - 1
    for first, last in zip(starts, [*starts[1:], graph.nodes], strict=True):
        destinations = np.repeat(np.arange(first, last), np.diff(indptr[first : last + 1]))
        sources = indices[indptr[first] : indptr[last]].astype(np.int64)
        edges += int((sources != destinations).sum())
        crossing = parts[sources] != parts[destinations]
        cut += int(crossing.sum())
        chunk = np.unique(sources[crossing] * count + parts[destinations[crossing]])
        keys = np.union1d(keys, chunk)
    return edges, cut, keys % count
