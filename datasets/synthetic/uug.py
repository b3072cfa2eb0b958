"""Generator of UUG: a synthetic stand-in for the industrial user-user graph of AGL (VLDB 2020), never published."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr, index_dtype
from datasets.graph import Graph
from datasets.options import options_from
from datasets.synthetic.chunks import cores, on_all_cores
from datasets.synthetic.content_hash import with_content_hash
from datasets.synthetic.uug_partition import UugOptions, uug_partition

PUBLISHED = {"nodes": 6_230_000_000, "edges": 338_000_000_000, "features": 656, "classes": 2}
NOTES = (
    "synthetic: power-law in-degrees, communities of about 500 nodes, labels that lean with the community",
    "labelled 60 % (train 30, validation 10, test 20); published: 2.2 %, as 1.2e8, 5e6, 1.5e7 nodes",
    "average in-degree 20 unless told; published: 54",
)


EDGES_OF_A_PIECE = 1 << 20  # about 100 bytes for each of them while it is generated
PIECES_AT_ONCE = 16  # of that size; on more cores they are smaller


def load(name: str, options: dict[str, Any]) -> Graph:
    """Generate the whole graph in pieces, as many at once as there are cores, together of bounded size.

    Options are those of ``UugOptions``; raises ValueError for others. The graph does not depend on ``partitions``.
    """
    uug = options_from(UugOptions, name, options)
    features = np.empty((uug.nodes, uug.features), dtype=np.float32)
    pieces = _pieces(uug, features)
    dtype = index_dtype(max(uug.nodes, sum(len(piece.sources) for piece in pieces)))
    indptr = np.zeros(uug.nodes + 1, dtype=dtype)
    np.cumsum(np.concatenate([piece.in_degrees for piece in pieces]), out=indptr[1:])
    sources = np.concatenate([piece.sources for piece in pieces]).astype(dtype, copy=False)
    graph = Graph(
        name=name,
        csr=Csr(indptr, sources, (uug.nodes, uug.nodes)),
        features=features,
        edge_features=None if not uug.edge_features else np.concatenate([piece.edge_features for piece in pieces]),
        labels=np.concatenate([piece.labels for piece in pieces]),
        split=np.concatenate([piece.split for piece in pieces]),
        classes=2,
        task="multiclass",
        synthetic=True,
        published=PUBLISHED,
        notes=NOTES,
    )
    return with_content_hash(graph)


def pieces_of(uug: UugOptions) -> int:
    """Number of pieces of bounded size that the graph is generated in, at least its partitions."""
    least = math.ceil(uug.nodes * max(uug.degree, uug.features / 8) / EDGES_OF_A_PIECE)
    return min(uug.nodes, max(uug.partitions, least))


class _Piece(NamedTuple):
    """What a piece adds to the arrays of the graph, but for its features."""

    in_degrees: NDArray[np.int64]
    sources: NDArray[np.integer]
    labels: NDArray[np.int64]
    split: NDArray[np.int8]
    edge_features: NDArray[np.float32] | None


def _pieces(uug: UugOptions, features: NDArray[np.float32]) -> list[_Piece]:
    """Generate all pieces in the order of their nodes; their features are written into ``features``."""
    smaller = math.ceil(cores() / PIECES_AT_ONCE)
    pieces = replace(uug, partitions=min(uug.nodes, smaller * pieces_of(uug)))

    def piece(index: int) -> _Piece:
        part = uug_partition(pieces, index)
        features[part.first : part.last] = part.features
        in_degrees = np.bincount(part.destinations - part.first, minlength=part.last - part.first)
        sources = part.sources.astype(index_dtype(uug.nodes))
        return _Piece(in_degrees, sources, part.labels, part.split, part.edge_features)

    return on_all_cores(piece, range(pieces.partitions))
