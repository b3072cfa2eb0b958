"""What each rank holds of a graph: its rows, the columns that it multiplies with, and which rows travel to whom."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.blocksparse.layout import RankLayout
from backends.contract import Floats
from datasets.adjacency import Adjacency
from datasets.csr import Csr
from datasets.features import Features, SparseFeatures
from datasets.graph import Graph

Numbers, Weights = NDArray[np.int64], NDArray[np.floating]
Rows = Numbers | range  # whole blocks are ranges: their numbers would be as many as the graph has nodes, for every rank
Labels = NDArray[np.int64] | NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RankSlice:
    """One rank's part of a graph.

    ``csr`` is [own rows, received rows], its columns in the order in which rows arrive, block after block; ``weight``
    [nnz] holds gcn's weights or sage's 1 / in-degree, of the training's type, and is ``None`` for gat. ``incoming``
    are how many rows come from each block of the column group, ``sent`` the own rows that go to each of its ranks.
    ``nodes`` int64 are the original numbers of the own rows; ``features`` are theirs, where the graph has some. Edge
    ids are there for gat alone, whose dropout hashes them.
    """

    csr: Csr
    weight: Weights | None
    incoming: tuple[int, ...]
    sent: tuple[Rows, ...]
    nodes: Numbers
    features: Features | None


@dataclass(frozen=True)
class Cut:
    """Where a graph is cut for a layout: the row ``bounds`` [blocks + 1]; and what each rank's slice holds.

    ``edges`` and ``bytes`` are counts of each slice, ``received`` the rows of other ranks that come for one product.
    """

    layout: RankLayout
    bounds: Numbers
    edges: tuple[int, ...]
    bytes: tuple[int, ...]
    received: tuple[int, ...]

    def own_rows(self, rank: int) -> slice:
        """The rows of the graph that a rank holds."""
        block, _ = self.layout.place(rank)
        return slice(int(self.bounds[block]), int(self.bounds[block + 1]))

    def by_block(self, nodes: Numbers) -> list[Numbers]:
        """Which of ``nodes`` are among the rows of each block, by their places, ascending."""
        blocks = np.searchsorted(self.bounds, nodes, side="right") - 1  # beyond the empty ones that begin at a row
        ends = np.cumsum(np.bincount(blocks, minlength=self.layout.blocks))
        return np.split(np.argsort(blocks, kind="stable"), ends[:-1])

    def places(self, nodes: Numbers) -> list[Numbers]:
        """Which of ``nodes`` each rank answers for, by their places; nothing for ranks that hold a replica."""
        places = [np.arange(0)] * self.layout.ranks
        for rank, own in zip(self.layout.column_group(0), self.by_block(nodes), strict=True):
            places[rank] = own
        return places

    def gathered(self, nodes: Numbers, answers: Sequence[Floats]) -> Floats:
        """Rows [len(nodes), width] in the order of ``nodes``, of which each rank answers for its own in that order.

        Of ranks with the same rows the one in column 0 counts.
        """
        out = np.empty((len(nodes), answers[0].shape[1]), dtype=answers[0].dtype)
        for rank, own in zip(self.layout.column_group(0), self.by_block(nodes), strict=True):
            out[own] = answers[rank]
        return out

    @property
    def imbalance(self) -> float:
        """The most edges of a slice over their mean."""
        return max(self.edges) / max(1.0, float(np.mean(self.edges)))


@dataclass(frozen=True)
class OwnTargets:
    """Targets among a rank's rows, their labels, and their share of all labels in the mean loss."""

    rows: Numbers
    labels: Labels
    share: float


def targets_of_ranks(graph: Graph, nodes: Numbers, cut: Cut) -> list[OwnTargets]:
    """Each rank's targets, in the order of ``nodes``; raises ValueError for a graph without labels."""
    if graph.labels is None:
        raise ValueError(f"data set {graph.name} has no labels: scenario train needs them")
    labels = np.asarray(graph.labels)[nodes]
    labels = labels.astype(np.int64 if labels.ndim == 1 else np.float32)
    known = (labels >= 0).reshape(len(nodes), -1).sum(1)
    targets, by_block = [], cut.by_block(nodes)
    for rank in range(cut.layout.ranks):
        block, _ = cut.layout.place(rank)
        own = by_block[block]
        share = float(known[own].sum() / known.sum()) if known.any() else np.nan  # NaN, as in one process
        targets.append(OwnTargets(nodes[own] - cut.own_rows(rank).start, labels[own], share))
    return targets


Cutting = tuple[Cut, list[RankSlice]]


