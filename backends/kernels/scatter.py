"""Aggregation that scatters messages one by one: the baseline of the AGL paper's edge partitioning (section 3.3.2)."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from backends.kernels.dropout import dropout
from backends.kernels.operand import Operand
from backends.kernels.plain.aggregate import attention, maximum


def spmm(matrix: Operand, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
    """Gather a message per edge, then add each to its destination; ``max`` reduces messages by row."""
    if reduce == "max":
        return maximum(matrix, x, weight)
    edges = matrix.on(x.device)
    messages = x[edges.sources] if weight is None else weight[:, None] * x[edges.sources]
    out = x.new_zeros((matrix.shape[0], x.shape[1])).index_add(0, edges.destinations, messages)
    return out * edges.inverse_in_degrees(x.dtype)[:, None] if reduce == "mean" else out


def gat(
    matrix: Operand,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    score_edge: Tensor | None,
    slope: float,
    edge_mask: Any,
) -> Tensor:
    """Attend over in-edges: weighted messages [nnz, heads, d], each added to its destination."""
    alpha, edges = attention(matrix, score_src, score_dst, score_edge, slope, None), matrix.on(z.device)
    if edge_mask is not None:  # by the device's own kernel: the baseline is not to wait for a mask
        alpha = dropout(alpha, replace(edge_mask, nodes=edges.numbers))
    messages = alpha[:, :, None] * z[edges.sources]
    return z.new_zeros((matrix.shape[0], *messages.shape[1:])).index_add(0, edges.destinations, messages)
