"""Sampling alone (scenario ``sample``): merged k-hop neighbourhoods of batches, by GraphTrainer's kernel."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from backends.agl.flat.flattener import strategy_of
from backends.agl.sampled_graph import SampledGraph
from backends.agl.vectorize import LayerBuilder
from backends.base.sampler import BatchSampler
from backends.contract import Hop, Nodes
from backends.kernels import LayerBlock, Neighbourhood, layer_blocks
from backends.kernels.neighbourhood import expansions


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
        self.strategy = strategy_of(self.config, self.spec, self.training.seed)
        self.sampled_graph = SampledGraph(self.graph, LayerBuilder("sage"), self.strategy, self.config.filter)

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[SampledBatch]:
        """The neighbourhood of each batch; a node's sample is the same in all batches of an epoch."""
        self.sampled_graph.strategy = replace(self.strategy, seed=self.strategy.seed + epoch)
        return map(self._sampled, batches)

    def _sampled(self, targets: Nodes) -> SampledBatch:
        neighbourhood = self.sampled_graph.search(targets)
        return SampledBatch(neighbourhood, layer_blocks(neighbourhood, self.strategy.hops))

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
