"""Mini batches for PyG's convolutions made by this project's kernels, where NeighborLoader has no sampler.

They hold what NeighborLoader's would: targets first, then each hop's nodes; edges by the hop of their destination; the
counts that ``trim_to_layer`` asks for. A node's edges stand by rank, so that a layer can keep as many as its fanout.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from backends.contract import Nodes
from backends.kernels import Neighbourhood, khop
from backends.model import ModelSpec
from backends.pyg.network import edge_list
from datasets.adjacency import SELF_LOOP_MODELS, adjacency_of
from datasets.csr import Csr
from datasets.graph import Graph


class KhopBatches:
    """A graph ready for ``khop``: all neighbours, or as many as the model's fanouts, self loops kept apart then."""

    def __init__(self, graph: Graph, spec: ModelSpec) -> None:
        adjacency = adjacency_of(graph, spec.name)
        self.csr, self.weight, self.loop = adjacency.csr, adjacency.weight, None
        self.fanouts: Sequence[int | None] = spec.fanouts or [None] * spec.layers
        self.features = torch.from_numpy(np.array(graph.features, dtype=np.float32))
        if spec.fanouts and spec.name in SELF_LOOP_MODELS:
            self._set_loops_apart(graph.csr)

    def _set_loops_apart(self, csr: Csr) -> None:
        own = self.csr.indices == self.csr.destinations
        weight = np.ones(self.csr.nnz, dtype=np.float32) if self.weight is None else self.weight
        self.csr, self.loop = csr, torch.from_numpy(weight[own].astype(np.float32))[:, None]
        self.weight = None if self.weight is None else self.weight[~own]

    def load(self, batches: Sequence[Nodes], seed: int) -> Iterator[Data]:
        """Make the batches in their order; ``seed`` draws the edges that fanouts keep. Targets stand ascending."""
        for targets in batches:
            yield self._data(khop(self.csr, targets, self.fanouts, seed))

    def _data(self, held: Neighbourhood) -> Data:
        hops = np.arange(len(self.fanouts) + 1)
        degrees = held.csr.in_degrees
        data = Data(
            x=self.features.index_select(0, torch.from_numpy(held.nodes)),
            edge_index=edge_list(held.csr),
            edge_weight=None if self.weight is None else _taken(self.weight, held.positions),
            n_id=torch.from_numpy(held.nodes),
            num_sampled_nodes=np.bincount(held.distance, minlength=len(hops)).tolist(),
            num_sampled_edges=[int(degrees[held.distance == hop].sum()) for hop in hops[:-1]],
        )
        if any(self.fanouts):
            data.rank = torch.from_numpy(held.rank)
        if self.loop is not None:
            data.loop = self.loop[data.n_id]
        return data


def _taken(values: NDArray[Any], positions: Any) -> Tensor:
    return torch.from_numpy(np.asarray(values[positions], dtype=np.float32))
