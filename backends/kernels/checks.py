"""Refusals that the kernels share: what was given, what is allowed; nothing that fails here reaches native code."""

import torch
from torch import Tensor

_DTYPES = (torch.float32, torch.float64)


def check_rows(name: str, given: Tensor, rows: int, dimensions: int) -> None:
    """Refuse a tensor that is not [rows, ...] of ``dimensions`` axes, of a float type, on the CPU."""
    if given.dim() != dimensions or given.shape[0] != rows:
        raise ValueError(
            f"{name} has shape {tuple(given.shape)}: needed are {dimensions} dimensions, the first of {rows}"
        )
    check_values(name, given)


def check_values(name: str, given: Tensor, like: Tensor | None = None) -> None:
    """Refuse what the kernels do not compute with: other types, other devices, a type that differs from ``like``."""
    if given.device.type != "cpu":
        raise ValueError(f"{name} is on {given.device}: these kernels run on the CPU, call .cpu() first")
    if given.layout is not torch.strided:
        raise ValueError(f"{name} is {given.layout}: a dense tensor is needed, call .to_dense() first")
    if given.dtype not in _DTYPES:
        raise ValueError(f"{name} is {given.dtype}: allowed are float32, float64")
    if like is not None and given.dtype != like.dtype:
        raise ValueError(f"{name} is {given.dtype} beside {like.dtype}: give both in one type")


def check_heads(name: str, heads: int) -> None:
    """Refuse a product without heads."""
    if heads == 0:
        raise ValueError(f"{name} has 0 heads: at least one is needed")
