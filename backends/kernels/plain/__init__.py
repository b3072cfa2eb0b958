"""The kernels' plain implementation: torch alone, for tensors on the CPU where the extension is not built."""

from backends.kernels.plain.adam import adam_step
from backends.kernels.plain.aggregate import edge_softmax, gat, product, sddmm, spmm
from backends.kernels.plain.ceiling import gathering, read_stream, triad
from backends.kernels.plain.dense_layers import bias_activation, binary_cross_entropy, cross_entropy, dense, projection
from backends.kernels.plain.dropout import dropout, dropout_values

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
