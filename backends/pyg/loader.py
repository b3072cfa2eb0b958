"""Mini batches from PyG's NeighborLoader."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler import NeighborSampler
from torch_geometric.utils import trim_to_layer

from backends.base.trainer import Batch
from backends.contract import Nodes
from backends.model import ModelSpec
from backends.pyg.network import PygHop, PygStructure, csr_tensor, edge_list, edge_weights
from datasets.adjacency import SELF_LOOP_MODELS, adjacency_of
from datasets.features import dense_features
from datasets.graph import Graph

Fanouts = Sequence[int | None]


class NeighbourBatches:
    """NeighborLoader over one graph, with one sampler for all epochs; ``fanouts`` first layer first, -1 for all."""

    def __init__(self, data: Data, fanouts: list[int], workers: int) -> None:
        self.data, self.workers = data, workers
        self.fanouts = fanouts[::-1]
        # Edges are sorted by destination already; the conversion is done once and not once per epoch.
        self.sampler = NeighborSampler(self.data, self.fanouts, is_sorted=True, share_memory=workers > 0)

    def load(self, batches: list[Nodes], seed: int) -> Iterator[Data]:
        """Sample the batches in their order; all but the last must have the same size. Torch's generator draws."""
        loader = NeighborLoader(
            self.data,
            self.fanouts,
            input_nodes=torch.from_numpy(np.concatenate(batches)),
            neighbor_sampler=self.sampler,
            batch_size=len(batches[0]),
            shuffle=False,
            num_workers=self.workers,
        )
        return (with_counts(data, len(self.fanouts)) for data in loader)


def with_counts(data: Data, hops: int) -> Data:
    """Add what ``trim_to_layer`` needs, the nodes and edges of each hop, where torch-sparse sampled: it counts neither.

    Its nodes and edges stand hop by hop, targets first.
    """
    if data.get("num_sampled_nodes") is not None:
        return data
    sources, destinations = data.edge_index
    nodes, edges, first, last = [int(data.batch_size)], list[int](), 0, int(data.batch_size)
    for _ in range(hops):
        hop = sources[(destinations >= first) & (destinations < last)]
        first, last = last, max(last, int(hop.max()) + 1 if len(hop) else 0)
        nodes.append(last - first)
        edges.append(len(hop))
    data.num_sampled_nodes, data.num_sampled_edges = nodes, edges
    return data


def graph_data(graph: Graph, spec: ModelSpec) -> Data:
    """Features, edges and, for gcn, weights of the whole graph; samples contain those of their nodes and edges.

    Where the model has fanouts the edges lack the self loops, as a fanout could leave them out: ``loop`` [nodes, 1]
    has their weights.
    """
    adjacency = adjacency_of(graph, spec.name)
    features = torch.from_numpy(np.array(dense_features(graph.features, "backend pyg")))
    data = Data(x=features, edge_index=edge_list(adjacency.csr), edge_weight=edge_weights(adjacency))
    if spec.fanouts and spec.name in SELF_LOOP_MODELS:
        source, destination = data.edge_index
        is_loop = source == destination
        weight = torch.ones(len(is_loop)) if data.edge_weight is None else data.edge_weight
        data.loop, data.edge_index = weight[is_loop, None], data.edge_index[:, ~is_loop].contiguous()
        data.edge_weight = None if data.edge_weight is None else weight[~is_loop]
    return data


def batch_of(
    data: Data, targets: Nodes, layers: int, trim: bool, variant: str, model: str, fanouts: Fanouts = ()
) -> Batch:
    """Build the graphs of all layers from a sampled neighbourhood, whose first nodes are the targets.

    Without ``trim`` every layer runs over all sampled edges; with it, layer l leaves out the l outermost hops. Where
    the edges have a ``rank``, layer l keeps those below ``fanouts[l]``.
    """
    nodes, edges, weight, rank = data.n_id, data.edge_index, data.get("edge_weight"), data.get("rank")
    hops: list[PygHop] = []
    for layer in range(layers):
        if trim:
            counts = data.num_sampled_nodes, data.num_sampled_edges
            rank = trim_to_layer(layer, *counts, nodes, edges, rank)[2]
            nodes, edges, weight = trim_to_layer(layer, *counts, nodes, edges, weight)
        if trim or not hops or rank is not None:
            kept_edges = (edges, weight) if rank is None else _below(fanouts[layer], rank, edges, weight)
            hops.append(_hop(len(nodes), *_with_loops(*kept_edges, data.get("loop"), len(nodes)), variant, model))
        else:
            hops.append(hops[0])
    return Batch(PygStructure(hops), data.x, targets, slice(0, len(targets)))


def _below(fanout: int | None, rank: Tensor, edges: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The edges whose rank is below a layer's fanout."""
    if fanout is None:
        return edges, weight
    below = rank < fanout
    return edges[:, below], None if weight is None else weight[below]


def _with_loops(edges: Tensor, weight: Tensor | None, loop: Tensor | None, rows: int) -> tuple[Tensor, Tensor | None]:
    """Add the self loops, which are not sampled, to the edges of a layer of ``rows`` nodes."""
    if loop is None:
        return edges, weight
    edges = torch.cat([edges, torch.arange(rows).expand(2, rows)], dim=1)
    return edges, None if weight is None else torch.cat([weight, loop[:rows, 0]])


def _hop(rows: int, edges: Tensor, weight: Tensor | None, variant: str, model: str) -> PygHop:
    if variant == "scatter":
        return PygHop(rows, edges, weight)
    if bool((edges[1, 1:] < edges[1, :-1]).any()):  # self loops were added at the end
        order = torch.argsort(edges[1], stable=True)
        edges, weight = edges[:, order], None if weight is None else weight[order]
    if variant == "edge_index":
        return PygHop(rows, EdgeIndex(edges, sparse_size=(rows, rows), sort_order="col"), weight)
    sources, destinations = edges
    indptr = np.concatenate(([0], np.cumsum(np.bincount(destinations.numpy(), minlength=rows))))
    return PygHop(rows, csr_tensor(indptr, sources.numpy(), weight, model), None)
