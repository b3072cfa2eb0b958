"""The kernels' native implementation: autograd over the compiled extension, for tensors on the CPU."""

from backends.kernels.native import sampling
from backends.kernels.native.adam import adam_step
from backends.kernels.native.aggregate import product, spmm, spmm_layer
from backends.kernels.native.attention import gat, gat_layer
from backends.kernels.native.ceiling import gathering, read_stream, triad
from backends.kernels.native.dense_layers import dense, projection
from backends.kernels.native.dropout import dropout, dropout_values
from backends.kernels.native.edges import edge_softmax, sddmm
from backends.kernels.native.epilogue import bias_activation
from backends.kernels.native.loss import binary_cross_entropy, cross_entropy
from backends.kernels.native.rows import spmm_with_own

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
    "gat_layer",
    "gathering",
    "product",
    "projection",
    "read_stream",
    "sampling",
    "sddmm",
    "spmm",
    "spmm_layer",
    "spmm_with_own",
    "triad",
]
