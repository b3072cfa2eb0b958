"""Network and trainer over our kernels: one matrix per layer, aggregated at the narrower of a layer's two widths."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.base.network import Network
from backends.base.propagation import propagated
from backends.base.sparse_rows import Rows, dropped, prefix, product, product_pair, projected
from backends.kernels import (
    Mask,
    attention_key,
    bias_activation,
    dense,
    gat,
    gat_layer,
    head_products,
    mask_key,
    spmm,
    spmm_layer,
)
from backends.kernels.operand import unpartitioned
from backends.kernels.rows import MatrixRows, spmm_with_own
from backends.model import ModelSpec, TrainingSpec
from datasets.csr import Csr

Parts = dict[str, Tensor]
AGGREGATIONS = ("partitioned", "serial", "scattered")
_ATTENTION = 6  # multiply-adds of a dense layer that take as long as one of an edge
_EPILOGUE = 64  # multiply-adds of a dense layer that take as long as an entry of an epilogue of its own, both ways
_NARROW = 16  # columns of a product, or of an edge's row, that take about as long as reading its input
_SCORES = 16  # columns of a dense product that take as long as the two columns of scores


@dataclass
class LayerMatrix:
    """The matrix of one layer: its edges, and gcn's weights [nnz].

    ``own_columns`` [rows] is the column of each row's own node; ``None``: columns begin with the rows. ``origin`` is
    the larger matrix that the rows were copied from, if any. ``features`` [nnz, width] are those of the edges, where
    the model reads them.
    """

    csr: Csr
    weight: Tensor | None = None
    own_columns: Tensor | None = None
    origin: MatrixRows | None = None
    features: Tensor | None = None


class LayeredNetwork(Network):
    """Layers whose rows and columns are prefixes of the batch's nodes (AGL, section 3.3.2, ``adj_list``).

    ``aggregation`` is one of ``AGGREGATIONS``: rows partitioned over the threads; the same kernels on one thread; or
    messages that torch scatters one by one.
    """

    def __init__(
        self, spec: ModelSpec, training: TrainingSpec, aggregation: str = "partitioned", sparse_input: bool = False
    ) -> None:
        super().__init__(spec, training)
        self.aggregation, self.sparse_input = aggregation, sparse_input
        self.row_parallel = aggregation != "scattered"
        self.reduce = "mean" if spec.name == "sage" else "sum"
        self.fuses = True  # whether an aggregation is whole, so that what follows can be fused with it

    def forward(self, features: Rows, structure: Any, nodes: Tensor | None = None) -> Tensor:
        """Compute the logits of all output rows of the last layer.

        ``nodes`` numbers the input rows for the masks of dropout, ``None``: by position.
        """
        hidden = self.inputs_of(features, structure[0])
        mask = self._mask(0, nodes, len(hidden))
        hidden = hidden if mask is None else dropped(hidden, mask)
        if self.spec.propagates:
            return self.logits_of(propagated(self, hidden, partial(self.propagate, structure=structure)))
        for layer, matrix in enumerate(structure):
            if mask is not None:
                nodes = row_nodes(nodes, matrix)
                mask = self._mask(layer + 1, nodes, matrix.csr.shape[0])
            hidden = self.layer(layer, hidden, structure, mask)
        return self.logits_of(hidden)

    def inputs_of(self, features: Rows, matrix: LayerMatrix) -> Rows:
        """The rows that a layer reads: as many as its matrix has columns."""
        rows: Rows = prefix(features, matrix.csr.shape[1])
        return rows

    def _mask(self, layer: int, nodes: Tensor | None, rows: int) -> Mask | None:
        """The mask that drops entries of a layer's input, ``None`` where nothing is dropped."""
        if not self.training or self.settings.dropout == 0 or layer == self.spec.layers:
            return None
        key = mask_key(self.settings.seed, self.epoch, layer)
        return Mask(self.settings.dropout, key, None if nodes is None else prefix(nodes, rows))

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """Apply one convolution, without activation, to the matrix's columns; returns [rows, width]."""
        return self._convolve(layer, hidden, structure, "none")

    def layer(self, layer: int, hidden: Rows, structure: Any, mask: Mask | None = None) -> Tensor:
        """Apply one convolution with its activation, and the ``mask`` of the next layer's input.

        Bias, activation and dropout are fused with the operation before them.
        """
        activation = "none" if self.spec.is_last(layer) else self.spec.activation()
        return self._convolve(layer, hidden, structure, activation, mask)

    def _convolve(self, layer: int, hidden: Rows, structure: Any, activation: str, mask: Mask | None = None) -> Tensor:
        matrix = self.in_form(structure[layer])
        rows = matrix.csr.shape[0]
        hidden = self.inputs_of(hidden, matrix)
        if not self._is_sparse(layer) and attends_first(self.spec, layer, matrix.csr):
            return self._attend_first(layer, hidden, matrix, activation, mask)
        if self._uses_origin(layer, hidden, matrix):
            return self._convolve_with_origin(layer, hidden, matrix, activation, mask)
        own = rows if matrix.own_columns is None else matrix.own_columns
        return self.receive(layer, *self.send(layer, hidden, own), matrix, activation, mask)

    def in_form(self, matrix: LayerMatrix) -> LayerMatrix:
        """The matrix as the kernels take it: whole where it is not partitioned."""
        if self.aggregation != "serial":
            return matrix
        origin = None if matrix.origin is None else replace(matrix.origin, csr=unpartitioned(matrix.origin.csr))
        return replace(matrix, csr=unpartitioned(matrix.csr), origin=origin)

    def _uses_origin(self, layer: int, hidden: Rows, matrix: LayerMatrix) -> bool:
        """Whether the gradient of an aggregated input is computed with the transpose of ``matrix.origin``."""
        return hidden.requires_grad and self.transposes_origin(layer, matrix)

    def transposes_origin(self, layer: int, matrix: LayerMatrix) -> bool:
        """Whether gradients of an aggregated input use the transpose of ``matrix.origin``, not one of the matrix."""
        if matrix.origin is None or self.spec.name == "gat" or not self.aggregates_first(layer):
            return False
        return self.row_parallel and matrix.origin.has_cheaper_transpose(matrix.csr)

    def _convolve_with_origin(
        self, layer: int, hidden: Tensor, matrix: LayerMatrix, activation: str, mask: Mask | None
    ) -> Tensor:
        """Apply a layer whose input gradient, of neighbours and own rows together, uses the origin's transpose."""
        assert matrix.origin is not None
        with_own = self.spec.name == "sage"
        gathered, own_rows = spmm_with_own(matrix.csr, hidden, matrix.weight, self.reduce, matrix.origin, with_own)
        return self._transform(layer, gathered, own_rows, activation, mask)

    def _transform(
        self, layer: int, gathered: Tensor, own_rows: Tensor | None, activation: str, mask: Mask | None
    ) -> Tensor:
        """Transform a layer's aggregated input, and the rows' own embeddings, into its output."""
        other = None if own_rows is None else (own_rows, self.parameter(layer, "weight_self"))
        bias = self.parameter(layer, "bias")
        return dense(gathered, self._sent_weight(layer), bias, activation == "relu", other, mask)

    def _attend_first(
        self, layer: int, hidden: Tensor, matrix: LayerMatrix, activation: str, mask: Mask | None
    ) -> Tensor:
        """Attend over gat's input, ``(alpha H) W`` for ``alpha (H W)``: heads share it, only rows are transformed."""
        weight, bias = (self.parameter(layer, name) for name in ("weight", "bias"))
        vectors = [self.parameter(layer, name) for name in ("att_src", "att_dst")]
        heads = self.spec.heads_of(layer)
        by_head = weight.view(-1, heads, self.spec.width_out(layer))
        scores = dense(hidden, torch.cat([(by_head * vector).sum(2) for vector in vectors], 1))
        rows = matrix.csr.shape[0] if matrix.own_columns is None else matrix.own_columns
        score_dst = select_rows(scores[:, heads:], rows)
        options = self._attention(layer, matrix)
        gathered = gat(matrix.csr, hidden[:, None], scores[:, :heads], score_dst, **options)
        if heads == 1 and activation == "none":
            return dense(gathered[:, 0], weight, bias)
        out = dense(gathered[:, 0], weight) if heads == 1 else head_products(gathered, weight)
        if self.spec.is_last(layer) and heads > 1:
            out = out.view(-1, *by_head.shape[1:]).mean(1)
        return bias_activation(out, bias, activation, fresh=True, mask=mask)

    def _attention(self, layer: int, matrix: LayerMatrix) -> dict[str, Any]:
        """Options of a layer's attention; a batch's edges without ids would share masks by position, so they draw."""
        dropout = self.settings.attention_dropout if self.training else 0.0
        has_ids = dropout > 0 and matrix.csr.edge_ids is not None
        seed: Any = attention_key(self.settings.seed, self.epoch, layer) if has_ids else None
        if dropout > 0 and seed is None and self.generator is not None:
            seed = int(torch.randint(1 << 62, (), generator=self.generator))
        options = {"slope": self.spec.slope, "dropout": dropout, "seed": seed, "row_parallel": self.row_parallel}
        return options | {"score_edge": self._edge_scores(layer, matrix)}

    def _edge_scores(self, layer: int, matrix: LayerMatrix) -> Tensor | None:
        """What features of edges add to gat's scores, [nnz, heads]: of a self loop, whose features are 0, nothing."""
        if not self.spec.edge_width:
            return None
        assert matrix.features is not None
        vectors = self.parameter(layer, "att_edge")
        weight = self.parameter(layer, "weight_edge").view(-1, *vectors.shape)
        return dense(matrix.features, (weight * vectors).sum(2))

    def send(self, layer: int, hidden: Rows, rows: int | Tensor) -> tuple[Parts, Parts]:
        """Compute the tensors that nodes send along their out-edges, and those that ``rows`` keep for themselves.

        ``rows`` is the number of first rows, or the rows' numbers. Each tensor has one row per node, which depends on
        the embedding of that node alone.
        """
        if self.spec.name == "gat":
            names = ("weight", "att_src", "att_dst")
            z, score_src, score_dst = projected(hidden, *(self.parameter(layer, name) for name in names))
            return {"z": z, "score_src": score_src}, {"score_dst": select_rows(score_dst, rows)}
        if self.spec.name == "sage" and self._is_sparse(layer):
            # selected rows of the features would be another matrix, with a transpose of its own
            weights = [self.parameter(layer, name) for name in ("weight_neigh", "weight_self")]
            x, own = product_pair(hidden, *weights, rows if isinstance(rows, int) else len(hidden))
            return {"x": x}, {"own": own if isinstance(rows, int) else select_rows(own, rows)}
        first = self.aggregates_first(layer)
        if self.spec.name == "gcn":
            return {"x": hidden if first else product(hidden, self._sent_weight(layer))}, {}
        if not first and isinstance(rows, int) and 2 * rows < len(hidden) and self.spec.width_out(layer) <= _NARROW:
            # one product of all rows: the gradient of some rows would be a copy of all, to add to the others'
            weights = torch.cat([self.parameter(layer, name) for name in ("weight_neigh", "weight_self")], 1)
            x, own = dense(hidden, weights).split(self.spec.width_out(layer), 1)
            return {"x": x.contiguous()}, {"own": own[:rows]}
        own_rows = select_rows(hidden, rows)
        sent = {"x": hidden if first else product(hidden, self._sent_weight(layer))}
        return sent, {"own": own_rows if first else dense(own_rows, self.parameter(layer, "weight_self"))}

    def receive(
        self,
        layer: int,
        sent: Parts,
        own: Parts,
        matrix: LayerMatrix,
        activation: str = "none",
        mask: Mask | None = None,
    ) -> Tensor:
        """Compute a layer's output [rows, width] from the two results of ``send``; ``mask`` drops entries of it."""
        bias = self.parameter(layer, "bias")
        if self.spec.name == "gat":
            operands = matrix.csr, sent["z"], sent["score_src"], own["score_dst"]
            options = self._attention(layer, matrix)
            if self.spec.is_last(layer) and self.spec.heads_of(layer) > 1:
                return bias_activation(gat(*operands, **options).mean(1), bias, activation, fresh=True)
            return gat_layer(*operands, bias, activation, **options, mask=mask)
        if self.aggregates_first(layer):
            return self._transform(layer, self.aggregate(matrix, sent["x"]), own.get("own"), activation, mask)
        if not self.fuses:
            gathered = self.aggregate(matrix, sent["x"])
            total = gathered + own["own"] if own else gathered
            return bias_activation(total, bias, activation, fresh=True, mask=mask)
        options = self.reduce, own.get("own"), activation, self.row_parallel, mask
        return spmm_layer(matrix.csr, sent["x"], bias, matrix.weight, *options)

    def aggregate(self, matrix: LayerMatrix, x: Tensor) -> Tensor:
        """Weighted sum (gcn) or mean (sage) over in-edges."""
        return spmm(matrix.csr, x, matrix.weight, self.reduce, self.row_parallel)

    def propagate(self, x: Tensor, structure: Any) -> Tensor:
        """Multiply by the matrix."""
        return self.aggregate(self.in_form(structure[0]), x)

    def transform(self, rows: Rows, weight: Tensor) -> Tensor:
        """Multiply input rows by a weight."""
        return product(rows, weight)

    def aggregates_first(self, layer: int) -> bool:
        """Whether a layer aggregates its input, in training or in inference as the network is now."""
        return not self._is_sparse(layer) and aggregates_first(self.spec, layer, self.training)

    def _is_sparse(self, layer: int) -> bool:
        """Whether a layer's input is sparse: it is then transformed first, as its aggregate would be dense."""
        return self.sparse_input and layer == 0

    def _sent_weight(self, layer: int) -> Tensor:
        return self.parameter(layer, "weight" if self.spec.name == "gcn" else "weight_neigh")


