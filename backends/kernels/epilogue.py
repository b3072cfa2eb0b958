"""Bias and activation after an aggregation; autograd."""

from torch import Tensor

from backends.kernels.checks import check_epilogue
from backends.kernels.dispatch import implementation


def bias_activation(x: Tensor, bias: Tensor, activation: str = "none", fresh: bool = False) -> Tensor:
    """``activation(x + bias)`` for x [rows, f] and bias [f]; activation is ``none``, ``relu`` or ``elu``; autograd.

    With ``fresh`` x may be overwritten: neither the caller nor the gradient of the operation before reads it again.
    """
    check_epilogue(x.shape, bias, activation)
    out: Tensor = implementation("x", x).bias_activation(x, bias, activation, fresh)
    return out
