"""AGL's sampling alone: the merged k-hop neighbourhood of each batch, by the kernel that GraphTrainer's batches use."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from backends.agl.flat.flattener import strategy_of
from backends.agl.sampled import SampledGraph
from backends.base.sampler import BatchSampler
from backends.contract import Hop, Nodes
from backends.kernels import Neighbourhood
from backends.kernels.neighbourhood import expansions


class AglSampler(BatchSampler):
    """Draws once for each node of a batch: a deeper layer's edges hold those of the layers above it."""

    def prepare_structure(self) -> None:
        """See ``BatchSampler``; models differ in what they do with the edges, not in which they are."""
        self.strategy = strategy_of(self.config, self.spec, self.training.seed)
        self.drawn_from = SampledGraph(self.graph, "sage", self.strategy, self.config.filter)

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[Neighbourhood]:
        """See ``BatchSampler``; a node's sample is the same in all batches of an epoch."""
        self.drawn_from.strategy = replace(self.strategy, seed=self.strategy.seed + epoch)
        return map(self.drawn_from.search, batches)

    def counted(self, held: Neighbourhood) -> tuple[int, int]:
        """See ``BatchSampler``."""
        return len(held.nodes), held.csr.nnz

    def hops(self, held: Neighbourhood) -> list[Hop]:
        """See ``BatchSampler``: rows stand by distance, and so do their edges."""
        limits = expansions(held.fanouts)
        ends = np.searchsorted(held.distance, np.arange(len(limits) + 1))
        places = held.csr.ids if held.positions is None else held.positions
        bounds = held.csr.indptr[ends]
        return [
            Hop(held.nodes[ends[hop] : ends[hop + 1]], limit, places[bounds[hop] : bounds[hop + 1]])
            for hop, limit in enumerate(limits)
        ]
