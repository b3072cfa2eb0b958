"""Aggregation over in-edges with autograd; no two threads write the same row, results do not depend on their number.

Row-parallel means that all edges of a destination belong to one thread (AGL, section 3.3.2, "edge partitioning");
``row_parallel=False`` is that paper's base, messages scattered one by one.
"""

import torch
from torch import Tensor

from backends.kernels import plain
from backends.kernels.checks import check_heads, check_rows, check_values
from backends.kernels.epilogue import after_attention, bias_activation, check_epilogue
from backends.kernels.maximum import NativeMaximum
from backends.kernels.native import native
from backends.kernels.operand import Operand, operand
from datasets.csr import Csr


def spmm(csr: Csr, x: Tensor, weight: Tensor | None = None, reduce: str = "sum", row_parallel: bool = True) -> Tensor:
    """Aggregate rows of ``x`` [columns, f] over in-edges to [rows, f]; autograd in ``x`` and ``weight`` [nnz].

    ``reduce`` is ``sum``, ``mean`` or ``max``, whose gradient goes to the first of the largest messages; all give 0 for
    a row without edges. float32 or float64. Raises ValueError for a shape or type that does not fit.
    """
    if reduce not in ("sum", "mean", "max"):
        raise ValueError(f"reduce={reduce!r} is unknown: allowed are sum, mean, max")
    matrix = operand(csr)
    check_rows("x", x, matrix.shape[1], 2)
    if weight is not None:
        if weight.shape != (matrix.nnz,):
            raise ValueError(f"weight has shape {tuple(weight.shape)}: {matrix.nnz} edges need ({matrix.nnz},)")
        check_values("weight", weight, like=x)
    if reduce == "max":
        return _maximum(matrix, x, weight, row_parallel)
    if row_parallel and native is not None:
        from backends.kernels.fused import NativeSpmm

        out: Tensor = NativeSpmm.apply(matrix, weight, x, reduce == "mean")
        return out
    out = _plain_sum(matrix, x, weight) if row_parallel else plain.scatter_sum(matrix, x, weight)
    return out * matrix.inverse_in_degrees[:, None].to(x.dtype) if reduce == "mean" else out


def _plain_sum(matrix: Operand, x: Tensor, weight: Tensor | None) -> Tensor:
    values = torch.ones(matrix.nnz, dtype=x.dtype) if weight is None else weight
    out: Tensor = plain.PlainSpmm.apply(matrix, values, x)
    return out


def _maximum(matrix: Operand, x: Tensor, weight: Tensor | None, row_parallel: bool) -> Tensor:
    if not row_parallel or native is None:
        return plain.maximum(matrix, x, weight)
    out: Tensor = NativeMaximum.apply(matrix, weight, x)
    return out


def gat(
    csr: Csr,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    score_edge: Tensor | None = None,
    slope: float = 0.2,
    dropout: float = 0.0,
    seed: int | None = None,
    row_parallel: bool = True,
) -> Tensor:
    """Attend over in-edges: z [columns, heads, d], scores [columns, heads] and [rows, heads] -> [rows, heads, d].

    ``score_edge`` [nnz, heads] is added to both ends' scores before the leaky ReLU. Dropout falls on the normalised
    attention; its mask is a hash of ``seed`` (drawn from torch's generator unless given), edge and head. Raises
    ValueError for shapes and types that do not fit, and for a negative ``slope``.
    """
    matrix = operand(csr)
    _check_attention(matrix, z, score_src, score_dst, score_edge, slope, dropout)
    if row_parallel and native is not None:
        from backends.kernels.fused import Attention, NativeGat

        held = Attention(matrix, slope, dropout, _seed_of(dropout, seed))
        out: Tensor = NativeGat.apply(held, z, score_src, score_dst, score_edge)
        return out
    alpha = plain.attention(matrix, score_src, score_dst, score_edge, slope, dropout)
    return (plain.product_attention if row_parallel else plain.scatter_attention)(matrix, z, alpha)


def gat_layer(
    csr: Csr,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    bias: Tensor,
    activation: str = "none",
    slope: float = 0.2,
    dropout: float = 0.0,
    seed: int | None = None,
    row_parallel: bool = True,
) -> Tensor:
    """``activation(gat(...) + bias)`` with the heads side by side: [rows, heads * d], bias [heads * d].

    Keeps one array of that size for the gradients, where ``gat`` and ``bias_activation`` keep two.
    """
    matrix = operand(csr)
    _check_attention(matrix, z, score_src, score_dst, None, slope, dropout)
    check_epilogue((matrix.shape[0], z.shape[1] * z.shape[2]), bias, activation)
    if row_parallel and native is not None and matrix.shape[0] > 0 and z.shape[2] > 0:
        from backends.kernels.fused import Attention, NativeAttention

        held = Attention(matrix, slope, dropout, _seed_of(dropout, seed))
        out, inner = NativeAttention.apply(held, z, score_src, score_dst)
        return after_attention(out, inner, bias, activation)
    out = gat(csr, z, score_src, score_dst, None, slope, dropout, seed, row_parallel)
    return bias_activation(out.flatten(1), bias, activation)


def _check_attention(
    matrix: Operand,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    score_edge: Tensor | None,
    slope: float,
    dropout: float,
) -> None:
    check_rows("z", z, matrix.shape[1], 3)
    check_heads("z", z.shape[1])
    scores = [("score_src", score_src, matrix.shape[1]), ("score_dst", score_dst, matrix.shape[0])]
    if score_edge is not None:
        scores.append(("score_edge", score_edge, matrix.nnz))
    for name, score, rows in scores:
        if score.shape != (rows, z.shape[1]):
            raise ValueError(f"{name} has shape {tuple(score.shape)}: this matrix and z need {(rows, z.shape[1])}")
        check_values(name, score, like=z)
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout={dropout} is not allowed: at least 0, below 1")
    if not slope >= 0.0:  # a row's largest score is found before the leaky ReLU, which must keep the order
        raise ValueError(f"slope={slope} is not allowed: at least 0, as leaky ReLU must not descend")


def _seed_of(dropout: float, seed: int | None) -> int:
    return seed if seed is not None else int(torch.randint(1 << 62, ())) if dropout > 0 else 0
