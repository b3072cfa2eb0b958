"""A user's model as network and as K + 1 slices, and the in-edges that its layers receive messages along."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from backends.agl.user_model import UserModelSpec
from backends.agl.vectorize import EdgeValues, LayerBuilder, with_loops
from backends.base.layered import LayerMatrix, Parts
from backends.base.network import Network
from backends.base.sparse_rows import Rows, SparseRows, prefix
from backends.kernels import edge_softmax, gat, spmm
from backends.kernels.loops import with_self_loops
from backends.model import State
from datasets.csr import Csr

MESSAGE, OWN = "_", "h"  # the names of a message without one, which no user gives, and of a row's own embedding
DRAWING = Lock()  # torch draws for all threads of a process from one generator


@dataclass
class Edges(LayerMatrix):
    """In-edges of the nodes that a layer computes, ``rows``; they start at the ``columns`` that sent messages.

    ``weight`` [edges] and ``features`` [edges, width] are those of the data, ``None`` where it has none. ``degrees``
    [rows] and ``source_degrees`` [columns] are in-degrees of the whole graph before filter and sampling, sums of
    weights where edges have some. Edges stand by row; sums over them have no write conflicts (AGL, section 3.3.2), and
    all methods are differentiable.
    """

    degrees: Tensor | None = None
    source_degrees: Tensor | None = None

    @cached_property
    def sources(self) -> Tensor:
        """The column that each edge starts at, int64 [edges]."""
        return torch.from_numpy(np.asarray(self.csr.indices, dtype=np.int64))

    @cached_property
    def destinations(self) -> Tensor:
        """The row that each edge ends at, int64 [edges]."""
        return torch.from_numpy(np.asarray(self.csr.destinations, dtype=np.int64))

    def sum(self, messages: Tensor, weight: Tensor | None = None) -> Tensor:
        """Sum the messages [columns, ...] of each row's in-neighbours, times ``weight`` [edges] if given."""
        return self._aggregated(self.csr, messages, weight, "sum")

    def mean(self, messages: Tensor) -> Tensor:
        """Mean of the messages [columns, ...] of each row's in-neighbours, 0 for a row without any."""
        return self._aggregated(self.csr, messages, None, "mean")

    def max(self, messages: Tensor) -> Tensor:
        """Largest entries of the messages [columns, ...] of each row's in-neighbours, 0 for a row without any."""
        return self._aggregated(self.csr, messages, None, "max")

    def reduce(self, values: Tensor, reduce: str = "sum") -> Tensor:
        """Sum, mean or max of values per edge [edges, ...] over each row's in-edges: [rows, ...]."""
        return self._aggregated(self._by_edge, values, None, reduce)

    def softmax(self, logits: Tensor) -> Tensor:
        """Softmax of logits [edges] or [edges, heads] over each row's in-edges."""
        if logits.dim() == 1:
            return edge_softmax(self.csr, logits[:, None])[:, 0]
        return edge_softmax(self.csr, logits)

    def attention(
        self,
        z: Tensor,
        source_scores: Tensor,
        own_scores: Tensor,
        edge_scores: Tensor | None = None,
        slope: float = 0.2,
        dropout: float = 0.0,
    ) -> Tensor:
        """GAT's attention, fused: softmax of LeakyReLU of the scores' sum, times ``z``: [rows, heads, width].

        ``z`` is [columns, heads, width], scores are [columns, heads], [rows, heads] and [edges, heads].
        """
        out: Tensor = gat(self.csr, z, source_scores, own_scores, edge_scores, slope=slope, dropout=dropout)
        return out

    @cached_property
    def _by_edge(self) -> Csr:
        """The matrix whose columns are the edges themselves."""
        edges = self.csr.nnz
        return Csr(self.csr.indptr, np.arange(edges, dtype=self.csr.indices.dtype), (self.csr.shape[0], edges))

    @staticmethod
    def _aggregated(csr: Csr, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
        out = spmm(csr, x.reshape(len(x), math.prod(x.shape[1:])), weight, reduce)
        return out.reshape(len(out), *x.shape[1:])


class EdgesBuilder(LayerBuilder):
    """Builds the ``Edges`` of a user's layers, with self loops where the model wants them."""

    reads_in_place = False  # the rows of a user's layer are its first columns

    def __init__(self, reads: tuple[str, ...], loops: bool) -> None:
        self.loops = loops
        self.reads_degrees, self.reads_weights, self.reads_features = (
            name in reads for name in ("degrees", "weight", "features")
        )

    def node_values(self, degrees: np.ndarray) -> np.ndarray:
        """In-degrees as the layers read them."""
        return np.asarray(degrees, dtype=np.float32)

    def matrix(self, csr: Csr, positions: np.ndarray | None, values: EdgeValues) -> LayerMatrix:
        """The edges of a layer whose rows are its first columns."""
        rows, columns = csr.shape
        if self.loops:
            positions = with_loops(csr, positions)
            csr = with_self_loops(csr)[0]
        degrees = None if values.nodes is None else torch.from_numpy(values.nodes[:columns])
        own = None if degrees is None else degrees[:rows]
        return Edges(csr, values.weight_of(positions), features=values.features_of(positions), degrees=own,
                     source_degrees=degrees)  # fmt: skip


class UserSlice:
    """One slice of a user's model: a layer, or the head, if there is one (AGL, section 3.4).

    Its methods raise UserModelError where the user's code fails.
    """

    def __init__(self, spec: UserModelSpec, part: Any) -> None:
        self.spec, self.part = spec, part

    def send(self, layer: int, hidden: Rows, rows: int | Tensor) -> tuple[Parts, Parts]:
        """Tensors that nodes send along their out-edges, and the embedding that the first ``rows`` keep."""
        assert isinstance(rows, int)
        embeddings = dense_rows(hidden)
        with self.spec.running(f"layers[{layer}].send"):
            sent = self.part.send(embeddings)
        return sent if isinstance(sent, dict) else {MESSAGE: sent}, {OWN: prefix(embeddings, rows)}

    def receive(self, layer: int, sent: Parts, own: Parts, matrix: LayerMatrix, activation: str = "none") -> Tensor:
        """The layer's output [rows, width], of the shape of its trial; its activation is inside."""
        name, shape = f"layers[{layer}].receive", (matrix.csr.shape[0], self.spec.width_out(layer))
        message = sent[MESSAGE] if set(sent) == {MESSAGE} else sent
        with self.spec.running(name):
            out: Tensor = self.part.receive(own[OWN], message, matrix)
        if not isinstance(out, Tensor) or out.dtype != torch.float32 or tuple(out.shape) != shape:
            self.spec.refuse(
                f"{name} returns {kind_of(out)}: it returns float32 {shape} for these edges, whatever they are"
            )
        return out

    def logits_of(self, hidden: Tensor) -> Tensor:
        """Apply the head, if there is one."""
        with self.spec.running("head"):
            logits: Tensor = hidden if self.part is None else self.part(hidden)
        return logits


def kind_of(value: Any) -> str:
    """What a user's code returned, as text: type and shape of a tensor."""
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def slices_of(spec: UserModelSpec, module: nn.Module) -> list[UserSlice]:
    """One slice per layer of a user's module, and the head's."""
    return [UserSlice(spec, part) for part in (*module.layers, getattr(module, "head", None))]


class UserNetwork(Network):
    """The layers of a user's model in order; parameters have the names that the module gives them."""

    def make_parameters(self) -> None:
        """Build the user's module."""
        assert isinstance(self.spec, UserModelSpec)
        self.module = self.spec.build()
        self.draws, self.slices = self.spec.draws, slices_of(self.spec, self.module)

    def canonical(self) -> dict[str, tuple[nn.Parameter, bool]]:
        """The module's parameters."""
        return {name: (parameter, False) for name, parameter in self.module.named_parameters()}

    def forward(self, features: Rows, structure: Any, nodes: Tensor | None = None) -> Tensor:
        """Compute the logits of all output rows of the last layer; passes of training draw from ``generator``."""
        *layers, head = self.slices
        hidden = features
        with drawing_from(self.generator if self.training and self.draws else None):
            for number, (layer, edges) in enumerate(zip(layers, structure, strict=True)):
                rows, columns = edges.csr.shape
                sent, own = layer.send(number, prefix(hidden, columns), rows)
                hidden = layer.receive(number, sent, own, edges)
            return head.logits_of(hidden)


@contextmanager
def drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """Let torch draw from a generator for a moment, one thread at a time; ``None``: from its own, as ever."""
    if generator is None:
        yield
        return
    with DRAWING:
        own = torch.get_rng_state()
        torch.set_rng_state(generator.get_state())
        try:
            yield
        finally:
            generator.set_state(torch.get_rng_state())
            torch.set_rng_state(own)


def user_slices(spec: UserModelSpec, state: State) -> list[UserSlice]:
    """One slice per layer and the head's, with the parameters of a state, which are not trained."""
    module = spec.build().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(False).copy_(torch.from_numpy(state[name].copy()))
    return slices_of(spec, module)


def dense_rows(rows: Rows) -> Tensor:
    """Embeddings as a tensor: a user's layer reads dense rows, of a batch or a partition at a time."""
    return rows.dense() if isinstance(rows, SparseRows) else rows
