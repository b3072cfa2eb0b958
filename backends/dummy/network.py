"""gcn, sage and gat with their gradients in numpy, float64 inside: small, slow and right."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.model import ModelSpec, State
from datasets.adjacency import adjacency_of
from datasets.features import dense_features
from datasets.graph import Graph

Array = NDArray[np.float64]
Parameters = dict[str, Array]


@dataclass(frozen=True)
class NumpyEdges:
    """The matrix of a model, by destination and by source."""

    graph: Graph
    model: str

    @cached_property
    def adjacency(self) -> Any:
        """Self loops and gcn's weights included."""
        return adjacency_of(self.graph, self.model)

    @property
    def source(self) -> NDArray[np.integer]:
        """Source of each edge."""
        return self.adjacency.csr.indices  # type: ignore[no-any-return]

    @property
    def destination(self) -> NDArray[np.integer]:
        """Destination of each edge."""
        return self.adjacency.csr.destinations  # type: ignore[no-any-return]

    @cached_property
    def weight(self) -> Array:
        """Gcn's normalised weights, one over the in-degree for sage, [edges, 1]."""
        if self.adjacency.weight is not None:
            return self.adjacency.weight.astype(np.float64)[:, None]  # type: ignore[no-any-return]
        return 1.0 / self.adjacency.csr.in_degrees[self.destination][:, None]  # type: ignore[no-any-return]

    def to_destinations(self, values: Array) -> Array:
        """Add edge values [edges, ...] up at their destinations."""
        return _sum(self.adjacency.csr.indptr, values)

    def to_sources(self, values: Array) -> Array:
        """Add edge values [edges, ...] up at their sources."""
        transpose, permutation = self.adjacency.csr.transpose
        return _sum(transpose.indptr, values[permutation])


def _sum(indptr: NDArray[np.integer], values: Array) -> Array:
    out = np.zeros((len(indptr) - 1, *values.shape[1:]))
    filled = np.diff(indptr) > 0
    if filled.any():
        out[filled] = np.add.reduceat(values, indptr[:-1][filled], axis=0)
    return out


@dataclass(frozen=True)
class Dropout:
    """Masks of 0 and ``1 / (1 - rate)``, drawn from a generator; without one nothing is dropped."""

    generator: np.random.Generator | None = None
    input_rate: float = 0.0
    attention_rate: float = 0.0

    def input(self, shape: tuple[int, ...]) -> Array:
        """Mask of a layer's input."""
        return self._mask(shape, self.input_rate)

    def attention(self, shape: tuple[int, ...]) -> Array:
        """Mask of normalised scores."""
        return self._mask(shape, self.attention_rate)

    def _mask(self, shape: tuple[int, ...], rate: float) -> Array:
        if self.generator is None or rate == 0:
            return np.ones(shape)
        return np.asarray(self.generator.random(shape) >= rate) / (1.0 - rate)


class Gcn:
    """One gcn layer."""

    def forward(self, edges: NumpyEdges, hidden: Array, p: Parameters) -> Array:
        """Return ``A H W + b``."""
        self.saved = edges, hidden, p
        return edges.to_destinations(edges.weight * (hidden @ p["weight"])[edges.source]) + p["bias"]

    def backward(self, above: Array) -> tuple[Array, Parameters]:
        """Return the gradients of the input and of the parameters."""
        edges, hidden, p = self.saved
        z = edges.to_sources(edges.weight * above[edges.destination])
        return z @ p["weight"].T, {"weight": hidden.T @ z, "bias": above.sum(axis=0)}


class Sage:
    """One sage layer."""

    def forward(self, edges: NumpyEdges, hidden: Array, p: Parameters) -> Array:
        """Return ``H W_self + mean(H) W_neigh + b``."""
        mean = edges.to_destinations(edges.weight * hidden[edges.source])
        self.saved = edges, hidden, mean, p
        return hidden @ p["weight_self"] + mean @ p["weight_neigh"] + p["bias"]

    def backward(self, above: Array) -> tuple[Array, Parameters]:
        """Return the gradients of the input and of the parameters."""
        edges, hidden, mean, p = self.saved
        through = (above @ p["weight_neigh"].T)[edges.destination]
        below = above @ p["weight_self"].T + edges.to_sources(edges.weight * through)
        return below, {"weight_self": hidden.T @ above, "weight_neigh": mean.T @ above, "bias": above.sum(axis=0)}


