"""Sampled k-hop neighbourhoods of a graph in memory as layer matrices: the same edges that GraphFlat stores."""

from copy import copy
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.flat.filters import EdgeFilter, FilterError, edge_columns
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.vectorize import EdgeValues, LayerBuilder, matrices
from backends.base.layered import LayerMatrix
from backends.contract import Nodes, Unsupported
from backends.kernels import Neighbourhood, khop
from backends.kernels.samplers import SummedWeights, Weights, summed
from datasets.csr import Csr
from datasets.graph import Graph

NEARLY_ALL = 0.9  # share of the nodes from which features that are transformed first are read in place


class SampledGraph:
    """A graph to sample neighbourhoods from by a strategy, and to build a model's layer matrices of them.

    Self loops are added after sampling; gcn's weights use degrees of the whole graph, before filter and sampling.
    ``sums_features``: the first layer only aggregates the features, so that it reads them where they lie: a sampled
    neighbourhood has few edges per node, and copying its rows would take as long as summing them. Raises Unsupported
    for a column that the graph does not have.
    """

    def __init__(
        self,
        graph: Graph,
        builder: LayerBuilder,
        strategy: SamplingStrategy,
        filtering: str | None,
        sums_features: bool = False,
    ) -> None:
        self.builder, self.strategy = builder, strategy
        self.least_in_place = 0.0 if sums_features else NEARLY_ALL
        self.csr, self.weight = graph.csr, None
        try:
            if strategy.by is not None:
                column = np.asarray(edge_columns(graph, strategy.by), dtype=np.float32)
                self.weight = -column if strategy.reverse else column
            self.values = EdgeValues.of(graph, builder)
            if filtering:
                self._filter(np.flatnonzero(EdgeFilter(graph, filtering).mask(0, graph.csr.nnz)))
        except FilterError as error:
            raise Unsupported(str(error)) from error
        self.sampled_by: Weights | SummedWeights | None = self.weight
        if strategy.method == "weighted" and self.weight is not None:
            self.sampled_by = summed(self.csr, self.weight)

    def _filter(self, positions: Nodes) -> None:
        """Keep only the edges at ``positions``."""
        csr = self.csr
        indptr = np.searchsorted(positions, csr.indptr).astype(csr.indptr.dtype)
        self.csr = Csr(indptr, csr.indices[positions], csr.shape, csr.ids[positions])
        self.weight = None if self.weight is None else self.weight[positions]
        weights, features = (
            None if values is None else values[positions] for values in (self.values.weights, self.values.features)
        )
        self.values = replace(self.values, weights=weights, features=features)

    def of_epoch(self, index: int) -> "SampledGraph":
        """The same graph with the samples of epoch ``index``; epoch 0 has the samples of this one."""
        other = copy(self)
        other.strategy = replace(self.strategy, seed=self.strategy.seed + index)
        return other

    def search(self, targets: NDArray[np.integer], needed: bool = False) -> Neighbourhood:
        """Sample the merged neighbourhood of some targets; with ``needed`` only the edges that some layer reads."""
        strategy = self.strategy
        options = strategy.seed, strategy.scope, strategy.method, self.sampled_by, strategy.replacement
        return khop(self.csr, targets, strategy.fanouts, *options, needed=needed)

    def matrices(self, neighbourhood: Neighbourhood, form: str) -> list[LayerMatrix]:
        """Each layer's matrix over a neighbourhood that ``search`` returned, first layer first."""
        values = self.values_of(neighbourhood)
        return matrices(neighbourhood, self.builder, self.strategy.hops, form, values)

    def values_of(self, neighbourhood: Neighbourhood) -> EdgeValues:
        """The values that layers read, with those of the neighbourhood's nodes."""
        nodes = None if self.values.nodes is None else self.values.nodes[neighbourhood.nodes]
        return replace(self.values, nodes=nodes)

    def layers(self, targets: Nodes, form: str) -> tuple[list[LayerMatrix], Nodes | None]:
        """Return each layer's matrix, first layer first, and the nodes that the first one reads, ``None`` for all.

        Rows of the last one are the targets, ascending. With form ``tight`` features are read in place where they are
        only summed, or where nearly all nodes are reached: unused rows cost less than a copy then.
        """
        neighbourhood = self.search(targets, form == "tight")
        nodes = neighbourhood.nodes
        first, *others = self.matrices(neighbourhood, form)
        if not self.builder.reads_in_place or form != "tight" or len(nodes) < self.least_in_place * self.csr.shape[1]:
            return [first, *others], nodes
        indices = nodes.astype(first.csr.indices.dtype)[first.csr.indices]
        rows = first.csr.shape[0]
        over_all_nodes = Csr(first.csr.indptr, indices, (rows, self.csr.shape[1]))
        own = torch.from_numpy(nodes[:rows])
        return [LayerMatrix(over_all_nodes, first.weight, own, features=first.features), *others], None