def cut(
    graph: Graph,
    adjacency: Adjacency,
    layout: RankLayout,
    bounds: Numbers,
    exchange: str,
    mean: str | None,
    only: int | None = None,
) -> Cutting:
    """Cut a graph into the slices of all ranks, or of ``only`` one, in its memory; the counts are those of all.

    With ``broadcast`` whole blocks travel, with ``halo`` needed rows. ``mean`` is the type of the weights 1 / in-degree
    that edges get, as a slice may hold a part of a row's edges; ``None`` leaves those of the adjacency.
    """
    weight: Weights | None = adjacency.weight
    if mean is not None:
        weight = (1.0 / np.maximum(adjacency.csr.in_degrees, 1)).astype(mean)[adjacency.csr.destinations]
    nodes = np.arange(graph.nodes) if graph.node_ids is None else np.asarray(graph.node_ids, dtype=np.int64)
    own_parts, incoming, edges, sizes, received = [], [], [], [], []
    for rank in range(layout.ranks):
        block, _ = layout.place(rank)
        csr, own_weight, arriving = _part(adjacency.csr, weight, layout, bounds, rank, exchange)
        rows = slice(int(bounds[block]), int(bounds[block + 1]))
        features = _rows_of(graph.features, rows)
        incoming.append(arriving)
        edges.append(csr.nnz)
        sizes.append(_bytes_of(csr, own_weight, features))
        received.append(sum(map(len, arriving)) - len(arriving[block]))
        if only in (None, rank):
            own_parts.append((rank, csr, own_weight, nodes[rows], features))
    slices = []
    for rank, csr, own_weight, own_nodes, features in own_parts:
        block, column = layout.place(rank)
        sent = tuple(_shifted(incoming[other][block], int(bounds[block])) for other in layout.column_group(column))
        slices.append(RankSlice(csr, own_weight, tuple(map(len, incoming[rank])), sent, own_nodes, features))
    return Cut(layout, bounds, tuple(edges), tuple(sizes), tuple(received)), slices


def _shifted(rows: Rows, first: int) -> Rows:
    """The numbers of ``rows`` in a block that begins at ``first``."""
    return range(rows.start - first, rows.stop - first) if isinstance(rows, range) else rows - first


def _bytes_of(csr: Csr, weight: Weights | None, features: Features | None) -> int:
    """Bytes of a rank's matrix and features."""
    of_features = features.arrays if isinstance(features, SparseFeatures) else (features,)
    arrays = csr.indptr, csr.indices, csr.edge_ids, weight, *of_features
    return sum(array.nbytes for array in arrays if array is not None)


def _part(
    csr: Csr, weight: Weights | None, layout: RankLayout, bounds: Numbers, rank: int, exchange: str
) -> tuple[Csr, Weights | None, list[Rows]]:
    """A rank's matrix, its weights, and the rows that come from each block."""
    block, column = layout.place(rank)
    stages = layout.stages(column)
    first, last = int(bounds[stages.start]), int(bounds[stages.stop])
    begin, end = int(csr.indptr[bounds[block]]), int(csr.indptr[bounds[block + 1]])
    columns = csr.indices[begin:end]
    inside = (columns >= first) & (columns < last)
    positions, columns = begin + np.flatnonzero(inside), columns[inside].astype(np.int64)
    counts = np.concatenate(([0], np.cumsum(inside)))[csr.indptr[bounds[block] : bounds[block + 1] + 1] - begin]
    incoming: list[Rows]
    if exchange == "halo":
        received, columns = np.unique(columns, return_inverse=True)
        incoming = [received[slice(*np.searchsorted(received, bounds[k : k + 2]))] for k in range(layout.blocks)]
    else:
        columns = columns - first
        incoming = [range(*np.clip(bounds[k : k + 2], first, last).tolist()) for k in range(layout.blocks)]
    shape = len(counts) - 1, sum(map(len, incoming))
    ids = None if weight is not None else positions if csr.edge_ids is None else csr.edge_ids[positions]
    part = Csr(counts.astype(csr.indptr.dtype), columns.astype(csr.indices.dtype), shape, ids)
    return part, None if weight is None else weight[positions], incoming


def _rows_of(features: Features | None, rows: slice) -> Features | None:
    if features is None:
        return None
    if not isinstance(features, SparseFeatures):
        return np.ascontiguousarray(features[rows])
    indptr, indices, values = features.arrays
    first, last = int(indptr[rows.start]), int(indptr[rows.stop])
    starts = indptr[rows.start : rows.stop + 1] - indptr[rows.start]
    csr = Csr(starts, np.array(indices[first:last]), (rows.stop - rows.start, features.shape[1]))
    return SparseFeatures(csr, np.array(values[first:last]))
