"""Sampling alone (scenario ``sample``): merged k-hop neighbourhoods of batches, by GraphTrainer's kernel."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from backends.agl.flat.flattener import strategy_of
from backends.agl.sampled_graph import SampledGraph
from backends.agl.vectorize import LayerBuilder
from backends.base.sampler import BatchSampler
from backends.contract import Hop, Nodes
from backends.kernels import Neighbourhood
from backends.kernels.neighbourhood import expansions


class AglSampler(BatchSampler):
    """Samples each node of a batch once; the sample of a smaller fanout is a prefix of that of a larger one."""

    def prepare_structure(self) -> None:
        """Prepare the graph to sample from, as for sage: without self loops."""
        self.strategy = strategy_of(self.config, self.spec, self.training.seed)
        self.sampled_graph = SampledGraph(self.graph, LayerBuilder("sage"), self.strategy, self.config.filter)

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[Neighbourhood]:
        """The neighbourhood of each batch; a node's sample is the same in all batches of an epoch."""
        self.sampled_graph.strategy = replace(self.strategy, seed=self.strategy.seed + epoch)
        return map(self.sampled_graph.search, batches)

    def count(self, neighbourhood: Neighbourhood) -> tuple[int, int]:
        """Count the nodes and edges of a neighbourhood."""
        return len(neighbourhood.nodes), neighbourhood.csr.nnz

    def hops(self, neighbourhood: Neighbourhood) -> list[Hop]:
        """Expanded nodes and sampled edges of each hop: rows are sorted by distance, and so are their edges."""
        nodes, csr, limits = neighbourhood.nodes, neighbourhood.csr, expansions(neighbourhood.fanouts)
        ends = np.searchsorted(neighbourhood.distance, np.arange(len(limits) + 1))
        positions = csr.ids if neighbourhood.positions is None else neighbourhood.positions
        bounds = csr.indptr[ends]
        return [
            Hop(nodes[ends[hop] : ends[hop + 1]], limit, positions[bounds[hop] : bounds[hop + 1]])
            for hop, limit in enumerate(limits)
        ]
