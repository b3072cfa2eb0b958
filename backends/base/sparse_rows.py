"""Sparse features as the input of a network's first layer: rows of few values, never written out dense."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels import Mask, dense, dropout, dropout_values, projection, spmm
from backends.kernels import product as product_of
from backends.kernels.rows import take_rows
from datasets.csr import Csr
from datasets.features import Features, SparseFeatures


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Input rows of a layer: the columns that are set and their values [nnz], without gradient."""

    csr: Csr
    values: Tensor
    prefixes: dict[int, "SparseRows"] = field(default_factory=dict, init=False, repr=False)

    requires_grad: ClassVar[bool] = False

    @classmethod
    def of(
        cls, features: SparseFeatures, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> "SparseRows":
        """The features of a graph, their values on a device; mapped ones are copied."""
        indptr, indices, values = (part if part.flags.writeable else np.array(part) for part in features.arrays)
        return cls(Csr(indptr, indices, features.shape), torch.from_numpy(values).to(device, dtype))

    def __len__(self) -> int:
        return self.csr.shape[0]

    def __getitem__(self, rows: slice) -> "SparseRows":
        """The first rows; they are cut once, so that what kernels keep with them serves all epochs."""
        count = len(range(len(self))[rows])
        if count not in self.prefixes:
            indptr, edges = self.csr.indptr[: count + 1], int(self.csr.indptr[count])
            csr = Csr(indptr, self.csr.indices[:edges], (count, self.csr.shape[1]))
            self.prefixes[count] = SparseRows(csr, self.values[:edges])
        return self.prefixes[count]

    def index_select(self, axis: int, rows: Tensor) -> "SparseRows":
        """Copy rows, in the order of their numbers; ``axis`` is 0, as of a tensor."""
        csr, values = take_rows(self.csr, rows.numpy(), self.values)
        assert values is not None
        return SparseRows(csr, values)

    def dense(self) -> Tensor:
        """All entries, [rows, width]."""
        return torch.from_numpy(SparseFeatures(self.csr, self.values.numpy()).dense())

    def dropped(self, mask: Mask) -> "SparseRows":
        """Drop values; the matrix and what is kept with it stay."""
        return replace(self, values=dropout_values(self.csr, self.values, mask))


Rows = Tensor | SparseRows


def input_rows(features: Features) -> Rows:
    """Features as the input of a layer, dense ones as a view."""
    return SparseRows.of(features) if isinstance(features, SparseFeatures) else tensor(features)


def tensor(array: NDArray[Any]) -> Tensor:
    """View an array as a tensor without a copy, also a read-only one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def prefix(x: Any, rows: int) -> Any:
    """The first rows; all of them without a slice, whose gradient would be a copy."""
    return x if len(x) == rows else x[:rows]


def features_of(rows: Rows) -> Features:
    """The input of a layer as features."""
    return SparseFeatures(rows.csr, rows.values.numpy()) if isinstance(rows, SparseRows) else rows.numpy()


def product(rows: Rows, weight: Tensor) -> Tensor:
    """``rows @ weight``; autograd in the weight, and in dense rows."""
    return spmm(rows.csr, weight, rows.values) if isinstance(rows, SparseRows) else dense(rows, weight)


def product_pair(rows: SparseRows, first: Tensor, second: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``rows @ first`` and the first ``count`` rows of ``rows @ second`` in one pass over the rows; both [width, f]."""
    pair: tuple[Tensor, Tensor] = _ProductPair.apply(first, second, rows, count)
    return pair


class _ProductPair(torch.autograd.Function):
    """One product with both weights side by side, forward and backward."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, rows: SparseRows, count: int) -> tuple[Tensor, Tensor]:
        ctx.rows, ctx.count, ctx.width = rows, count, first.shape[1]
        out = product_of(rows.csr, torch.cat([first.detach(), second.detach()], 1), rows.values)
        return out[:, : ctx.width].contiguous(), out[:count, ctx.width :].contiguous()

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, None, None]:
        rows, count, width = ctx.rows, ctx.count, ctx.width
        joined = first.new_empty((len(rows), 2 * width))
        joined[:, :width] = first
        joined[:count, width:] = second
        joined[count:, width:] = 0.0
        gradient = product_of(rows.csr, joined, rows.values, transposed=True)
        return gradient[:, :width].contiguous(), gradient[:, width:].contiguous(), None, None


def projected(rows: Rows, weight: Tensor, att_src: Tensor, att_dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``z = rows @ weight`` [rows, heads, d], and its inner products with both attention vectors [rows, heads]."""
    if not isinstance(rows, SparseRows):
        return projection(rows, weight, att_src, att_dst)
    z, scores_src, scores_dst = _SparseProjection.apply(weight, att_src, att_dst, rows)
    return z.view(len(rows), *att_src.shape), scores_src, scores_dst


class _SparseProjection(torch.autograd.Function):
    """The product with a weight and the scores of its rows; the gradients of both go through one transposed product."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, att_src: Tensor, att_dst: Tensor, rows: SparseRows) -> tuple[Tensor, ...]:
        z = product_of(rows.csr, weight.detach(), rows.values)
        vectors = _by_head(att_src.detach(), att_dst.detach())
        ctx.rows = rows
        ctx.save_for_backward(z, vectors)
        score_src, score_dst = (z @ vectors).chunk(2, 1)
        return z, score_src.contiguous(), score_dst.contiguous()

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_src: Tensor, grad_dst: Tensor) -> tuple[Tensor | None, ...]:
        z, vectors = ctx.saved_tensors
        scores = torch.cat([grad_src, grad_dst], 1)
        total = torch.addmm(grad, scores, vectors.T)
        weight = product_of(ctx.rows.csr, total, ctx.rows.values, transposed=True)
        heads = vectors.shape[1] // 2
        src, dst = _diagonals(z.T @ scores, heads).unbind(1)
        return weight, src.T.contiguous(), dst.T.contiguous(), None


def _by_head(att_src: Tensor, att_dst: Tensor) -> Tensor:
    """The matrix [heads * d, 2 * heads] whose product with rows is each head's inner products with both vectors."""
    heads, width = att_src.shape
    matrix = att_src.new_zeros((heads * width, 2 * heads))
    _diagonals(matrix, heads).copy_(torch.stack([att_src.T, att_dst.T], 1))
    return matrix


def _diagonals(matrix: Tensor, heads: int) -> Tensor:
    """View the entries [d, 2, heads] of a matrix [heads * d, 2 * heads] whose row and column belong to one head."""
    return matrix.view(heads, -1, 2, heads).diagonal(dim1=0, dim2=3)


def dropped(rows: Rows, mask: Mask) -> Rows:
    """Drop entries of a layer's input."""
    return rows.dropped(mask) if isinstance(rows, SparseRows) else dropout(rows, mask)