def row_nodes(nodes: Tensor | None, matrix: LayerMatrix) -> Tensor | None:
    """The numbers of a matrix's rows from those of its columns; ``None``: by position."""
    if matrix.own_columns is None:
        return nodes
    return matrix.own_columns if nodes is None else nodes.index_select(0, matrix.own_columns)


def select_rows(x: Any, rows: int | Tensor) -> Any:
    """The first ``rows`` rows, or the rows with the numbers ``rows``."""
    return prefix(x, rows) if isinstance(rows, int) else x.index_select(0, rows)


def aggregates_first(spec: ModelSpec, layer: int, training: bool) -> bool:
    """Whether a layer aggregates its input: it does unless its output is narrower.

    In training the first layer does so even where its input is up to twice as wide as its output: the input is
    constant, so that aggregating it needs no SpMM in the backward pass.
    """
    passes = 2 if training and layer == 0 else 1
    return spec.name != "gat" and spec.width_in(layer) <= passes * spec.width_out(layer)


def attends_first(spec: ModelSpec, layer: int, csr: Csr) -> bool:
    """Whether a gat layer attends over its input, which takes less time where rows are few or the input is narrow.

    Compares the multiply-adds of both forms, forward and backward. Features need no gradient, so that a first layer
    that transforms them before aggregating has one product less. Attention over the input fuses no epilogue.
    """
    if spec.name != "gat":
        return False
    rows, columns = csr.shape
    heads, in_width, width = spec.heads_of(layer), spec.width_in(layer), spec.width_out(layer)
    passes, out, score_columns = 2 if layer == 0 else 3, heads * width, max(_SCORES, 2 * heads)
    epilogue = 0 if heads == 1 and spec.is_last(layer) else _EPILOGUE
    attended = rows * out * (3 * in_width + epilogue) + passes * columns * in_width * score_columns
    transformed = passes * columns * in_width * out
    edges = _ATTENTION * csr.nnz * heads
    return attended + edges * max(in_width, _NARROW) < transformed + edges * width


def float_tensor(array: Any, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor | None:
    """Copy an array to a device and a type, ``None`` stays."""
    return None if array is None else torch.from_numpy(np.array(array)).to(device, dtype)
