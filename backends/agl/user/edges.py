"""The in-edges that a layer of a user's model receives messages along, and the sums over them that run in parallel."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from backends.agl.vectorize import EdgeValues, LayerBuilder, with_loops
from backends.base.layered import LayerMatrix
from backends.kernels import edge_softmax, gat, spmm
from backends.kernels.loops import with_self_loops
from datasets.csr import Csr


@dataclass
class Edges(LayerMatrix):
    """In-edges of the nodes that a layer computes, ``rows``; they start at the ``columns`` that sent messages.

    ``weight`` [edges] and ``features`` [edges, width] are those of the data, ``None`` where it has none. ``degrees``
    [rows] and ``source_degrees`` [columns] are in-degrees of the whole graph before filter and sampling, sums of
    weights where edges have some. Edges stand by row; sums over them have no write conflicts (AGL, section 3.3.2), and
    all methods are differentiable.
    """

    degrees: Tensor | None = None
    source_degrees: Tensor | None = None

    @cached_property
    def sources(self) -> Tensor:
        """The column that each edge starts at, int64 [edges]."""
        return torch.from_numpy(np.asarray(self.csr.indices, dtype=np.int64))

    @cached_property
    def destinations(self) -> Tensor:
        """The row that each edge ends at, int64 [edges]."""
        return torch.from_numpy(np.asarray(self.csr.destinations, dtype=np.int64))

    def sum(self, messages: Tensor, weight: Tensor | None = None) -> Tensor:
        """Sum the messages [columns, ...] of each row's in-neighbours, times ``weight`` [edges] if given."""
        return self._aggregated(self.csr, messages, weight, "sum")

    def mean(self, messages: Tensor) -> Tensor:
        """Mean of the messages [columns, ...] of each row's in-neighbours, 0 for a row without any."""
        return self._aggregated(self.csr, messages, None, "mean")

    def max(self, messages: Tensor) -> Tensor:
        """Largest entries of the messages [columns, ...] of each row's in-neighbours, 0 for a row without any."""
        return self._aggregated(self.csr, messages, None, "max")

    def reduce(self, values: Tensor, reduce: str = "sum") -> Tensor:
        """Sum, mean or max of values per edge [edges, ...] over each row's in-edges: [rows, ...]."""
        return self._aggregated(self._by_edge, values, None, reduce)

    def softmax(self, logits: Tensor) -> Tensor:
        """Softmax of logits [edges] or [edges, heads] over each row's in-edges."""
        if logits.dim() == 1:
            return edge_softmax(self.csr, logits[:, None])[:, 0]
        return edge_softmax(self.csr, logits)

    def attention(
        self,
        z: Tensor,
        source_scores: Tensor,
        own_scores: Tensor,
        edge_scores: Tensor | None = None,
        slope: float = 0.2,
        dropout: float = 0.0,
    ) -> Tensor:
        """GAT's attention, fused: softmax of LeakyReLU of the scores' sum, times ``z``: [rows, heads, width].

        ``z`` is [columns, heads, width], scores are [columns, heads], [rows, heads] and [edges, heads].
        """
        out: Tensor = gat(self.csr, z, source_scores, own_scores, edge_scores, slope=slope, dropout=dropout)
        return out

    @cached_property
    def _by_edge(self) -> Csr:
        """The matrix whose columns are the edges themselves."""
        edges = self.csr.nnz
        return Csr(self.csr.indptr, np.arange(edges, dtype=self.csr.indices.dtype), (self.csr.shape[0], edges))

    @staticmethod
    def _aggregated(csr: Csr, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
        out = spmm(csr, x.reshape(len(x), math.prod(x.shape[1:])), weight, reduce)
        return out.reshape(len(out), *x.shape[1:])


class EdgesBuilder(LayerBuilder):
    """Builds the ``Edges`` of a user's layers, with self loops where the model wants them."""

    reads_in_place = False  # the rows of a user's layer are its first columns

    def __init__(self, reads: tuple[str, ...], loops: bool) -> None:
        self.loops = loops
        self.reads_degrees, self.reads_weights, self.reads_features = (
            name in reads for name in ("degrees", "weight", "features")
        )

    def node_values(self, degrees: np.ndarray) -> np.ndarray:
        """In-degrees as the layers read them."""
        return np.asarray(degrees, dtype=np.float32)

    def matrix(self, csr: Csr, positions: np.ndarray | None, values: EdgeValues) -> LayerMatrix:
        """The edges of a layer whose rows are its first columns."""
        rows, columns = csr.shape
        if self.loops:
            positions = with_loops(csr, positions)
            csr = with_self_loops(csr)[0]
        degrees = None if values.nodes is None else torch.from_numpy(values.nodes[:columns])
        own = None if degrees is None else degrees[:rows]
        return Edges(csr, values.weight_of(positions), features=values.features_of(positions), degrees=own,
                     source_degrees=degrees)  # fmt: skip
