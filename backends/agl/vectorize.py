"""Vectorisation (AGL, section 3.3.1): the layer matrices of a model from a neighbourhood, with loops and weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.agl.flat.reader import EncodedRecords
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.flat.source import add_weights
from backends.base.layered import LayerMatrix
from backends.base.sparse_rows import Rows
from backends.kernels import Neighbourhood, layer_blocks
from backends.kernels.graphfeatures import MergedRecords
from backends.kernels.loops import with_self_loops
from datasets.adjacency import SELF_LOOP_MODELS
from datasets.csr import Csr
from datasets.graph import Graph

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EdgeValues:
    """What layers read beside embeddings: a value of each node [nodes], weights [edges], features [edges, width].

    ``None`` is what the model does not read or the data do not have; nodes are those of the neighbourhood.
    """

    nodes: Floats | None = None
    weights: Floats | None = None
    features: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, graph: Graph, builder: "LayerBuilder") -> "EdgeValues":
        """The values of a whole graph that a builder reads."""
        nodes = builder.node_values(whole_degrees(graph)) if builder.reads_degrees else None
        weights = graph.edge_weights if builder.reads_weights else None
        return cls(nodes, weights, graph.edge_features if builder.reads_features else None)

    def weight_of(self, positions: Positions | None) -> Tensor | None:
        """Weights of the edges at some positions, 1 of a self loop at position -1."""
        return self._of(self.weights, positions, 1.0)

    def features_of(self, positions: Positions | None) -> Tensor | None:
        """Features of the edges at some positions, 0 of a self loop at position -1."""
        return self._of(self.features, positions, 0.0)

    @staticmethod
    def _of(values: Floats | None, positions: Positions | None, of_loops: float) -> Tensor | None:
        if values is None or positions is None:
            return None
        out = np.full((len(positions), *values.shape[1:]), of_loops, dtype=np.float32)
        is_edge = positions >= 0
        out[is_edge] = values[positions[is_edge]]
        return torch.from_numpy(out)


@dataclass(frozen=True, eq=False)
class NodeValues:
    """What a builder's layers read of each node, computed for the nodes that are looked up, whatever the graph's size.

    ``sums`` [nodes] are of the weights of in-edges, a mapped file; without them in-degrees come from ``indptr``.
    """

    builder: "LayerBuilder"
    indptr: NDArray[np.integer]
    sums: NDArray[np.float64] | None

    @classmethod
    def of(cls, graph: Graph, builder: "LayerBuilder", sums: NDArray[np.float64] | None = None) -> "NodeValues | None":
        """The values of a whole graph, ``None`` where the builder reads none."""
        return cls(builder, graph.csr.indptr, sums) if builder.reads_degrees else None

    def __getitem__(self, nodes: Positions) -> Floats:
        degrees = self.indptr[nodes + 1] - self.indptr[nodes] if self.sums is None else self.sums[nodes]
        return self.builder.node_values(degrees)


class LayerBuilder:
    """Builds the layer matrices of gcn, sage and gat from sampled edges: self loops, and gcn's symmetric weights.

    ``reads_*`` say which ``EdgeValues`` it needs; ``reads_in_place``, whether a first layer may read the features of
    all nodes where they lie, in place of a copy of its rows. Self loops are added after sampling, so that every node
    has its own.
    """

    reads_in_place = True

    def __init__(self, model: str, edge_width: int = 0) -> None:
        self.loops = model in SELF_LOOP_MODELS
        self.reads_degrees = self.reads_weights = model == "gcn"
        self.reads_features = edge_width > 0

    def node_values(self, degrees: Floats) -> Floats:
        """``D^-1/2`` from in-degrees of the whole graph, D those of A + I; 0 where it is not positive."""
        total = np.asarray(1.0 + degrees, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale: Floats = np.where(total > 0, total**-0.5, 0.0)
        return scale

    def matrix(self, csr: Csr, positions: Positions | None, values: EdgeValues) -> LayerMatrix:
        """The matrix of a layer whose rows are its first columns; ``positions`` [nnz] index the edges' values."""
        if not self.loops:
            return LayerMatrix(csr)
        if values.nodes is None:
            features = values.features_of(with_loops(csr, positions))
            return LayerMatrix(with_self_loops(csr)[0], features=features)
        looped, weight = with_self_loops(csr, values.nodes[: csr.shape[1]], values.weights, positions)
        assert weight is not None
        return LayerMatrix(looped, torch.from_numpy(weight))


def with_loops(csr: Csr, positions: Positions | None) -> Positions | None:
    """Positions of a matrix's edges after ``with_self_loops``, -1 for a loop."""
    return None if positions is None else np.insert(positions, csr.indptr[:-1], -1)


def matrices(neighbourhood: Neighbourhood, builder: LayerBuilder, form: str, values: EdgeValues) -> list[LayerMatrix]:
    """Return each layer's matrix, first layer first; ``values.nodes`` are those of the neighbourhood."""
    blocks = layer_blocks(neighbourhood, len(neighbourhood.fanouts), form)
    return [builder.matrix(block.csr, block.positions, values) for block in blocks]


def matrices_of_records(
    records: EncodedRecords, builder: LayerBuilder, strategy: SamplingStrategy, form: str
) -> tuple[MergedRecords, Rows, list[LayerMatrix]]:
    """Merge records; return them, their nodes' features and each layer's matrix."""
    merged, features, values = merged_records(
        records, builder, strategy.fanouts, form == "tight", builder.reads_features
    )
    return merged, features, matrices(merged.neighbourhood, builder, form, values)


def merged_records(
    records: EncodedRecords,
    builder: LayerBuilder,
    fanouts: tuple[int | None, ...],
    needed: bool = False,
    edge_features: bool = True,
) -> tuple[MergedRecords, Rows, EdgeValues]:
    """Merge records with the columns that a builder reads; with ``needed`` only the edges that some layer reads."""
    merged, features = records.merge(fanouts, needed, builder.reads_degrees, builder.reads_weights, edge_features)
    nodes = None if merged.degrees is None else builder.node_values(merged.degrees)
    return merged, features, EdgeValues(nodes, merged.edge_weights, merged.edge_features)


def whole_degrees(graph: Graph) -> Floats:
    """In-degree of each node, the sum of the weights where edges have some."""
    return graph.csr.in_degrees if graph.edge_weights is None else add_weights(graph, np.zeros(graph.nodes))
