"""Mini batches with all neighbours from PyG's NeighborLoader."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler import NeighborSampler
from torch_geometric.utils import trim_to_layer

from backends.contract import Nodes
from backends.pyg.network import Hop, Structure, csr_tensor, edge_list, edge_weights
from backends.training import Batch
from datasets.adjacency import Adjacency


class NeighbourBatches:
    """A graph ready for NeighborLoader: features and, for gcn, the weights of the whole graph's edges travel along."""

    def __init__(self, adjacency: Adjacency, features: Tensor, layers: int, workers: int) -> None:
        self.workers = workers
        self.data = Data(x=features, edge_index=edge_list(adjacency.csr), edge_weight=edge_weights(adjacency))
        self.fanouts = [-1] * layers
        # Edges are sorted by destination already; the conversion is done once and not once per epoch.
        self.sampler = NeighborSampler(self.data, self.fanouts, is_sorted=True, share_memory=workers > 0)

    def load(self, batches: list[Nodes]) -> Iterator[Data]:
        """Sample the batches in their order; all but the last must have the same size."""
        loader = NeighborLoader(
            self.data,
            self.fanouts,
            input_nodes=torch.from_numpy(np.concatenate(batches)),
            neighbor_sampler=self.sampler,
            batch_size=len(batches[0]),
            shuffle=False,
            num_workers=self.workers,
        )
        return iter(loader)


def batch_of(data: Data, targets: Nodes, layers: int, trim: bool, variant: str, model: str) -> Batch:
    """Turn what NeighborLoader sampled into the matrices of all layers; its first nodes are the targets.

    Without ``trim`` every layer runs over all sampled edges; with it, layer l leaves out the l outermost hops.
    """
    nodes, edges, weight = data.n_id, data.edge_index, data.get("edge_weight")
    hops: list[Hop] = []
    for layer in range(layers):
        if trim:
            counts = data.num_sampled_nodes, data.num_sampled_edges
            nodes, edges, weight = trim_to_layer(layer, *counts, nodes, edges, weight)
        if trim or not hops:
            hops.append(_hop(len(nodes), edges, weight, variant, model))
        else:
            hops.append(hops[0])
    return Batch(Structure(hops), data.x, targets, torch.arange(len(targets)))


def _hop(rows: int, edges: Tensor, weight: Tensor | None, variant: str, model: str) -> Hop:
    if variant != "csr":
        return Hop(rows, edges, weight)
    sources, destinations = edges
    if bool((destinations[1:] < destinations[:-1]).any()):
        order = torch.argsort(destinations, stable=True)
        sources, destinations = sources[order], destinations[order]
        weight = None if weight is None else weight[order]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(destinations.numpy(), minlength=rows))))
    return Hop(rows, csr_tensor(indptr, sources.numpy(), weight, model), None)
