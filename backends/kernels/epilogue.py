"""Bias, activation and dropout after an aggregation; autograd."""

from torch import Tensor

from backends.kernels.checks import check_epilogue
from backends.kernels.dispatch import implementation
from backends.kernels.dropout import Mask, checked


def bias_activation(
    x: Tensor, bias: Tensor, activation: str = "none", fresh: bool = False, mask: Mask | None = None
) -> Tensor:
    """``dropout(activation(x + bias), mask)`` for x [rows, f] and bias [f]; autograd.

    ``activation`` is ``none``, ``relu`` or ``elu``. With ``fresh`` x may be overwritten: neither the caller nor the
    gradient of the operation before reads it again.
    """
    check_epilogue(x.shape, bias, activation, like=x)
    out: Tensor = implementation("x", x).bias_activation(x, bias.contiguous(), activation, fresh, checked(mask, len(x)))
    return out
