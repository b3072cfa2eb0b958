"""New ids of nodes: contiguous for every part, and for every type inside of a part."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.distpart.typed_graph import GraphError, Ids, TypedGraph
from datasets.csr import index_dtype

Parts = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Numbering:
    """Parts and new ids of all nodes.

    ``parts`` int32 and ``new_ids`` are in the order of homogeneous original ids, ``originals`` in that of new ones.
    ``bounds`` int64 [parts, types + 1]: first new id of each type of a part, and the end of the last one.
    """

    count: int
    parts: Parts
    new_ids: NDArray[np.integer]
    originals: NDArray[np.integer]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, graph: TypedGraph, parts: Parts, count: int) -> "Numbering":
        """Number nodes by part, type and original id; raises GraphError for a wrong assignment."""
        bounds = _bounds(graph, parts, count)
        # types are contiguous in the original ids, so that a stable sort by part keeps them in order
        dtype = index_dtype(max(1, len(parts)))
        originals = np.argsort(parts.astype(part_dtype(count)), kind="stable").astype(dtype)
        return cls(count, parts, _inverse(originals), originals, bounds)

    @classmethod
    def with_ids(cls, graph: TypedGraph, parts: Parts, count: int, new_ids: NDArray[np.integer]) -> "Numbering":
        """Take over new ids; raises GraphError unless they are contiguous by part and type."""
        bounds = _bounds(graph, parts, count)
        if not np.array_equal(np.sort(new_ids), np.arange(graph.total_nodes)):
            raise GraphError(f"new ids of nodes are not 0 to {graph.total_nodes - 1}, each once")
        numbering = cls(count, parts, new_ids, _inverse(new_ids), bounds)
        sizes = [graph.nodes[kind] for kind in graph.schema.node_types]
        kinds = np.repeat(np.arange(len(sizes)), sizes)
        wrong = np.flatnonzero((numbering.part_of(new_ids) != parts) | (numbering.types_of(new_ids) != kinds))
        if len(wrong):
            raise GraphError(
                f"node {wrong[0]} has new id {new_ids[wrong[0]]}: ids of a part and type are not contiguous"
            )
        return numbering

    @property
    def part_dtype(self) -> type[np.integer]:
        """The type of the parts in files, and of those that are sorted by."""
        return part_dtype(self.count)

    def owned(self, part: int) -> tuple[int, int]:
        """First and last new id of a part's nodes."""
        return int(self.bounds[part, 0]), int(self.bounds[part, -1])

    def types_of(self, new_ids: NDArray[np.integer]) -> NDArray[np.int16]:
        """The type of the node of each new id."""
        kinds = self.bounds.shape[1] - 1
        ranges = np.searchsorted(self.bounds[:, 1:].ravel(), new_ids, side="right")
        return (ranges % kinds).astype(np.int16)

    def part_of(self, new_ids: NDArray[np.integer]) -> NDArray[np.int64]:
        """The part of the node of each new id."""
        return np.searchsorted(self.bounds[:, -1], new_ids, side="right")

    def originals_of_type(self, graph: TypedGraph, part: int, kind: int) -> Ids:
        """Ids within their type of a part's nodes of that type, ascending."""
        start, end = self.bounds[part, kind : kind + 2]
        return self.originals[start:end].astype(np.int64) - graph.starts[graph.schema.node_types[kind]]


def part_dtype(count: int) -> type[np.integer]:
    """The smallest type for ``count`` parts whose stable sort takes time linear in the length, else int32."""
    return np.uint16 if count <= 1 << 16 else np.int32


def _bounds(graph: TypedGraph, parts: Parts, count: int) -> NDArray[np.int64]:
    """First new id of each type of each part, and the end of the last; raises GraphError for a wrong assignment."""
    if parts.shape != (graph.total_nodes,):
        raise GraphError(f"the assignment has {len(parts)} nodes, the graph {graph.total_nodes}")
    wrong = np.flatnonzero((parts < 0) | (parts >= count))
    if len(wrong):
        raise GraphError(f"node {wrong[0]} is in part {parts[wrong[0]]}: allowed are 0 to {count - 1}")
    kinds = graph.schema.node_types
    sizes = np.empty((count, len(kinds)), dtype=np.int64)
    for number, kind in enumerate(kinds):
        start = graph.starts[kind]
        sizes[:, number] = np.bincount(parts[start : start + graph.nodes[kind]], minlength=count)
    return contiguous_bounds(sizes)


def contiguous_bounds(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """First ids and the last end [parts, types + 1] of ranges of ``sizes`` [parts, types], one after the other."""
    ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)
    bounds = np.zeros((sizes.shape[0], sizes.shape[1] + 1), dtype=np.int64)
    bounds[:, 1:], bounds[1:, 0] = ends, ends[:-1, -1]
    return bounds


def _inverse(permutation: NDArray[np.integer]) -> NDArray[np.integer]:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation), dtype=permutation.dtype)
    return inverse
