"""Layer matrices of batches with full (unsampled) neighbourhoods; a hop is renumbered only where it reaches few nodes.

k-hop search gives the nodes of a batch new numbers, hop by hop, so that a layer needs a gathered copy of the features
and a transpose of its own. Two cases avoid this. Where the first layer only sums features, they are read in place. A
layer whose nodes are most of the graph runs over the whole graph's matrix, whose transpose is cached between batches,
and computes a few rows that no target depends on.
"""

import numpy as np
import torch
from torch import Tensor

from backends.base.layered import LayerMatrix, float_tensor
from backends.contract import Nodes
from backends.kernels import Neighbourhood, khop, layer_blocks
from backends.kernels.rows import MatrixRows, count_sources, take_rows
from backends.kernels.sampling import checked_nodes, distinct
from datasets.adjacency import Adjacency

MOST = 0.75  # a layer that reads at least this share of the nodes runs over the whole graph


class UnsampledGraph:
    """A graph whose batches use all in-edges; ``sums_features``: the first layer only aggregates the features.

    Only form ``tight`` skips renumbering: the other forms keep unused rows on purpose.
    """

    def __init__(self, adjacency: Adjacency, hops: int, sums_features: bool) -> None:
        self.csr, self.weight = adjacency.csr, float_tensor(adjacency.weight)
        self.hops, self.sums_features = hops, sums_features

    def layers(self, targets: Nodes, form: str) -> tuple[list[LayerMatrix], Nodes | None]:
        """Return each layer's matrix, first layer first, and the nodes that the first one reads, ``None`` for all.

        Rows of the last one are the targets, ascending.
        """
        if form != "tight":
            return self._renumbered(khop(self.csr, targets, [None] * self.hops), form)
        neighbourhood, nodes = None, distinct(checked_nodes(targets, self.csr.shape[0], "target"))
        for depth in range(self.hops):
            lower = self._in_place(nodes, depth)
            if lower is not None:
                upper: list[LayerMatrix] = [] if neighbourhood is None else self._renumbered(neighbourhood, form)[0]
                return lower + upper, None
            neighbourhood = khop(self.csr, targets, [None] * (depth + 1))
            nodes = neighbourhood.nodes
        assert neighbourhood is not None
        return self._renumbered(neighbourhood, form)

    def _renumbered(self, neighbourhood: Neighbourhood, form: str) -> tuple[list[LayerMatrix], Nodes]:
        blocks = layer_blocks(neighbourhood, len(neighbourhood.fanouts), form)
        return [LayerMatrix(block.csr, self._weight_at(block.positions)) for block in blocks], neighbourhood.nodes

    def _weight_at(self, positions: Nodes | None) -> Tensor | None:
        if self.weight is None or positions is None:
            return None
        return self.weight.index_select(0, torch.from_numpy(positions))

    def _in_place(self, nodes: Nodes, depth: int) -> list[LayerMatrix] | None:
        """Matrices of the layers below ``depth`` hops, which compute ``nodes``; ``None`` to renumber this hop too."""
        all_edges = LayerMatrix(self.csr, self.weight)
        if depth == 0 and len(nodes) == self.csr.shape[0]:
            return [all_edges] * self.hops
        reads_features = self.sums_features and depth == self.hops - 1
        if not reads_features and self._edges_into(nodes) < self.csr.shape[1]:
            return None
        rows, weight = take_rows(self.csr, nodes, self.weight)
        if not reads_features and count_sources(rows) < MOST * self.csr.shape[1]:
            return None
        columns = torch.from_numpy(nodes)
        partial = LayerMatrix(rows, weight, columns, MatrixRows(self.csr, self.weight, columns))
        return [all_edges] * (self.hops - depth - 1) + [partial]

    def _edges_into(self, nodes: Nodes) -> int:
        indptr = self.csr.indptr
        return int((indptr[nodes + 1] - indptr[nodes]).sum(dtype=np.int64))
