"""Reduce: one part with its HALO nodes, edges and attributes, written as DGL reads it."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.dispatch.buckets import EdgeBuckets, Share
from backends.distpart.dispatch.halo import PartHalo
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.typed_graph import Attributes, Ids, TypedGraph
from datasets.csr import index_dtype
from datasets.features import SparseFeatures
from datasets.files import atomic_folder
from datasets.partition.dgl_format import TensorRows, write_graph, write_tensors

GRAPH, NODE_FEATURES, EDGE_FEATURES = "graph.dgl", "node_feat.dgl", "edge_feat.dgl"
ORIGINAL_NODES, ORIGINAL_EDGES = "orig_nids.dgl", "orig_eids.dgl"
_INT64 = np.dtype(np.int64)
_NODES = 1 << 16  # of a part, of which one column is computed at a time


@dataclass(frozen=True)
class PartOptions:
    """What is written beside the in-edges of owned nodes: further hops of HALO nodes, original ids in the graph.

    ``rows``: how many rows of an array are in memory at a time.
    """

    hops: int = 1
    original_ids: bool = False
    rows: int = 1 << 20


@dataclass(frozen=True, eq=False)
class PartWriter:
    """Writes the parts of a graph."""

    graph: TypedGraph
    numbering: Numbering
    buckets: EdgeBuckets
    options: PartOptions

    def write(self, part: int, folder: Path) -> None:
        """Write all files of a part; nothing is done where that was done before."""
        if folder.is_dir():
            return
        kinds, relations = self.graph.schema.node_types, self.graph.schema.relations
        halo = PartHalo.of(part, self.numbering, self.buckets, self.options.hops)
        with atomic_folder(folder) as temporary:
            self._write_graph(part, temporary / GRAPH, halo)
            write_tensors(temporary / NODE_FEATURES, self._node_features(part))
            write_tensors(temporary / EDGE_FEATURES, self._edge_features(part))
            nodes = {kind: TensorRows.of(self._own_nodes(part, number)) for number, kind in enumerate(kinds)}
            write_tensors(temporary / ORIGINAL_NODES, nodes)
            edges = {str(relation): self._own_edges(part, number) for number, relation in enumerate(relations)}
            write_tensors(temporary / ORIGINAL_EDGES, edges)

    def _write_graph(self, part: int, path: Path, halo: PartHalo) -> None:
        first, last = self.numbering.owned(part)
        owned, nodes = last - first, last - first + len(halo.nodes)
        local = np.full(self.graph.total_nodes, -1, dtype=index_dtype(nodes))
        local[first:last] = np.arange(owned, dtype=local.dtype)
        local[halo.nodes] = np.arange(owned, nodes, dtype=local.dtype)
        inner = int(self.buckets.bounds[part, -1] - self.buckets.bounds[part, 0])
        edges = inner + halo.far_count

        def of_edges(value: Callable[[Share], NDArray[Any]], dtype: Any = _INT64) -> TensorRows:
            shares = _Shares(lambda: itertools.chain(self.buckets.shares(part), halo.far_edges()), value)
            return TensorRows(np.dtype(dtype), (edges,), shares)

        def of_nodes(value: Callable[[Ids], NDArray[Any]], dtype: Any = _INT64) -> TensorRows:
            return TensorRows(np.dtype(dtype), (nodes,), map(value, _node_pieces(first, last, halo.nodes)))

        ndata = {
            "_ID": of_nodes(lambda ids: ids),
            "inner_node": of_nodes(lambda ids: ((ids >= first) & (ids < last)).view(np.uint8), np.uint8),
            "part_id": of_nodes(self.numbering.part_of),
        }
        edata = {
            "_ID": of_edges(lambda share: share.ids),
            "inner_edge": of_edges(lambda share: np.full(len(share.rows), share.places is None), np.uint8),
        }
        if self.graph.is_typed:
            ndata["_TYPE"] = of_nodes(self.numbering.types_of, np.int16)
            edata["_TYPE"] = of_edges(lambda share: np.full(len(share.rows), share.kind, np.int32), np.int32)
        if self.options.original_ids:
            ndata["orig_id"] = of_nodes(self._ids_within_types)
            edata["orig_id"] = of_edges(self._original_edges)
        sources, destinations = of_edges(lambda s: local[s.sources]), of_edges(lambda s: local[s.destinations])
        write_graph(path, nodes, sources, destinations, ndata, edata)

    def _original_edges(self, share: Share) -> NDArray[np.int64]:
        edges = self.graph.edges[self.graph.schema.relations[share.kind]]
        return edges.original_ids(np.asarray(share.rows, np.int64))

    def _ids_within_types(self, new_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        originals = self.numbering.originals[new_ids].astype(np.int64)
        starts = np.array([self.graph.starts[kind] for kind in self.graph.schema.node_types])
        return originals - starts[self.numbering.types_of(new_ids)]

    def _own_nodes(self, part: int, kind: int) -> NDArray[np.int64]:
        return self.numbering.originals_of_type(self.graph, part, kind)

    def _own_edges(self, part: int, kind: int) -> TensorRows:
        start, end = self.buckets.bounds[part, kind : kind + 2]
        shares = _Shares(lambda: self.buckets.shares(part, kind), self._original_edges)
        return TensorRows(_INT64, (int(end - start),), shares)

    def _node_features(self, part: int) -> dict[str, TensorRows]:
        columns = {}
        for kind, name in enumerate(self.graph.schema.node_types):
            rows = self._own_nodes(part, kind)
            columns |= self._rows_of(self.graph.node_data.get(name, {}), name, len(rows), [rows])
        return columns

    def _edge_features(self, part: int) -> dict[str, TensorRows]:
        columns: dict[str, TensorRows] = {}
        for kind, relation in enumerate(self.graph.schema.relations):
            start, end = self.buckets.bounds[part, kind : kind + 2]
            rows = _Shares(partial(self.buckets.shares, part, kind), lambda share: np.asarray(share.rows, np.int64))
            columns |= self._rows_of(self.graph.edge_data.get(relation, {}), str(relation), int(end - start), rows)
        return columns

    def _rows_of(
        self, attributes: Attributes, kind: str, count: int, rows: Iterable[NDArray[np.int64]]
    ) -> dict[str, TensorRows]:
        """Rows of all attributes of a type, ``count`` in all, a piece at a time."""
        return {
            f"{kind}/{name}": TensorRows(
                np.dtype(array.dtype), (count, *array.shape[1:]), _pieces(array, rows, self.options.rows)
            )
            for name, array in attributes.items()
        }


@dataclass(frozen=True)
class _Shares:
    """One array for each share, computed when it is asked for."""

    shares: Callable[[], Iterable[Share]]
    value: Callable[[Share], NDArray[Any]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self.value(share) for share in self.shares())


def _node_pieces(first: int, last: int, halo: Ids) -> Iterator[Ids]:
    """New ids of a part's nodes, owned ones first, some at a time."""
    for start in range(first, last, _NODES):
        yield np.arange(start, min(start + _NODES, last))
    for start in range(0, len(halo), _NODES):
        yield halo[start : start + _NODES]


def _pieces(array: Any, rows: Iterable[NDArray[np.int64]], length: int) -> Iterator[NDArray[Any]]:
    for some in rows:
        for start in range(0, len(some), length):
            piece = array[some[start : start + length]]
            yield piece.dense() if isinstance(piece, SparseFeatures) else np.asarray(piece)
