"""AGL's interface for a user's own model: the four functions of its demo (section 3.5), over our kernels.

``adj, node_feature, edge_feature = subgraph_vectorize(graph, targetID, hops)``, ``adj_list = pruning(adj)``, in layer k
``aggregator(adj_list[k], node_embedding)``, at the end ``look_up(node_embedding, targetID)``.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.agl.flat.strategy import Strategy
from backends.agl.sampled import SampledGraph
from backends.base.layered import LayerMatrix, float_tensor
from backends.kernels import Neighbourhood, khop, layer_blocks, spmm
from datasets.adjacency import SELF_LOOP_MODELS, adjacency_of, insert_self_loops
from datasets.csr import Csr
from datasets.graph import Graph


@dataclass(frozen=True, eq=False)
class SubgraphAdjacency:
    """A_B of a batch: the merged neighbourhood of its targets, edges by destination, and weights of the whole graph.

    ``sampled`` is what a sampled one was drawn from; ``pruning`` then adds the self loops and weights of each layer.
    """

    neighbourhood: Neighbourhood
    weight: Tensor | None = None
    sampled: SampledGraph | None = None

    @property
    def hops(self) -> int:
        """Layers that it serves."""
        return len(self.neighbourhood.fanouts)


_prepared: "WeakKeyDictionary[Graph, dict[str, tuple[Csr, Tensor | None]]]" = WeakKeyDictionary()
_sampled: "WeakKeyDictionary[Graph, dict[tuple[Any, ...], SampledGraph]]" = WeakKeyDictionary()


def subgraph_vectorize(
    graph: Graph,
    targets: NDArray[np.integer],
    hops: int,
    model: str = "gcn",
    fanouts: tuple[int | None, ...] | None = None,
    seed: int = 0,
) -> tuple[SubgraphAdjacency, Tensor, Tensor | None]:
    """Return A_B, X_B [nodes, width] and E_B [edges, width] or ``None`` of a batch of target nodes.

    ``model`` names whose edges are meant: ``gcn`` adds self loops and symmetric weights, ``gat`` self loops, ``sage``
    nothing; both come from the whole graph, and a self loop has zeros for edge features. ``fanouts``, one per layer,
    first layer first, sample neighbours, before self loops are added: E_B then holds the sampled edges alone. Raises
    ValueError for a graph without features, or fanouts of another number of layers.
    """
    if graph.features is None:
        raise ValueError(f"data set {graph.name} has no features: a model needs some")
    if fanouts is not None and len(fanouts) != hops:
        raise ValueError(f"fanouts={fanouts} has {len(fanouts)} entries for {hops} hops: give one per layer")
    adj = _whole(graph, targets, hops, model) if fanouts is None else _drawn(graph, targets, model, fanouts, seed)
    features = torch.from_numpy(np.array(graph.features[adj.neighbourhood.nodes], dtype=np.float32))
    return adj, features, _edge_features(graph, adj, model)


def _whole(graph: Graph, targets: NDArray[np.integer], hops: int, model: str) -> SubgraphAdjacency:
    held = _prepared.setdefault(graph, {})
    if model not in held:
        adjacency = adjacency_of(graph, model)
        held[model] = adjacency.csr, float_tensor(adjacency.weight)
    csr, weight = held[model]
    return SubgraphAdjacency(khop(csr, targets, (None,) * hops), weight)


def _drawn(
    graph: Graph, targets: NDArray[np.integer], model: str, fanouts: tuple[int | None, ...], seed: int
) -> SubgraphAdjacency:
    held, key = _sampled.setdefault(graph, {}), (model, fanouts, seed)
    if key not in held:
        held.clear()  # an epoch of one seed and shape, then perhaps the next
        held[key] = SampledGraph(graph, model, Strategy(fanouts, seed=seed), None)
    return SubgraphAdjacency(held[key].search(targets), sampled=held[key])


def _edge_features(graph: Graph, adj: SubgraphAdjacency, model: str) -> Tensor | None:
    if graph.edge_features is None:
        return None
    places = adj.neighbourhood.positions
    assert places is not None
    if model in SELF_LOOP_MODELS and adj.sampled is None:
        places = insert_self_loops(graph.csr, 0)[1][places]
    features = np.array(graph.edge_features[places], dtype=np.float32)
    features[places < 0] = 0.0
    return torch.from_numpy(features)


def pruning(adj: SubgraphAdjacency, form: str = "tight") -> list[LayerMatrix]:
    """Return the matrix of each layer, first layer first, without what no target needs (AGL, section 3.3.2)."""
    if adj.sampled is not None:
        return adj.sampled.matrices(adj.neighbourhood, form)
    blocks = layer_blocks(adj.neighbourhood, adj.hops, form)
    weights = [None if adj.weight is None else adj.weight[torch.from_numpy(block.positions)] for block in blocks]
    return [LayerMatrix(block.csr, weight) for block, weight in zip(blocks, weights, strict=True)]


def aggregator(adj: LayerMatrix, h: Tensor, reduce: str = "sum") -> Tensor:
    """Aggregate embeddings over in-edges: [rows, width], with the edges' weights; ``reduce`` is sum or mean.

    All edges of a destination belong to one thread (AGL, section 3.3.2). Differentiable in ``h``.
    """
    return spmm(adj.csr, h[: adj.csr.shape[1]], adj.weight, reduce)


def look_up(h: Tensor, targets: NDArray[np.integer]) -> Tensor:
    """Pick the embeddings of the batch's targets, in their order; ``targets`` are all those that were vectorised."""
    ascending, places = np.unique(targets, return_inverse=True)
    if len(h) < len(ascending):
        raise ValueError(f"{len(ascending)} targets but {len(h)} embeddings: look up the targets that were vectorised")
    return h[torch.from_numpy(places)]
