"""Attention in torch's operations: along a list of edges, or by CSR products whose transpose is built once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from backends.reference.products import Device, EdgeList, edge_list, scatter, sparse_matrix
from datasets.csr import Csr, index_dtype


@dataclass
class ScatterAttention:
    """Scores, messages and sums along the list of edges; autograd's own backward pass."""

    csr: Csr
    edges: EdgeList
    features: Tensor | None = None

    def attend(
        self,
        z: Tensor,
        score_src: Tensor,
        score_dst: Tensor,
        slope: float,
        dropout: float = 0.0,
        score_edge: Tensor | None = None,
    ) -> Tensor:
        """Attention from scores [nodes, heads], and [edges, heads], over rows ``z``: [rows, heads, width]."""
        alpha = softmax(self.edges, score_src, score_dst, slope, score_edge)
        return scatter(self.edges, functional.dropout(alpha, dropout, dropout > 0), z)


def softmax(
    edges: EdgeList, score_src: Tensor, score_dst: Tensor, slope: float, score_edge: Tensor | None = None
) -> Tensor:
    """Softmax of the leaky scores over in-edges, [nnz, heads]."""
    score = score_src[edges.source] + score_dst[edges.destination]
    score = functional.leaky_relu(score if score_edge is None else score + score_edge, slope)
    row = edges.destination[:, None].expand_as(score)
    start = score.new_full((edges.csr.shape[0], score.shape[1]), -torch.inf)
    largest = start.scatter_reduce(0, row, score.detach(), "amax")
    exponent = torch.exp(score - largest[edges.destination])
    total = score.new_zeros(start.shape).index_add(0, edges.destination, exponent)
    return exponent / total[edges.destination]


@dataclass
class Layout:
    """A matrix without values: row starts, columns and the row of each edge, of one index type."""

    shape: tuple[int, int]
    indptr: Tensor
    columns: Tensor
    rows: Tensor

    @classmethod
    def of(cls, csr: Csr, device: Device) -> "Layout":
        """Lay out ``csr`` on a device; int32 while it fits."""
        kind = index_dtype(max(csr.nnz, *csr.shape))
        arrays = (csr.indptr, csr.indices, csr.destinations)
        return cls(csr.shape, *(torch.from_numpy(np.array(array, dtype=kind)).to(device) for array in arrays))

    def matrix(self, values: Tensor) -> Tensor:
        """A CSR matrix of these values [nnz]."""
        return sparse_matrix(self.indptr, self.columns, values, self.shape)

    def sums(self, values: Tensor) -> Tensor:
        """Sum of the values [nnz] of each row."""
        return torch.segment_reduce(values, "sum", offsets=self.indptr)


class CsrAttention:
    """Sparse products over the matrix and a kept transpose, segment reductions over rows, one head after the other.

    ``reduces`` multiplies by ``torch.sparse.mm(..., reduce="sum")``.
    """

    def __init__(self, csr: Csr, reduces: bool, device: Device) -> None:
        self.csr, self.reduces = csr, reduces
        flipped, permutation = csr.transpose
        self.forward, self.backward = Layout.of(csr, device), Layout.of(flipped, device)
        self.permutation = _indices(permutation, csr.nnz).to(device)

    def attend(self, z: Tensor, score_src: Tensor, score_dst: Tensor, slope: float, dropout: float = 0.0) -> Tensor:
        """Attention from scores [nodes, heads] over rows ``z`` [nodes, heads, width]; [rows, heads, width]."""
        heads = [
            _HeadAttention.apply(self, z[:, head], score_src[:, head], score_dst[:, head], slope, dropout)
            for head in range(z.shape[1])
        ]
        return torch.stack(heads, 1)

    def product(self, matrix: Tensor, x: Tensor) -> Tensor:
        """Multiply by a matrix of either direction."""
        return torch.sparse.mm(matrix, x, "sum") if self.reduces else torch.sparse.mm(matrix, x)


def _indices(array: NDArray[np.integer], largest: int) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=index_dtype(largest)))


class _HeadAttention(torch.autograd.Function):
    """One head. Rows are divided by their sum of exponentials after the product, which saves a pass over the edges.

    With w the exponentials, m the dropout's factors, S their row sums and g the output's gradient, an edge (i, j) has
    the score gradient ``w m <g_i / S_i, z_j> - w <g_i, out_i> / S_i``: no sum over edges is needed for the softmax.
    """

    @staticmethod
    def forward(
        ctx: Any,
        edges: CsrAttention,
        z: Tensor,
        score_src: Tensor,
        score_dst: Tensor,
        slope: float,
        dropout: float,
    ) -> Tensor:
        layout = edges.forward
        # index_select takes a third of the time of indexing
        raw = score_src.index_select(0, layout.columns) + score_dst.index_select(0, layout.rows)
        score = functional.leaky_relu(raw, slope)
        largest = torch.segment_reduce(score, "max", offsets=layout.indptr)
        weight = score.sub_(largest.index_select(0, layout.rows)).exp_()
        total = layout.sums(weight).clamp_(min=1)  # at least 1 where a row has edges, as its largest has exp(0)
        masked = weight if dropout == 0 else functional.dropout(weight, dropout)
        out = edges.product(layout.matrix(masked), z).div_(total[:, None])
        ctx.edges, ctx.slope = edges, slope
        ctx.save_for_backward(z, raw > 0, weight, masked, total, out)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        z, is_positive, weight, masked, total, out = ctx.saved_tensors
        edges, layout = ctx.edges, ctx.edges.forward
        scaled = gradients[0] / total[:, None]
        z_gradient = edges.product(edges.backward.matrix(masked.index_select(0, edges.permutation)), scaled)
        inner = _edge_products(layout, weight, scaled, z)
        row_terms = (scaled * out).sum(1)
        score = inner.mul_(masked).sub_(weight * row_terms.index_select(0, layout.rows))
        score = torch.where(is_positive, score, score * ctx.slope)
        sources = edges.backward.sums(score.index_select(0, edges.permutation))
        return None, z_gradient, sources, layout.sums(score), None, None


def _edge_products(layout: Layout, weight: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Inner product of the row and the column of each edge, [nnz]."""
    if len(weight) > len(rows) * len(columns):  # parallel edges on few nodes, which torch's sampled product refuses
        return (rows.index_select(0, layout.rows) * columns.index_select(0, layout.columns)).sum(1)
    return torch.sparse.sampled_addmm(layout.matrix(weight), rows, columns.t(), beta=0.0).values()


Attention = ScatterAttention | CsrAttention


def attention_of(csr: Csr, variant: str, device: Device = "cpu") -> Attention:
    """Attention in the form of a variant, on a device: ``scatter``, ``cached`` or ``reduce_cached``."""
    if variant == "scatter":
        return ScatterAttention(csr, edge_list(csr, device))
    return CsrAttention(csr, variant == "reduce_cached", device)
