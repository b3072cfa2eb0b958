"""The one place for kernels: what every native engine's aggregation and sampling stands on.

Aggregation and loss are C++ where the extension is built (``native.py``), plain torch elsewhere; neighbourhoods are
numpy.
"""

from backends.kernels.aggregate import gat, gat_layer, spmm
from backends.kernels.blocks import Block, layer_blocks
from backends.kernels.dense_layers import dense, projection
from backends.kernels.edges import edge_softmax, sddmm
from backends.kernels.epilogue import bias_activation
from backends.kernels.loss import binary_cross_entropy
from backends.kernels.neighbourhood import Neighbourhood, khop, union, union_with_places
from backends.kernels.operand import partition_rows
from backends.kernels.samplers import SAMPLERS, Sampler
from backends.kernels.sampling import Sample, sample_neighbors

__all__ = [
    "SAMPLERS",
    "Block",
    "Neighbourhood",
    "Sample",
    "Sampler",
    "bias_activation",
    "binary_cross_entropy",
    "dense",
    "edge_softmax",
    "gat",
    "gat_layer",
    "khop",
    "layer_blocks",
    "partition_rows",
    "projection",
    "sample_neighbors",
    "sddmm",
    "spmm",
    "union",
    "union_with_places",
]
