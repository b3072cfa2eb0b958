"""The definition of each model in float64, by gathers and sums over the edge list; every engine is checked against it.

It shares no code with an engine: it samples and normalises the graph's edges itself. It is slow.
"""

from copy import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from backends.base.operands import draw_operands
from backends.model import ModelSpec, State
from datasets.graph import Graph
from datasets.randomness import hash_ids

Floats = NDArray[np.float64]


class _Edges:
    """The edge list of a model in float64: sources, destinations, weights, and each node's weighted in-degree."""

    def __init__(self, graph: Graph, model: str) -> None:
        self.nodes = graph.nodes
        self.source = torch.from_numpy(graph.csr.indices.astype(np.int64))
        self.destination = torch.from_numpy(graph.csr.destinations.astype(np.int64))
        edge_weights = None if model != "gcn" else graph.edge_weights
        weights = np.ones(graph.csr.nnz) if edge_weights is None else edge_weights.astype(np.float64)
        self.weight = torch.from_numpy(weights)
        if model != "sage":
            loops = torch.arange(self.nodes)
            self.source = torch.cat([self.source, loops])
            self.destination = torch.cat([self.destination, loops])
            self.weight = torch.cat([self.weight, torch.ones(self.nodes, dtype=torch.float64)])
        self.degree = self.sum(self.weight)

    def masked(self, marks: NDArray[np.bool_]) -> "_Edges":
        """The edges that are marked [nnz], and all self loops; degrees stay those of the whole graph."""
        subset, loops = copy(self), torch.ones(len(self.weight) - len(marks), dtype=torch.bool)
        mask = torch.cat([torch.from_numpy(marks), loops])
        subset.source, subset.destination, subset.weight = self.source[mask], self.destination[mask], self.weight[mask]
        return subset

    def sum(self, values: Tensor) -> Tensor:
        """Add up edge values [edges, ...] at their destinations."""
        out = torch.zeros((self.nodes, *values.shape[1:]), dtype=torch.float64)
        return out.index_add(0, self.destination, values)


