"""The layers of a batch with whole neighbourhoods: nodes are numbered only where few are reached.

A search numbers what it finds, hop by hop, and a layer then needs its own copy of the features and its own transpose.
The deepest hop needs no numbers where the first layer only sums up features, which can be read where they lie. A hop
that reaches most of the graph needs none either: the layers beneath it run over the whole graph, whose transpose is
kept from batch to batch, at the cost of the few rows that no target reads.
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

MOST = 0.75


class WholeGraph:
    """What a model of ``hops`` layers multiplies with; ``sums_features`` says that the first only sums them up.

    Form ``tight`` alone skips numbering: the others keep rows that no layer reads on purpose.
    """

    def __init__(self, adjacency: Adjacency, hops: int, sums_features: bool) -> None:
        self.csr, self.weight = adjacency.csr, float_tensor(adjacency.weight)
        self.hops, self.sums_features = hops, sums_features

    def layers(self, targets: Nodes, form: str) -> tuple[list[LayerMatrix], Nodes | None]:
        """Return each layer's matrix, first layer first, and the nodes that the first one reads, ``None`` for all.

        The last one's rows are the targets, ascending.
        """
        if form != "tight":
            return self._numbered(khop(self.csr, targets, [None] * self.hops), form)
        held, nodes = None, distinct(checked_nodes(targets, self.csr.shape[0], "target"))
        for depth in range(self.hops):
            beneath = self._unnumbered(nodes, depth)
            if beneath is not None:
                above: list[LayerMatrix] = [] if held is None else self._numbered(held, form)[0]
                return beneath + above, None
            held = khop(self.csr, targets, [None] * (depth + 1))
            nodes = held.nodes
        assert held is not None
        return self._numbered(held, form)

    def _numbered(self, held: Neighbourhood, form: str) -> tuple[list[LayerMatrix], Nodes]:
        blocks = layer_blocks(held, len(held.fanouts), form)
        return [LayerMatrix(block.csr, self._weight_at(block.positions)) for block in blocks], held.nodes

    def _weight_at(self, positions: Nodes | None) -> Tensor | None:
        if self.weight is None or positions is None:
            return None
        return self.weight.index_select(0, torch.from_numpy(positions))

    def _unnumbered(self, nodes: Nodes, depth: int) -> list[LayerMatrix] | None:
        """The layers that make ``nodes``, all within ``depth`` hops of the targets; ``None`` to number a hop more."""
        whole = LayerMatrix(self.csr, self.weight)
        if len(nodes) == self.csr.shape[0]:
            return [whole] * (self.hops - depth)
        surely = self.sums_features and depth == self.hops - 1
        if not surely and self._edges_into(nodes) < self.csr.shape[1]:
            return None
        rows, weight = take_rows(self.csr, nodes, self.weight)
        if not surely and count_sources(rows) < MOST * self.csr.shape[1]:
            return None
        own = torch.from_numpy(nodes)
        part = LayerMatrix(rows, weight, own, MatrixRows(self.csr, self.weight, own))
        return [whole] * (self.hops - depth - 1) + [part]

    def _edges_into(self, nodes: Nodes) -> int:
        indptr = self.csr.indptr
        return int((indptr[nodes + 1] - indptr[nodes]).sum(dtype=np.int64))
