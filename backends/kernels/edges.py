"""Values per edge and head: inner products of both ends' rows, and the softmax over a row's edges."""

from torch import Tensor

from backends.kernels.checks import check_heads, check_rows, check_values
from backends.kernels.dispatch import implementation
from backends.kernels.operand import operand
from datasets.csr import Csr


def sddmm(csr: Csr, a: Tensor, b: Tensor) -> Tensor:
    """Inner products of the rows at both ends of each edge, per head: [nnz, heads]; autograd in ``a`` and ``b``.

    ``a`` is [rows, heads, d] and ``b`` [columns, heads, d], or both without heads, which gives [nnz, 1]. float32 or
    float64. Also called a sampled dense-dense matrix product. Raises ValueError for shapes or types that do not fit.
    """
    matrix = operand(csr)
    if a.dim() == b.dim() == 2:
        a, b = a[:, None], b[:, None]
    check_rows("a", a, matrix.shape[0], 3)
    check_rows("b", b, matrix.shape[1], 3)
    check_values("b", b, like=a)
    check_heads("a", a.shape[1])
    if a.shape[1:] != b.shape[1:]:
        raise ValueError(f"a has {tuple(a.shape[1:])} heads and columns, b {tuple(b.shape[1:])}: they must be equal")
    out: Tensor = implementation("a", a).sddmm(matrix, a, b)
    return out


def edge_softmax(csr: Csr, logits: Tensor) -> Tensor:
    """Softmax of ``logits`` [nnz, heads] over each row's edges, head by head; autograd in ``logits``.

    A logit of -infinity gets exactly 0. float32 or float64; raises ValueError for a shape or type that does not fit.
    """
    matrix = operand(csr)
    if logits.dim() != 2 or logits.shape[0] != matrix.nnz:
        raise ValueError(f"logits have shape {tuple(logits.shape)}: {matrix.nnz} edges need ({matrix.nnz}, heads)")
    check_values("logits", logits)
    check_heads("logits", logits.shape[1])
    out: Tensor = implementation("logits", logits).edge_softmax(matrix, logits)
    return out