def _gcn(edges: _Edges, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _normalised_sum(edges, hidden @ weight) + bias


def _normalised_sum(edges: _Edges, x: Tensor) -> Tensor:
    scale = torch.where(edges.degree > 0, edges.degree.clamp(min=1e-300) ** -0.5, 0.0)
    norm = scale[edges.destination] * edges.weight * scale[edges.source]
    return edges.sum(norm[:, None] * x[edges.source])


def _sage(edges: _Edges, hidden: Tensor, weight_self: Tensor, weight_neigh: Tensor, bias: Tensor) -> Tensor:
    return hidden @ weight_self + _mean(edges, hidden) @ weight_neigh + bias


def _mean(edges: _Edges, x: Tensor) -> Tensor:
    degree = edges.sum(torch.ones_like(edges.weight)).clamp(min=1.0)
    return edges.sum(x[edges.source]) / degree[:, None]


def _gat_heads(edges: _Edges, hidden: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor, slope: float) -> Tensor:
    """One GATv1 layer before its heads are joined, [nodes, heads, width]."""
    heads, width = att_src.shape
    z = (hidden @ weight).view(-1, heads, width)
    return _attend(edges, z, (z * att_src).sum(-1), (z * att_dst).sum(-1), slope)


def _attend(edges: _Edges, z: Tensor, score_src: Tensor, score_dst: Tensor, slope: float) -> Tensor:
    """Softmax of leaky scores over in-edges and the weighted sum of ``z``, [nodes, heads, width]."""
    score = functional.leaky_relu(score_src[edges.source] + score_dst[edges.destination], slope)
    row = edges.destination[:, None].expand_as(score)
    largest = torch.full((edges.nodes, z.shape[1]), -torch.inf, dtype=torch.float64)
    largest = largest.scatter_reduce(0, row, score.detach(), "amax")
    exponent = torch.exp(score - largest[edges.destination])
    alpha = exponent / edges.sum(exponent)[edges.destination]
    return edges.sum(alpha[:, :, None] * z[edges.source])


def _convolve(spec: ModelSpec, layer: int, edges: _Edges, hidden: Tensor, parameters: dict[str, Tensor]) -> Tensor:
    prefix = f"layers.{layer}."
    arguments = {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
    if spec.name == "gcn":
        return _gcn(edges, hidden, **arguments)
    if spec.name == "sage":
        return _sage(edges, hidden, **arguments)
    if spec.name == "gat":
        bias = arguments.pop("bias")
        heads = _gat_heads(edges, hidden, slope=spec.slope, **arguments)
        joined = heads.mean(1) if spec.is_last(layer) else heads.flatten(1)
        return joined + bias
    raise ValueError(f"model {spec.name!r} has no definition: allowed are gcn, sage, gat")


def ranks(graph: Graph, seed: int) -> NDArray[np.int64]:
    """Place of each edge among its destination's in-edges, [nnz]: by a hash of (seed, edge id), ties by edge id.

    Layer l reads the edges of rank below its fanout F_l, for every target.
    """
    csr = graph.csr
    order = np.lexsort((csr.ids, hash_ids(seed, "neighbour keys", csr.ids), csr.destinations))
    places = np.empty(csr.nnz, dtype=np.int64)
    places[order] = np.arange(csr.nnz) - np.repeat(csr.indptr[:-1], csr.in_degrees)
    return places


def _edges_of_layers(graph: Graph, spec: ModelSpec, seed: int) -> list[_Edges]:
    edges = _Edges(graph, spec.name)
    if not spec.fanouts:
        return [edges] * spec.layers
    places = ranks(graph, seed)
    return [edges.masked(places < fanout) for fanout in spec.fanouts]


def forward(graph: Graph, spec: ModelSpec, parameters: dict[str, Tensor], seed: int = 0) -> Tensor:
    """Logits of all nodes, [nodes, classes], float64, no dropout; ``seed`` draws the model's fanouts."""
    edges = _edges_of_layers(graph, spec, seed)
    hidden = torch.from_numpy(np.asarray(graph.features, dtype=np.float64))
    activation = functional.elu if spec.activation() == "elu" else functional.relu
    for layer in range(spec.layers):
        hidden = _convolve(spec, layer, edges[layer], hidden, parameters)
        if not spec.is_last(layer):
            hidden = activation(hidden)
    if spec.head == "linear":
        hidden = hidden @ parameters["head.weight"] + parameters["head.bias"]
    return hidden


def loss(logits: Tensor, labels: NDArray[np.integer]) -> Tensor:
    """Mean loss over labelled entries: cross entropy of classes [n], binary cross entropy of rows [n, classes]."""
    target = torch.from_numpy(labels.astype(np.int64))
    if labels.ndim == 1:
        known = target >= 0
        return functional.nll_loss(torch.log_softmax(logits[known], 1), target[known])
    known = target >= 0
    z, y = logits[known], target[known].to(torch.float64)
    return (functional.softplus(z) - y * z).mean()


def logits_and_loss(
    graph: Graph, spec: ModelSpec, parameters: dict[str, Tensor], targets: NDArray[np.int64], seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Logits [targets, classes] and loss of one batch of targets."""
    if graph.labels is None:
        raise ValueError(f"data set {graph.name} has no labels: a loss needs them")
    logits = forward(graph, spec, parameters, seed)[torch.from_numpy(np.ascontiguousarray(targets))]
    return logits, loss(logits, graph.labels[targets])


def loss_and_gradients(
    graph: Graph, spec: ModelSpec, state: State, targets: NDArray[np.int64], seed: int = 0
) -> tuple[Floats, float, dict[str, Floats]]:
    """Return logits [targets, classes], loss and the gradient of every canonical parameter, all float64."""
    parameters = {name: torch.from_numpy(value.astype(np.float64)).requires_grad_() for name, value in state.items()}
    logits, value = logits_and_loss(graph, spec, parameters, targets, seed)
    value.backward()
    zero = {name: np.zeros(parameter.shape) for name, parameter in parameters.items()}
    gradients = {name: zero[name] if p.grad is None else p.grad.numpy() for name, p in parameters.items()}
    return logits.detach().numpy(), float(value.detach()), gradients


def products(graph: Graph, spec: ModelSpec, seed: int) -> tuple[Floats, dict[str, Floats]]:
    """Output and gradients that scenario ``spmm`` should compute from the operands of ``seed``."""
    edges = _Edges(graph, spec.name)
    drawn = draw_operands(graph.nodes, graph.nodes, spec, seed)
    tensors = {name: torch.from_numpy(value.astype(np.float64)) for name, value in drawn.items()}
    gradient = tensors.pop("gradient")
    operands = {name: value.requires_grad_() for name, value in tensors.items()}
    if spec.name == "gat":
        out = _attend(edges, operands["x"], operands["score_src"], operands["score_dst"], spec.slope)
    else:
        out = (_normalised_sum if spec.name == "gcn" else _mean)(edges, operands["x"])
    gradients = torch.autograd.grad(out, list(operands.values()), gradient)
    return out.detach().numpy(), {name: value.numpy() for name, value in zip(operands, gradients, strict=True)}
