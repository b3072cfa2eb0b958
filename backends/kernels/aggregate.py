"""Aggregation over in-edges with autograd; each row is written by one thread, so results do not depend on their number.

Row-parallel means that all edges of a destination belong to one thread (AGL, section 3.3.2, "edge partitioning");
``row_parallel=False`` scatters messages one by one.
"""

import torch
from torch import Tensor

from backends.kernels import scatter
from backends.kernels.checks import check_epilogue, check_heads, check_key, check_rows, check_shape, check_values
from backends.kernels.dispatch import implementation
from backends.kernels.dropout import Mask, checked
from backends.kernels.epilogue import bias_activation
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
    _check_product(matrix, x, weight)
    kernels = implementation("x", x)
    out: Tensor = (kernels if row_parallel else scatter).spmm(matrix, x, weight, reduce)
    return out


def product(
    csr: Csr, x: Tensor, weight: Tensor | None = None, addend: Tensor | None = None, transposed: bool = False
) -> Tensor:
    """Weighted sum of rows of ``x`` over in-edges, or ``transposed`` over out-edges, plus ``addend``; no autograd.

    x [columns, f] gives [rows, f]; transposed x [rows, f] gives [columns, f]. ``addend`` is not changed.
    """
    matrix = operand(csr)
    shape = matrix.shape[::-1] if transposed else matrix.shape
    check_rows("x", x, shape[1], 2)
    if weight is not None:
        _check_weight(matrix, x, weight)
    if addend is not None:
        check_shape("addend", addend, (shape[0], x.shape[1]), like=x)
        addend = addend.detach()
    if weight is not None:  # as it is where that is possible: what is kept of weights is found by the tensor itself
        weight = (weight.detach() if weight.requires_grad else weight).contiguous()
    out: Tensor = implementation("x", x).product(matrix, x.detach(), weight, addend, transposed)
    return out


def spmm_layer(
    csr: Csr,
    x: Tensor,
    bias: Tensor,
    weight: Tensor | None = None,
    reduce: str = "sum",
    own: Tensor | None = None,
    activation: str = "none",
    row_parallel: bool = True,
    mask: Mask | None = None,
) -> Tensor:
    """``dropout(activation(spmm(...) + own + bias), mask)``: [rows, f], bias [f]; autograd in x, ``own`` and bias.

    ``reduce`` is ``sum`` or ``mean``, ``own`` [rows, f]. Raises ValueError also for a ``weight`` with gradient.
    """
    matrix = operand(csr)
    _check_product(matrix, x, weight)
    check_epilogue((matrix.shape[0], x.shape[1]), bias, activation, like=x)
    if reduce not in ("sum", "mean"):
        raise ValueError(f"reduce={reduce!r} is not allowed: a layer takes sum or mean")
    if weight is not None and weight.requires_grad:
        raise ValueError("weight needs a gradient: call spmm, then bias_activation")
    if own is not None:
        check_shape("own", own, (matrix.shape[0], x.shape[1]), like=x)
    kernels = implementation("x", x) if row_parallel else scatter
    mask = checked(mask, matrix.shape[0])
    fused = getattr(kernels, "spmm_layer", None) if matrix.shape[0] * x.shape[1] else None
    if fused is None:
        out = kernels.spmm(matrix, x, weight, reduce)
        return bias_activation(out if own is None else out + own, bias, activation, fresh=True, mask=mask)
    layer: Tensor = fused(matrix, x, weight, reduce, own, bias, activation, mask)
    return layer


def _check_product(matrix: Operand, x: Tensor, weight: Tensor | None) -> None:
    check_rows("x", x, matrix.shape[1], 2)
    if weight is not None:
        _check_weight(matrix, x, weight)


def _check_weight(matrix: Operand, x: Tensor, weight: Tensor) -> None:
    if weight.shape != (matrix.nnz,):
        raise ValueError(f"weight has shape {tuple(weight.shape)}: {matrix.nnz} edges need ({matrix.nnz},)")
    check_values("weight", weight, like=x)


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

    z [columns, 1, d] is one row that all heads share. ``score_edge`` [nnz, heads] is added to both ends' scores before
    the leaky ReLU. Dropout falls on the normalised attention; its mask is a hash of ``seed`` (drawn from torch's
    generator unless given), edge id and head. Raises ValueError for shapes and types that do not fit, and for a
    negative ``slope``.
    """
    matrix = operand(csr)
    _check_attention(matrix, z, score_src, score_dst, score_edge, slope, dropout)
    kernels = implementation("z", z)
    if not row_parallel:
        return scatter.gat(matrix, z, score_src, score_dst, score_edge, slope, _edge_mask(dropout, seed))
    out: Tensor = kernels.gat(matrix, z, score_src, score_dst, score_edge, slope, _edge_mask(dropout, seed))
    return out


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
    mask: Mask | None = None,
    score_edge: Tensor | None = None,
) -> Tensor:
    """``activation(gat(...) + bias)`` with the heads side by side: [rows, heads * d], bias [heads * d].

    ``mask`` then drops entries of the result; ``dropout`` and ``seed`` are those of the attention. Without a
    mask, native code keeps one array of that size for the gradients, where ``gat`` and ``bias_activation`` keep two.
    """
    matrix = operand(csr)
    _check_attention(matrix, z, score_src, score_dst, score_edge, slope, dropout)
    check_epilogue((matrix.shape[0], score_src.shape[1] * z.shape[2]), bias, activation, like=z)
    fuses = row_parallel and score_edge is None and matrix.shape[0] * z.shape[2]
    fused = getattr(implementation("z", z), "gat_layer", None) if fuses else None
    mask = checked(mask, matrix.shape[0])
    if fused is None:
        out = gat(csr, z, score_src, score_dst, score_edge, slope, dropout, seed, row_parallel)
        return bias_activation(out.flatten(1), bias, activation, mask=mask)
    edge_mask = _edge_mask(dropout, seed)
    layer: Tensor = fused(matrix, z, score_src, score_dst, bias, activation, slope, edge_mask, mask)
    return layer


def _edge_mask(dropout: float, seed: int | None) -> Mask | None:
    """The mask of attention: its rows are edges, its columns heads."""
    if dropout == 0:
        return None
    if seed is None:
        return Mask(dropout, int(torch.randint(1 << 62, ())))
    check_key("seed", seed)
    return Mask(dropout, seed)


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
    check_rows("score_src", score_src, matrix.shape[1], 2)
    heads = score_src.shape[1]
    check_heads("score_src", heads)
    if z.shape[1] not in (1, heads):
        raise ValueError(f"z has {z.shape[1]} heads, score_src {heads}: z needs as many, or one that all share")
    scores = [("score_src", score_src, matrix.shape[1]), ("score_dst", score_dst, matrix.shape[0])]
    if score_edge is not None:
        scores.append(("score_edge", score_edge, matrix.nnz))
    for name, score, rows in scores:
        if score.shape != (rows, heads):
            raise ValueError(f"{name} has shape {tuple(score.shape)}: this matrix needs {(rows, heads)}")
        check_values(name, score, like=z)
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout={dropout} is not allowed: at least 0, below 1")
    if not slope >= 0.0:  # a row's largest score is found before the leaky ReLU, which must keep the order
        raise ValueError(f"slope={slope} is not allowed: at least 0, as leaky ReLU must not descend")
