"""The part of each original edge, by the id by which the user knows it."""

from pathlib import Path
from typing import Any

import numpy as np

from backends.distpart.dispatch.buckets import EdgeBuckets
from backends.distpart.typed_graph import RelationEdges, TypedGraph
from datasets.array_files import create_array, save_pieces

_PIECE = 1 << 20


def write_edge_map(path: Path, graph: TypedGraph, buckets: EdgeBuckets, dtype: np.dtype[Any]) -> None:
    """Write the part of each edge by original id, those of a relation behind all ids of the relations before.

    Where ids have gaps there is a row for each up to the largest; those that no edge has are 0.
    """
    relations = [graph.edges[relation] for relation in graph.schema.relations]
    if all(map(_are_rows, relations)):
        save_pieces(path, dtype, (graph.total_edges,), buckets.owners())
        return
    firsts = np.cumsum([0, *map(_id_count, relations)])
    parts: Any = create_array(path, dtype, (int(firsts[-1]),))
    for piece, owners in zip(buckets.pieces, buckets.owners(), strict=True):
        ids = relations[piece.kind].original_ids(np.arange(piece.start, piece.stop))
        parts[firsts[piece.kind] + ids] = owners
    parts.flush()


def _are_rows(edges: RelationEdges) -> bool:
    """Whether the ids of a relation's edges are their rows."""
    rows = np.empty(0, dtype=np.int64)
    return edges.original_ids(rows) is rows


def _id_count(edges: RelationEdges) -> int:
    """One more than the largest id of a relation's edges, at least their number."""
    if _are_rows(edges):
        return edges.count
    starts = range(0, edges.count, _PIECE)
    ids = (edges.original_ids(np.arange(start, min(start + _PIECE, edges.count))) for start in starts)
    return max([edges.count, *(int(some.max()) + 1 for some in ids)])
