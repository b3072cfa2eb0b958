"""Neighbourhoods of a graph in memory as layer matrices: sampled ones, the same that GraphFlat stores, and full ones.

k-hop search gives the nodes of a batch new numbers, hop by hop, so that a layer needs a gathered copy of the features
and a transpose of its own. Two cases avoid this for full neighbourhoods. Where the first layer only sums features, they
are read in place. A layer whose nodes are most of the graph runs over the whole graph's matrix, whose transpose is
cached between batches, and computes a few rows that no target depends on.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.agl.flat.flattener import strategy_of
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.vectorize import EdgeValues, LayerBuilder, matrices
from backends.base.layered import LayerMatrix, float_tensor
from backends.base.sampler import BatchSampler
from backends.contract import Hop, Nodes, Unsupported
from backends.kernels import LayerBlock, Neighbourhood, khop, layer_blocks
from backends.kernels.neighbourhood import expansions
from backends.kernels.rows import MatrixRows, count_sources, take_rows
from backends.kernels.samplers import SummedWeights, Weights, summed
from backends.kernels.sampling import checked_nodes, distinct
from datasets.adjacency import Adjacency
from datasets.csr import Csr, index_dtype
from datasets.filters import EdgeFilter, FilterError, edge_columns
from datasets.graph import Graph

NEARLY_ALL = 0.9  # share of the nodes from which features that are transformed first are read in place
MOST = 0.75  # a layer that reads at least this share of the nodes runs over the whole graph


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
                column = np.ascontiguousarray(edge_columns(graph, strategy.by), dtype=np.float32)
                self.weight = -column if strategy.reverse else column
            self.values = EdgeValues.of(graph, builder)
            if filtering:
                self._filter(np.flatnonzero(EdgeFilter(graph, filtering).mask(0, graph.csr.nnz)))
        except FilterError as error:
            raise Unsupported(str(error)) from error
        self.sampled_by: Weights | SummedWeights | None = self.weight
        if strategy.method == "weighted" and self.weight is not None:
            self.sampled_by = summed(self.csr, self.weight)
        elif strategy.method == "uniform":
            # draws are hashed from nodes: ids of edges would be gathered for nothing
            self.csr = replace(self.csr, edge_ids=None)

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
        return matrices(neighbourhood, self.builder, form, self.values_of(neighbourhood))

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
        indices = nodes.astype(index_dtype(self.csr.shape[1]))[first.csr.indices]
        rows = first.csr.shape[0]
        over_all_nodes = Csr(first.csr.indptr, indices, (rows, self.csr.shape[1]))
        own = torch.from_numpy(nodes[:rows])
        return [LayerMatrix(over_all_nodes, first.weight, own, features=first.features), *others], None


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
        if not reads_features:
            edges = (self.csr.indptr[nodes + 1] - self.csr.indptr[nodes]).sum(dtype=np.int64)
            if edges < self.csr.shape[1]:
                return None
        rows, weight = take_rows(self.csr, nodes, self.weight)
        if not reads_features and count_sources(rows) < MOST * self.csr.shape[1]:
            return None
        columns = torch.from_numpy(nodes)
        partial = LayerMatrix(rows, weight, columns, MatrixRows(self.csr, self.weight, columns))
        return [all_edges] * (self.hops - depth - 1) + [partial]


class SampledBatch(NamedTuple):
    """What a batch's layers aggregate over: its merged neighbourhood, and the matrix of each layer."""

    neighbourhood: Neighbourhood
    blocks: list[LayerBlock]


class AglSampler(BatchSampler):
    """Samples each node of a batch once; the sample of a smaller fanout is a prefix of that of a larger one.

    Matrices of the layers are built too, as DGL builds its blocks: training needs them.
    """

    def prepare_structure(self) -> None:
        """Prepare the graph to sample from, as for sage: without self loops."""
        strategy = strategy_of(self.config, self.spec, self.training.seed)
        self.sampled_graph = SampledGraph(self.graph, LayerBuilder("sage"), strategy, self.config.filter)

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[SampledBatch]:
        """The neighbourhood of each batch; a node's sample is the same in all batches of an epoch."""
        for neighbourhood in map(self.sampled_graph.of_epoch(epoch).search, batches):
            yield SampledBatch(neighbourhood, layer_blocks(neighbourhood, len(neighbourhood.fanouts)))

    def count(self, batch: SampledBatch) -> tuple[int, int]:
        """Count the nodes and edges of a neighbourhood."""
        return len(batch.neighbourhood.nodes), batch.neighbourhood.csr.nnz

    def hops(self, batch: SampledBatch) -> list[Hop]:
        """Expanded nodes and sampled edges of each hop: rows are sorted by distance, and so are their edges."""
        neighbourhood = batch.neighbourhood
        nodes, csr, limits = neighbourhood.nodes, neighbourhood.csr, expansions(neighbourhood.fanouts)
        ends = np.searchsorted(neighbourhood.distance, np.arange(len(limits) + 1))
        positions = csr.ids if neighbourhood.positions is None else neighbourhood.positions
        bounds = csr.indptr[ends]
        return [
            Hop(nodes[ends[hop] : ends[hop + 1]], limit, positions[bounds[hop] : bounds[hop + 1]])
            for hop, limit in enumerate(limits)
        ]
