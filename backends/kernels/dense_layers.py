"""Dense layers with bias, ReLU and dropout, and the projection of graph attention with its scores; autograd."""

from torch import Tensor

from backends.kernels.checks import check_values
from backends.kernels.dispatch import implementation
from backends.kernels.dropout import Mask, checked


def dense(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    other: tuple[Tensor, Tensor] | None = None,
    mask: Mask | None = None,
) -> Tensor:
    """``x @ weight + bias``, plus the product of the ``other`` pair, ReLU with ``relu``: [rows, columns]; autograd.

    float32 or float64; all of one type. ``other`` is (x [rows, any], weight [any, columns]). After a ReLU, ``mask``
    drops entries of the result.
    """
    x2, weight2 = other or (None, None)
    _check(x, weight, bias)
    if x2 is not None and weight2 is not None:
        _check(x2, weight2, bias)
        check_values("other", x2, like=x)
        if x2.shape[0] != x.shape[0] or weight2.shape[1] != weight.shape[1]:
            raise ValueError(f"products of {x.shape[0]} and {x2.shape[0]} rows cannot be added: give equal shapes")
    if mask is not None and not relu:
        raise ValueError("a mask needs relu=True: call dropout on a result without ReLU")
    bias = None if bias is None else bias.contiguous()
    out: Tensor = implementation("x", x).dense(x, weight, bias, relu, x2, weight2, checked(mask, len(x)))
    return out


def projection(x: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``z = x @ weight`` [rows, heads, d] and ``(z * att).sum(-1)`` [rows, heads] for both att [heads, d]."""
    _check(x, weight, None)
    if att_src.dim() != 2 or weight.shape[1] != att_src.numel() or att_dst.shape != att_src.shape:
        shapes = f"{tuple(att_src.shape)} and {tuple(att_dst.shape)}"
        raise ValueError(f"attention vectors have shapes {shapes}: both need [heads, d], {weight.shape[1]} entries")
    for name, vectors in (("att_src", att_src), ("att_dst", att_dst)):
        check_values(name, vectors, like=x)
    out: tuple[Tensor, Tensor, Tensor] = implementation("x", x).projection(x, weight, att_src, att_dst)
    return out


def _check(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[0]:
        raise ValueError(f"x has shape {tuple(x.shape)}, weight {tuple(weight.shape)}: [rows, k] and [k, f] are needed")
    if bias is not None and bias.shape != weight.shape[1:]:
        raise ValueError(f"bias has shape {tuple(bias.shape)}: {weight.shape[1]} columns need ({weight.shape[1]},)")
    check_values("x", x)
    check_values("weight", weight, like=x)
    if bias is not None:
        check_values("bias", bias, like=x)