class Gat:
    """One gat layer; ``average`` joins the heads by their mean."""

    def __init__(self, slope: float, average: bool, dropout: "Dropout") -> None:
        self.slope, self.average, self.dropout = slope, average, dropout

    def forward(self, edges: NumpyEdges, hidden: Array, p: Parameters) -> Array:
        """Return the joined heads, each an attention-weighted sum of ``H W``."""
        heads, width = p["att_src"].shape
        z = (hidden @ p["weight"]).reshape(-1, heads, width)
        score = (z * p["att_src"]).sum(-1)[edges.source] + (z * p["att_dst"]).sum(-1)[edges.destination]
        leaky = np.where(score > 0, score, self.slope * score)
        # One shift for all rows is enough: the scores of a small network stay in the range of exp.
        exponent = np.exp(leaky - leaky.max(initial=0.0))
        share = exponent / edges.to_destinations(exponent)[edges.destination]
        mask = self.dropout.attention(share.shape)
        out = edges.to_destinations((share * mask)[:, :, None] * z[edges.source])
        self.saved = edges, hidden, p, z, score, share, mask
        return (out.mean(axis=1) if self.average else out.reshape(len(out), -1)) + p["bias"]

    def backward(self, above: Array) -> tuple[Array, Parameters]:
        """Return the gradients of the input and of the parameters."""
        edges, hidden, p, z, score, share, mask = self.saved
        heads, width = p["att_src"].shape
        out = np.repeat(above[:, None] / heads, heads, axis=1) if self.average else above.reshape(-1, heads, width)
        at_edge = out[edges.destination]
        share_gradient = mask * (at_edge * z[edges.source]).sum(-1)
        mean = edges.to_destinations(share * share_gradient)[edges.destination]
        leaky = share * (share_gradient - mean) * np.where(score > 0, 1.0, self.slope)
        source, destination = edges.to_sources(leaky)[:, :, None], edges.to_destinations(leaky)[:, :, None]
        dz = edges.to_sources((share * mask)[:, :, None] * at_edge) + source * p["att_src"] + destination * p["att_dst"]
        flat = dz.reshape(len(dz), -1)
        gradients = {"weight": hidden.T @ flat, "bias": above.sum(axis=0)}
        gradients |= {"att_src": (source * z).sum(axis=0), "att_dst": (destination * z).sum(axis=0)}
        return flat @ p["weight"].T, gradients


class NumpyNetwork:
    """All layers of a model on one graph."""

    def __init__(self, graph: Graph, spec: ModelSpec) -> None:
        assert graph.features is not None
        self.spec, self.edges = spec, NumpyEdges(graph, spec.name)
        self.features = dense_features(graph.features, "backend dummy").astype(np.float64)

    def forward(self, state: State, dropout: Dropout | None = None) -> Array:
        """Return logits [nodes, classes]; without ``dropout`` nothing is dropped."""
        self.dropout = dropout or Dropout()
        self.masks: list[Array] = []
        self.parameters = {name: value.astype(np.float64) for name, value in state.items()}
        self.layers: list[Any] = []
        self.before: list[Array] = []
        hidden = self.features
        for index in range(self.spec.layers):
            self.masks.append(self.dropout.input(hidden.shape))
            hidden = self._layer(index).forward(self.edges, hidden * self.masks[-1], self._parameters(index))
            self.before.append(hidden)
            if not self.spec.is_last(index):
                hidden = _activation(self.spec.activation(), hidden)
        if self.spec.head == "linear":
            return hidden @ self.parameters["head.weight"] + self.parameters["head.bias"]
        return hidden

    def backward(self, above: Array) -> Parameters:
        """Return the gradients of all parameters from that of the logits."""
        gradients: Parameters = {}
        if self.spec.head == "linear":
            gradients = {"head.weight": self.before[-1].T @ above, "head.bias": above.sum(axis=0)}
            above = above @ self.parameters["head.weight"].T
        for index in reversed(range(self.spec.layers)):
            if not self.spec.is_last(index):
                above = above * _slope(self.spec.activation(), self.before[index])
            above, layer_gradients = self.layers[index].backward(above)
            above = above * self.masks[index]
            gradients |= {f"layers.{index}.{name}": value for name, value in layer_gradients.items()}
        return gradients

    def _layer(self, index: int) -> Any:
        kinds = {"gcn": Gcn, "sage": Sage}
        last = self.spec.is_last(index)
        is_gat = self.spec.name == "gat"
        self.layers.append(Gat(self.spec.slope, last, self.dropout) if is_gat else kinds[self.spec.name]())
        return self.layers[-1]

    def _parameters(self, index: int) -> Parameters:
        prefix = f"layers.{index}."
        return {name.removeprefix(prefix): value for name, value in self.parameters.items() if name.startswith(prefix)}


def _activation(name: str, value: Array) -> Array:
    return np.maximum(value, 0) if name == "relu" else np.where(value > 0, value, np.expm1(np.minimum(value, 0)))


def _slope(name: str, value: Array) -> Array:
    return (value > 0).astype(np.float64) if name == "relu" else np.where(value > 0, 1.0, np.exp(np.minimum(value, 0)))


def loss_and_gradient(logits: Array, labels: NDArray[np.integer]) -> tuple[float, Array]:
    """Mean loss over the known labels and its gradient: cross entropy [n], binary cross entropy [n, classes]."""
    known = labels >= 0
    if labels.ndim == 2:
        share = 1.0 / max(1, int(known.sum()))
        each = np.logaddexp(0.0, logits) - labels * logits
        return float(each[known].sum() * share), np.where(known, (1.0 / (1.0 + np.exp(-logits)) - labels) * share, 0.0)
    log = logits - logits.max(axis=1, keepdims=True)
    log = log - np.log(np.exp(log).sum(axis=1, keepdims=True))
    share, rows = 1.0 / max(1, int(known.sum())), np.flatnonzero(known)
    gradient = np.exp(log) * known[:, None]
    gradient[rows, labels[rows]] -= 1.0
    return float(-log[rows, labels[rows]].sum() * share), gradient * share
