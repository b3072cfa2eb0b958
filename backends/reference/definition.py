"""The definition of each model in float64, by gathers and sums over the edge list; every engine is checked against it.

It shares no code with an engine: it samples and normalises the graph's edges itself. It is slow. Every operation runs
in an ``Arithmetic``, the exact one by default; a noisy one shows how far rounding errors may lead.
"""

from copy import copy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.base.operands import draw_operands
from backends.model import ModelSpec, State
from backends.model_names import WEIGHTED
from backends.reference.arithmetic import Arithmetic
from datasets.features import dense_features
from datasets.graph import Graph
from datasets.randomness import below, hash_ids, keyed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Masks:
    """What dropout multiplies with, 0 or ``1 / (1 - rate)``; all ones where a list is empty.

    ``inputs`` has one mask [nodes, width] per layer, ``attention`` one [edges and self loops, heads].
    """

    inputs: tuple[NDArray[np.floating], ...] = ()
    attention: tuple[NDArray[np.floating], ...] = ()


@dataclass(frozen=True)
class _Context:
    """How the layers are evaluated: the arithmetic, and the masks of dropout."""

    arithmetic: Arithmetic
    masks: Masks = Masks()

    def drop(self, masks: tuple[NDArray[np.floating], ...], layer: int, values: Tensor) -> Tensor:
        """Multiply with the mask of a layer, if there is one."""
        if not masks:
            return values
        return self.arithmetic.round(values * torch.from_numpy(masks[layer]).to(values.dtype))


class _Edges:
    """The edge list of a model: sources, destinations, weights, and each node's weighted in-degree, float64."""

    def __init__(self, graph: Graph, model: str) -> None:
        self.nodes = graph.nodes
        self.source = torch.from_numpy(graph.csr.indices.astype(np.int64))
        self.destination = torch.from_numpy(graph.csr.destinations.astype(np.int64))
        edge_weights = graph.edge_weights if model in WEIGHTED else None
        weights = np.ones(graph.csr.nnz) if edge_weights is None else edge_weights.astype(np.float64)
        self.weight = torch.from_numpy(weights)
        self.features: Tensor | None = None
        if model == "gat" and graph.edge_features is not None:
            loops = np.zeros((self.nodes, graph.edge_features.shape[1]))
            self.features = torch.from_numpy(np.concatenate([graph.edge_features.astype(np.float64), loops]))
        if model not in ("sage", "lightgcn"):
            loops = torch.arange(self.nodes)
            self.source = torch.cat([self.source, loops])
            self.destination = torch.cat([self.destination, loops])
            self.weight = torch.cat([self.weight, torch.ones(self.nodes, dtype=torch.float64)])
        zeros = torch.zeros(self.nodes, dtype=torch.float64)
        self.degree = zeros.index_add(0, self.destination, self.weight)

    def masked(self, marks: NDArray[np.bool_]) -> "_Edges":
        """The edges that are marked [nnz], and all self loops; degrees stay those of the whole graph."""
        subset, loops = copy(self), torch.ones(len(self.weight) - len(marks), dtype=torch.bool)
        mask = torch.cat([torch.from_numpy(marks), loops])
        subset.source, subset.destination, subset.weight = self.source[mask], self.destination[mask], self.weight[mask]
        subset.features = None if self.features is None else self.features[mask]
        return subset

    def aggregate(self, arithmetic: Arithmetic, weight: Tensor, x: Tensor) -> Tensor:
        """Weighted sums [nodes, ...] of ``x`` over in-edges; ``weight`` is [edges], or [edges, heads] for wider x."""
        if weight.dim() > 1:
            return arithmetic.aggregate(weight, x, self.source, self.destination)
        return arithmetic.aggregate(weight[:, None], x[:, None], self.source, self.destination)[:, 0]


def _plus_bias(arithmetic: Arithmetic, x: Tensor, bias: Tensor) -> Tensor:
    """Add a bias to each row; its gradient is a sum over the rows."""
    return arithmetic.round(x + arithmetic.gather(bias[None], torch.zeros(len(x), dtype=torch.int64)))


