"""Mini batches of sampled neighbourhoods from a graph in memory: the edges that GraphFlat would have stored."""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.flat.filters import FilterError, edge_columns, edge_mask
from backends.agl.flat.strategy import Strategy
from backends.agl.vectorize import inverse_sqrt, matrices
from backends.base.layered import LayerMatrix
from backends.contract import Nodes, Unsupported
from backends.kernels import Neighbourhood, khop
from datasets.csr import Csr
from datasets.graph import Graph

NEARLY_ALL = 0.9


class SampledGraph:
    """The edges that a strategy draws from, and what a model's layers multiply with: both of the whole graph.

    Self loops are added after sampling, gcn's weights come from degrees before filter and sampling. Raises Unsupported
    for a column that the graph lacks.
    """

    def __init__(self, graph: Graph, model: str, strategy: Strategy, filtering: str | None) -> None:
        self.model, self.strategy = model, strategy
        self.csr, self.weight = graph.csr, None
        try:
            if strategy.by is not None:
                column = np.asarray(edge_columns(graph, strategy.by), dtype=np.float32)
                self.weight = -column if strategy.reverse else column
            self.raw = graph.edge_weights if model == "gcn" else None
            if filtering:
                self._keep(np.flatnonzero(edge_mask(graph, filtering, 0, graph.csr.nnz)))
        except FilterError as error:
            raise Unsupported(str(error)) from error
        self.scale = _scale(graph) if model == "gcn" else None

    def _keep(self, kept: Nodes) -> None:
        csr = self.csr
        indptr = np.searchsorted(kept, csr.indptr).astype(csr.indptr.dtype)
        self.csr = Csr(indptr, csr.indices[kept], csr.shape, csr.ids[kept])
        self.weight, self.raw = (None if held is None else held[kept] for held in (self.weight, self.raw))

    def of_epoch(self, index: int) -> "SampledGraph":
        """The same graph with the draws of an epoch: those of epoch 0 are its own."""
        other = copy(self)
        other.strategy = replace(self.strategy, seed=self.strategy.seed + index)
        return other

    def search(self, targets: NDArray[np.integer], needed: bool = False) -> Neighbourhood:
        """Draw the merged neighbourhood of some targets, or only what its layers need."""
        drawn = self.strategy
        options = drawn.seed, drawn.scope, drawn.method, self.weight, drawn.replacement
        return khop(self.csr, targets, drawn.fanouts, *options, needed=needed)

    def matrices(self, held: Neighbourhood, form: str) -> list[LayerMatrix]:
        """Each layer's matrix over a neighbourhood that was drawn here, first layer first."""
        scale = None if self.scale is None else self.scale[held.nodes]
        return matrices(held, self.model, self.strategy.hops, form, scale, self.raw)

    def layers(self, targets: Nodes, form: str) -> tuple[list[LayerMatrix], Nodes | None]:
        """Return each layer's matrix, first layer first, and the nodes that the first one reads, ``None`` for all.

        The last one's rows are the targets, ascending. Where nearly all nodes are reached, form ``tight`` reads their
        features where they lie: a copy would take longer than a few more rows.
        """
        held = self.search(targets, form == "tight")
        first, *rest = self.matrices(held, form)
        if form != "tight" or len(held.nodes) < NEARLY_ALL * self.csr.shape[1]:
            return [first, *rest], held.nodes
        indices = held.nodes[first.csr.indices].astype(first.csr.indices.dtype)
        rows = first.csr.shape[0]
        whole = Csr(first.csr.indptr, indices, (rows, self.csr.shape[1]))
        return [LayerMatrix(whole, first.weight, torch.from_numpy(held.nodes[:rows])), *rest], None


def _scale(graph: Graph) -> NDArray[np.floating[Any]]:
    """``D^-1/2`` of each node, as gcn has it."""
    if graph.edge_weights is None:
        return inverse_sqrt(1.0 + graph.csr.in_degrees)
    weights = graph.edge_weights.astype(np.float64)
    return inverse_sqrt(1.0 + np.bincount(graph.csr.destinations, weights=weights, minlength=graph.nodes))
