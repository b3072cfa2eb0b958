"""The kernels for CUDA devices: aggregation, attention and dropout in Triton, the rest in torch's operations."""

from backends.kernels.plain import (
    adam_step,
    binary_cross_entropy,
    cross_entropy,
    edge_softmax,
    gathering,
    read_stream,
    sddmm,
    triad,
)
from backends.kernels.triton.aggregate import product, spmm
from backends.kernels.triton.attention import gat
from backends.kernels.triton.dense_layers import bias_activation, dense, projection
from backends.kernels.triton.dropout import dropout, dropout_values

__all__ = [
    "adam_step",
    "bias_activation",
    "binary_cross_entropy",
    "cross_entropy",
    "dense",
    "dropout",
    "dropout_values",
    "edge_softmax",
    "gat",
    "gathering",
    "product",
    "projection",
    "read_stream",
    "sddmm",
    "spmm",
    "triad",
]