def _gcn(edges: _Edges, arithmetic: Arithmetic, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _plus_bias(arithmetic, _normalised_sum(edges, arithmetic, arithmetic.product(hidden, weight)), bias)


def _normalised_sum(edges: _Edges, arithmetic: Arithmetic, x: Tensor) -> Tensor:
    scale = torch.where(edges.degree > 0, edges.degree.clamp(min=1e-300) ** -0.5, 0.0)
    norm = (scale[edges.destination] * edges.weight * scale[edges.source]).to(x.dtype)
    return edges.aggregate(arithmetic, arithmetic.round(norm), x)


def _sage(
    edges: _Edges, arithmetic: Arithmetic, hidden: Tensor, weight_self: Tensor, weight_neigh: Tensor, bias: Tensor
) -> Tensor:
    own = arithmetic.product(hidden, weight_self)
    neighbours = arithmetic.product(_mean(edges, arithmetic, hidden), weight_neigh)
    return _plus_bias(arithmetic, arithmetic.round(own + neighbours), bias)


def _mean(edges: _Edges, arithmetic: Arithmetic, x: Tensor) -> Tensor:
    ones = torch.ones(len(edges.source), dtype=x.dtype)
    degree = torch.zeros(edges.nodes, dtype=x.dtype).index_add(0, edges.destination, ones).clamp(min=1.0)
    return arithmetic.round(edges.aggregate(arithmetic, ones, x) / degree[:, None])


def _gat_heads(
    edges: _Edges,
    context: _Context,
    layer: int,
    hidden: Tensor,
    weight: Tensor,
    att_src: Tensor,
    att_dst: Tensor,
    slope: float,
    weight_edge: Tensor | None = None,
    att_edge: Tensor | None = None,
) -> Tensor:
    """One GATv1 layer before its heads are joined, [nodes, heads, width]."""
    heads, width = att_src.shape
    z = context.arithmetic.product(hidden, weight).view(-1, heads, width)
    scores = [_scores(context, z, vector) for vector in (att_src, att_dst)]
    of_edges = None
    if weight_edge is not None and att_edge is not None:
        assert edges.features is not None
        rows = context.arithmetic.product(edges.features.to(z.dtype), weight_edge).view(-1, heads, width)
        of_edges = _scores(context, rows, att_edge)
    return _attend(edges, context, layer, z, *scores, slope, of_edges)


def _scores(context: _Context, rows: Tensor, vector: Tensor) -> Tensor:
    """Inner products of rows [n, heads, width] with a vector per head, [n, heads]."""
    return context.arithmetic.product(rows.transpose(0, 1), vector[:, :, None])[:, :, 0].T


def _attend(
    edges: _Edges,
    context: _Context,
    layer: int,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    slope: float,
    score_edge: Tensor | None = None,
) -> Tensor:
    """Softmax of leaky scores over in-edges and the weighted sum of ``z``, [nodes, heads, width]."""
    arithmetic = context.arithmetic
    gathered = arithmetic.gather(score_src, edges.source) + arithmetic.gather(score_dst, edges.destination)
    score = arithmetic.round(gathered if score_edge is None else gathered + score_edge)
    score = torch.where(arithmetic.is_positive(score), score, arithmetic.round(slope * score))
    row = edges.destination[:, None].expand_as(score)
    largest = torch.full((edges.nodes, z.shape[1]), -torch.inf, dtype=z.dtype)
    largest = largest.scatter_reduce(0, row, score.detach(), "amax")
    exponent = arithmetic.exp(arithmetic.round(score - largest[edges.destination]))
    total = arithmetic.gather(arithmetic.sum(exponent, edges.destination, edges.nodes), edges.destination)
    alpha = context.drop(context.masks.attention, layer, arithmetic.round(exponent / total))
    return edges.aggregate(arithmetic, alpha, z)


def _convolve(
    spec: ModelSpec, layer: int, edges: _Edges, context: _Context, hidden: Tensor, parameters: dict[str, Tensor]
) -> Tensor:
    prefix, arithmetic = f"layers.{layer}.", context.arithmetic
    arguments = {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
    if spec.name == "gcn":
        return _gcn(edges, arithmetic, hidden, **arguments)
    if spec.name == "sage":
        return _sage(edges, arithmetic, hidden, **arguments)
    if spec.name == "gat":
        bias = arguments.pop("bias")
        heads = _gat_heads(edges, context, layer, hidden, slope=spec.slope, **arguments)
        joined = arithmetic.round(heads.mean(1)) if spec.is_last(layer) else heads.flatten(1)
        return _plus_bias(arithmetic, joined, bias)
    raise ValueError(f"model {spec.name!r} has no definition: allowed are gcn, sage, gat")


def _propagated(
    spec: ModelSpec, edges: _Edges, arithmetic: Arithmetic, features: Tensor, parameters: dict[str, Tensor]
) -> Tensor:
    """sgc, lightgcn or ngcn, power after power: a weight first, whatever its width."""

    def power(x: Tensor, exponent: int) -> Tensor:
        for _ in range(exponent):
            x = _normalised_sum(edges, arithmetic, x)
        return x

    if spec.name == "ngcn":
        outputs = []
        for k in range(spec.layers):
            hidden = power(arithmetic.product(features, parameters[f"layers.{k}.weight"]), k)
            hidden = _activate(spec, arithmetic, hidden)
            outputs.append(power(arithmetic.product(hidden, parameters[f"layers.{k}.weight_out"]), k))
        last = f"layers.{spec.layers - 1}."
        joined = arithmetic.product(torch.cat(outputs, 1), parameters[last + "combine"])
        return _plus_bias(arithmetic, joined, parameters[last + "bias"])
    x = arithmetic.product(features, parameters["layers.0.weight"])
    if spec.name == "sgc":
        return _plus_bias(arithmetic, power(x, spec.layers), parameters["layers.0.bias"])
    total = x
    for _ in range(spec.layers):
        x = _normalised_sum(edges, arithmetic, x)
        total = arithmetic.round(total + x)
    return arithmetic.round(total / (spec.layers + 1))


def _activate(spec: ModelSpec, arithmetic: Arithmetic, x: Tensor) -> Tensor:
    """ReLU or ELU; the side of 0 is the arithmetic's."""
    negative = arithmetic.round(torch.expm1(x.clamp(max=0.0))) if spec.activation() == "elu" else torch.zeros_like(x)
    return torch.where(arithmetic.is_positive(x), x, negative)


def ranks(graph: Graph, seed: int, count: int) -> NDArray[np.int64]:
    """Place of each edge in a shuffle of its destination's in-edges, [nnz]: exact below ``count``, else at least that.

    Swap r of Fisher and Yates exchanges r and r + floor(u (degree - r)), u a hash of (seed, destination, r). Layer l
    reads the edges of rank below its fanout F_l, for every target.
    """
    csr, shuffled = graph.csr, np.arange(graph.csr.nnz)
    starts, degrees = csr.indptr[:-1].astype(np.int64), csr.in_degrees.astype(np.int64)
    keys = hash_ids(seed, "neighbour keys", np.arange(graph.nodes))
    for swap in range(min(count, int(degrees.max(initial=0)))):
        rows = np.flatnonzero(degrees > swap)
        first = starts[rows] + swap
        other = first + below(keyed(keys[rows], np.full(len(rows), swap)), degrees[rows] - swap)
        shuffled[first], shuffled[other] = shuffled[other], shuffled[first]
    places = np.empty(csr.nnz, dtype=np.int64)
    places[shuffled] = np.arange(csr.nnz) - np.repeat(starts, degrees)
    return places


def _edges_of_layers(graph: Graph, spec: ModelSpec, seed: int) -> list[_Edges]:
    edges = _Edges(graph, spec.name)
    if not spec.fanouts:
        return [edges] * spec.layers
    places = ranks(graph, seed, max(spec.fanouts))
    return [edges.masked(places < fanout) for fanout in spec.fanouts]


def forward(
    graph: Graph,
    spec: ModelSpec,
    parameters: dict[str, Tensor],
    seed: int = 0,
    arithmetic: Arithmetic | None = None,
    masks: Masks | None = None,
) -> Tensor:
    """Logits of all nodes, [nodes, classes]; ``seed`` draws the model's fanouts, ``masks`` are those of dropout."""
    context = _Context(arithmetic or Arithmetic(), masks or Masks())
    edges = _edges_of_layers(graph, spec, seed)
    hidden = torch.from_numpy(np.array(dense_features(graph.features, "the definition"))).to(context.arithmetic.dtype)
    if spec.propagates:
        dropped = context.drop(context.masks.inputs, 0, hidden)
        hidden = _propagated(spec, edges[0], context.arithmetic, dropped, parameters)
    for layer in range(0 if spec.propagates else spec.layers):
        hidden = context.drop(context.masks.inputs, layer, hidden)
        hidden = _convolve(spec, layer, edges[layer], context, hidden, parameters)
        if not spec.is_last(layer):
            hidden = _activate(spec, context.arithmetic, hidden)
    if spec.head == "linear":
        product = context.arithmetic.product(hidden, parameters["head.weight"])
        hidden = _plus_bias(context.arithmetic, product, parameters["head.bias"])
    return hidden


def loss(logits: Tensor, labels: NDArray[np.integer], arithmetic: Arithmetic | None = None) -> Tensor:
    """Mean loss over labelled entries: cross entropy of classes [n], binary cross entropy of rows [n, classes]."""
    arithmetic = arithmetic or Arithmetic()
    target = torch.from_numpy(labels.astype(np.int64))
    known = target >= 0
    z, y = logits[known], target[known]
    each = _cross_entropy(z, y, arithmetic) if labels.ndim == 1 else _binary_cross_entropy(z, y, arithmetic)
    total = arithmetic.sum(each, torch.zeros_like(each, dtype=torch.int64), 1)[0]
    return arithmetic.round(total / len(each))


def _cross_entropy(z: Tensor, y: Tensor, arithmetic: Arithmetic) -> Tensor:
    """Log-softmax with the largest logit of each row [n, classes] subtracted, at the labels, negated."""
    shifted = arithmetic.round(z - z.detach().amax(1, keepdim=True))
    exponents = arithmetic.exp(shifted).sum(1)
    normaliser = arithmetic.round(torch.log(arithmetic.round(exponents)))
    return arithmetic.round(normaliser - shifted[torch.arange(len(y)), y])


def _binary_cross_entropy(z: Tensor, y: Tensor, arithmetic: Arithmetic) -> Tensor:
    """``max(z, 0) - y z + log(1 + exp(-|z|))``; the logarithm's error is that of ``1 + exp(-|z|)``."""
    one, positive, y = arithmetic.round(torch.ones_like(z)), z > 0, y.to(z.dtype)
    tail = torch.log1p(arithmetic.exp(torch.where(positive, -z, z)) + (one - 1.0))
    linear = arithmetic.round(torch.where(positive, z, 0.0)) - arithmetic.round(y * z)
    return arithmetic.round(linear + arithmetic.round(tail))


def logits_and_loss(
    graph: Graph,
    spec: ModelSpec,
    parameters: dict[str, Tensor],
    targets: NDArray[np.int64],
    seed: int = 0,
    arithmetic: Arithmetic | None = None,
    masks: Masks | None = None,
) -> tuple[Tensor, Tensor]:
    """Logits [targets, classes] and loss of one batch of targets."""
    if graph.labels is None:
        raise ValueError(f"data set {graph.name} has no labels: a loss needs them")
    arithmetic = arithmetic or Arithmetic()
    rows = torch.from_numpy(np.ascontiguousarray(targets))
    logits = arithmetic.gather(forward(graph, spec, parameters, seed, arithmetic, masks), rows)
    return logits, loss(logits, graph.labels[targets], arithmetic)


def loss_and_gradients(
    graph: Graph,
    spec: ModelSpec,
    state: State,
    targets: NDArray[np.int64],
    seed: int = 0,
    arithmetic: Arithmetic | None = None,
    masks: Masks | None = None,
) -> tuple[Floats, float, dict[str, Floats]]:
    """Return logits [targets, classes], loss and the gradient of every canonical parameter, in float64 by default."""
    arithmetic = arithmetic or Arithmetic()
    operands = _operands(state, arithmetic)
    logits, value = logits_and_loss(graph, spec, _rounded(operands, arithmetic), targets, seed, arithmetic, masks)
    value.backward()
    zero = {name: np.zeros(operand.shape) for name, operand in operands.items()}
    gradients = {name: zero[name] if p.grad is None else p.grad.numpy() for name, p in operands.items()}
    return logits.detach().numpy(), float(value.detach()), gradients


def scores(
    graph: Graph,
    spec: ModelSpec,
    state: State,
    targets: NDArray[np.int64],
    seed: int = 0,
    arithmetic: Arithmetic | None = None,
    masks: Masks | None = None,
) -> Floats:
    """Return the logits [targets, classes] alone, in float64 by default."""
    arithmetic = arithmetic or Arithmetic()
    with torch.no_grad():
        parameters = _rounded(_operands(state, arithmetic), arithmetic)
        return forward(graph, spec, parameters, seed, arithmetic, masks).numpy()[targets]


def _operands(arrays: State, arithmetic: Arithmetic) -> dict[str, Tensor]:
    """Arrays as leaves of a computation in an arithmetic."""
    return {name: torch.tensor(value, dtype=arithmetic.dtype).requires_grad_() for name, value in arrays.items()}


def _rounded(operands: dict[str, Tensor], arithmetic: Arithmetic) -> dict[str, Tensor]:
    return {name: arithmetic.round(operand) for name, operand in operands.items()}


def products(
    graph: Graph, spec: ModelSpec, seed: int, arithmetic: Arithmetic | None = None
) -> tuple[Floats, dict[str, Floats]]:
    """Output and gradients that scenario ``spmm`` should compute from the operands of ``seed``."""
    arithmetic, edges = arithmetic or Arithmetic(), _Edges(graph, spec.name)
    drawn = draw_operands(graph.nodes, graph.nodes, spec, seed)
    gradient = torch.from_numpy(drawn.pop("gradient")).to(arithmetic.dtype)
    operands = _operands(drawn, arithmetic)
    rounded = _rounded(operands, arithmetic)
    if spec.name == "gat":
        arguments = rounded["x"], rounded["score_src"], rounded["score_dst"], spec.slope
        out = _attend(edges, _Context(arithmetic), 0, *arguments)
    else:
        out = (_normalised_sum if spec.name == "gcn" else _mean)(edges, arithmetic, rounded["x"])
    gradients = torch.autograd.grad(out, list(operands.values()), gradient)
    return out.detach().numpy(), {name: value.numpy() for name, value in zip(operands, gradients, strict=True)}
