"""Checks of arguments that the kernels share; native code runs only on arguments that passed them."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

ACTIVATIONS = ("none", "relu", "elu")
MOST_KEY = (1 << 64) - 1
_DTYPES = (torch.float32, torch.float64)


def check_shape(name: str, tensor: Tensor, shape: tuple[int, ...], like: Tensor) -> None:
    """Refuse a tensor of another shape, or of another type or device than ``like``."""
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: needed is {shape}")
    check_values(name, tensor, like)


def check_rows(name: str, tensor: Tensor, rows: int, dimensions: int) -> None:
    """Refuse a tensor that is not [rows, ...] of ``dimensions`` axes and of a float type."""
    if tensor.dim() != dimensions or tensor.shape[0] != rows:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}: needed are {dimensions} dimensions, the first of {rows}"
        )
    check_values(name, tensor)


def check_values(name: str, tensor: Tensor, like: Tensor | None = None) -> None:
    """Refuse layouts and types that no kernel computes with, and a type or device that differs from ``like``."""
    if tensor.layout is not torch.strided:
        raise ValueError(f"{name} is {tensor.layout}: a dense tensor is needed, call .to_dense() first")
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"{name} is {tensor.dtype}: allowed are float32, float64")
    if like is None:
        return
    if tensor.dtype != like.dtype:
        raise ValueError(f"{name} is {tensor.dtype} beside {like.dtype}: give both in one type")
    if tensor.device != like.device:
        raise ValueError(f"{name} is on {tensor.device} beside {like.device}: give both on one device")


def check_key(name: str, key: int) -> None:
    """Refuse a key of hashes that is no whole number of 64 bits."""
    if not isinstance(key, (int, np.integer)) or not 0 <= key <= MOST_KEY:
        raise ValueError(f"{name} is {key!r}: allowed are whole numbers from 0 to 2^64 - 1 = {MOST_KEY}")


def check_heads(name: str, heads: int) -> None:
    """Refuse a product without heads."""
    if heads == 0:
        raise ValueError(f"{name} has 0 heads: at least one is needed")


def check_epilogue(shape: tuple[int, ...], bias: Tensor, activation: str, like: Tensor) -> None:
    """Refuse an unknown activation, and a bias of another width than ``shape`` [rows, f] or type than ``like``."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation={activation!r} is unknown: allowed are {', '.join(ACTIVATIONS)}")
    if len(shape) != 2 or bias.shape != shape[1:]:
        raise ValueError(f"x has shape {tuple(shape)}, bias {tuple(bias.shape)}: needed are [rows, f] and [f]")
    check_values("bias", bias, like)


def without_second_derivative(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a backward pass that is to be differentiated: what kernels return of it would count as a constant."""

    @wraps(backward)
    def refusing(ctx: Any, *gradients: Tensor | None) -> Any:
        if torch.is_grad_enabled():  # by create_graph=True alone
            raise RuntimeError("kernels have no second derivative: leave out create_graph, or use plain torch")
        return backward(ctx, *gradients)

    return refusing
