"""Mini batches for PyG's convolutions from this project's kernel ``khop``, where NeighborLoader has no sampler.

They have the layout of NeighborLoader's: targets first, then each hop's nodes; edges by the hop of their destination;
the counts for ``trim_to_layer``. A node's edges are ordered by rank, so that a layer can keep as many as its fanout.
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
from datasets.features import dense_features
from datasets.graph import Graph


class KhopBatches:
    """Batches by ``khop`` over one graph: all neighbours, or as many as the model's fanouts and the self loops."""

    def __init__(self, graph: Graph, spec: ModelSpec) -> None:
        adjacency = adjacency_of(graph, spec.name)
        self.csr, self.weight, self.loop = adjacency.csr, adjacency.weight, None
        self.fanouts: Sequence[int | None] = spec.fanouts or [None] * spec.layers
        self.features = torch.from_numpy(np.array(dense_features(graph.features, "backend pyg")))
        if spec.fanouts and spec.name in SELF_LOOP_MODELS:
            self._separate_loops(graph.csr)

    def _separate_loops(self, csr: Csr) -> None:
        is_loop = self.csr.indices == self.csr.destinations
        weight = np.ones(self.csr.nnz, dtype=np.float32) if self.weight is None else self.weight
        self.csr, self.loop = csr, torch.from_numpy(weight[is_loop].astype(np.float32))[:, None]
        self.weight = None if self.weight is None else self.weight[~is_loop]

    def load(self, batches: Sequence[Nodes], seed: int) -> Iterator[Data]:
        """Search the neighbourhood of each batch, in order; ``seed`` draws the edges. Targets become ascending."""
        for targets in batches:
            yield self._data(khop(self.csr, targets, self.fanouts, seed))

    def _data(self, neighbourhood: Neighbourhood) -> Data:
        hops = np.arange(len(self.fanouts) + 1)
        degrees = neighbourhood.csr.in_degrees
        data = Data(
            x=self.features.index_select(0, torch.from_numpy(neighbourhood.nodes)),
            edge_index=edge_list(neighbourhood.csr),
            edge_weight=None if self.weight is None else _select(self.weight, neighbourhood.positions),
            n_id=torch.from_numpy(neighbourhood.nodes),
            num_sampled_nodes=np.bincount(neighbourhood.distance, minlength=len(hops)).tolist(),
            num_sampled_edges=[int(degrees[neighbourhood.distance == hop].sum()) for hop in hops[:-1]],
        )
        if any(self.fanouts):
            data.rank = torch.from_numpy(neighbourhood.rank)
        if self.loop is not None:
            data.loop = self.loop[data.n_id]
        return data


def _select(values: NDArray[Any], positions: Any) -> Tensor:
    return torch.from_numpy(np.asarray(values[positions], dtype=np.float32))
