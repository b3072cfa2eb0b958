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
            layer_edges = (edges, weight) if rank is None else _below(fanouts[layer], rank, edges, weight)
            hops.append(_hop(len(nodes), *layer_edges, data.get("loop"), variant, model))
        else:
            hops.append(hops[0])
    return Batch(PygStructure(hops), data.x, targets, slice(0, len(targets)))


def _below(fanout: int | None, rank: Tensor, edges: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The edges whose rank is below a layer's fanout."""
    if fanout is None:
        return edges, weight
    below = rank < fanout
    return edges[:, below], None if weight is None else weight[below]


def _hop(rows: int, edges: Tensor, weight: Tensor | None, loop: Tensor | None, variant: str, model: str) -> PygHop:
    """The graph of a layer of ``rows`` nodes in the form of the variant, with the self loops, which are not sampled."""
    if variant == "scatter":
        return PygHop(rows, *_append_loops(rows, edges, weight, loop))
    edges, weight = _by_destination(edges, weight)
    if variant == "edge_index" and loop is None:
        return PygHop(rows, _edge_index(rows, edges), weight)
    sources, degrees = edges[0], torch.bincount(edges[1], minlength=rows)
    if loop is not None:
        degrees = degrees + 1
        sources, weight = _insert_loops(degrees, sources, weight, loop)
    if variant == "edge_index":
        destinations = torch.repeat_interleave(degrees)
        return PygHop(rows, _edge_index(rows, torch.stack([sources, destinations])), weight)
    indptr = np.concatenate(([0], np.cumsum(degrees.numpy())))
    return PygHop(rows, csr_tensor(indptr, sources.numpy(), weight, model), None)


def _edge_index(rows: int, edges: Tensor) -> EdgeIndex:
    return EdgeIndex(edges, sparse_size=(rows, rows), sort_order="col")


def _by_destination(edges: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The edges sorted by destination, as both samplers return them."""
    if not bool((edges[1, 1:] < edges[1, :-1]).any()):
        return edges, weight
    order = torch.argsort(edges[1], stable=True)
    return edges[:, order], None if weight is None else weight[order]


def _append_loops(rows: int, edges: Tensor, weight: Tensor | None, loop: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Add the self loops behind the edges."""
    if loop is None:
        return edges, weight
    edges = torch.cat([edges, torch.arange(rows).expand(2, rows)], dim=1)
    return edges, None if weight is None else torch.cat([weight, loop[:rows, 0]])


def _insert_loops(
    degrees: Tensor, sources: Tensor, weight: Tensor | None, loop: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Add each node's self loop behind its other in-edges; ``degrees`` [nodes] count the loops too."""
    rows = len(degrees)
    is_loop = torch.zeros(len(sources) + rows, dtype=torch.bool)
    is_loop[degrees.cumsum(0) - 1] = True
    merged = _merge(is_loop, torch.arange(rows), sources)
    return merged, None if weight is None else _merge(is_loop, loop[:rows, 0], weight)


def _merge(is_loop: Tensor, loops: Tensor, edges: Tensor) -> Tensor:
    """The values of loops where ``is_loop``, those of edges elsewhere, each in their order."""
    merged = torch.empty(len(is_loop), dtype=edges.dtype)
    return merged.masked_scatter_(is_loop, loops).masked_scatter_(~is_loop, edges)
