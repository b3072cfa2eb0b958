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


class UserNetwork(Network):
    """The layers of a user's model in order; parameters have the names that the module gives them."""

    def make_parameters(self) -> None:
        """Build the user's module."""
        assert isinstance(self.spec, UserModelSpec)
        self.module = self.spec.build()

    def canonical(self) -> dict[str, tuple[nn.Parameter, bool]]:
        """The module's parameters."""
        return {name: (parameter, False) for name, parameter in self.module.named_parameters()}

    def forward(self, features: Rows, structure: Any, nodes: Tensor | None = None) -> Tensor:
        """Compute the logits of all output rows of the last layer; passes of training draw from ``generator``."""
        assert isinstance(self.spec, UserModelSpec)
        with drawing_from(self.generator if self.training and self.spec.draws else None):
            return self._logits(self.spec, features, structure)

    def _logits(self, spec: UserModelSpec, features: Rows, structure: Any) -> Tensor:
        hidden = dense_rows(features)
        for number, (layer, edges) in enumerate(zip(self.module.layers, structure, strict=True)):
            rows, columns = edges.csr.shape
            hidden = prefix(hidden, columns)
            with spec.running(f"layers[{number}].send"):
                sent = layer.send(hidden)
            hidden = received(spec, number, layer, prefix(hidden, rows), sent, edges)
        return self.logits_of(hidden)

    def logits_of(self, hidden: Tensor) -> Tensor:
        """Apply the module's head, if it has one."""
        assert isinstance(self.spec, UserModelSpec)
        return logits_of_head(self.spec, getattr(self.module, "head", None), hidden)


class UserSlice:
    """One slice of a user's model: a layer, or the head (AGL, section 3.4)."""

    def __init__(self, spec: UserModelSpec, part: nn.Module | None) -> None:
        self.spec, self.part = spec, part

    def send(self, layer: int, hidden: Rows, rows: int | Tensor) -> tuple[Parts, Parts]:
        """Tensors that nodes send along their out-edges, and the embedding that the first ``rows`` keep."""
        assert self.part is not None and isinstance(rows, int)
        embeddings = dense_rows(hidden)
        with self.spec.running(f"layers[{layer}].send"):
            sent = self.part.send(embeddings)
        return sent if isinstance(sent, dict) else {MESSAGE: sent}, {OWN: prefix(embeddings, rows)}

    def receive(self, layer: int, sent: Parts, own: Parts, matrix: LayerMatrix, activation: str = "none") -> Tensor:
        """The layer's output [rows, width]; the user's layer has its activation inside."""
        assert self.part is not None
        message = sent[MESSAGE] if set(sent) == {MESSAGE} else sent
        return received(self.spec, layer, self.part, own[OWN], message, matrix)

    def logits_of(self, hidden: Tensor) -> Tensor:
        """Apply the head, if there is one."""
        return logits_of_head(self.spec, self.part, hidden)


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


def received(spec: UserModelSpec, number: int, layer: Any, hidden: Tensor, sent: Any, edges: LayerMatrix) -> Tensor:
    """What a user's layer receives; raises UserModelError where it fails, or returns other rows than in its trial."""
    name, shape = f"layers[{number}].receive", (edges.csr.shape[0], spec.width_out(number))
    with spec.running(name):
        out: Tensor = layer.receive(hidden, sent, edges)
    if not isinstance(out, Tensor) or out.dtype != torch.float32 or tuple(out.shape) != shape:
        what = f"{out.dtype} {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        spec.refuse(f"{name} returns {what}: it returns float32 {shape} for these edges, whatever they are")
    return out


def logits_of_head(spec: UserModelSpec, head: Any, hidden: Tensor) -> Tensor:
    """Apply a user's head, if there is one; raises UserModelError where it fails."""
    with spec.running("head"):
        logits: Tensor = hidden if head is None else head(hidden)
    return logits


def user_slices(spec: UserModelSpec, state: State) -> list[UserSlice]:
    """One slice per layer and the head's, each with its own parameters alone."""
    module = spec.build().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(False).copy_(torch.from_numpy(state[name].copy()))
    parts = [*module.layers, getattr(module, "head", None)]
    return [UserSlice(spec, part) for part in parts]


def dense_rows(rows: Rows) -> Tensor:
    """Embeddings as a tensor: a user's layer reads dense rows, of a batch or a partition at a time."""
    return rows.dense() if isinstance(rows, SparseRows) else rows
