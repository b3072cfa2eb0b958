"""The kernels: aggregation, dense layers and sampling that native engines are built from; the one place with C++.

Functions of tensors run in the implementation for their device (``dispatch.py``). Sampling and searching run in native
code or in their numpy definition, with equal results.
"""

from backends.kernels.adam import AdamRates, adam, adam_step
from backends.kernels.aggregate import gat, gat_layer, product, spmm, spmm_layer
from backends.kernels.blocks import LayerBlock, layer_blocks
from backends.kernels.dense_layers import dense, projection
from backends.kernels.dropout import Mask, dropout, dropout_values
from backends.kernels.edges import edge_softmax, sddmm
from backends.kernels.epilogue import bias_activation
from backends.kernels.epoch_key import attention_key, mask_key
from backends.kernels.head_products import head_products
from backends.kernels.loss import binary_cross_entropy, cross_entropy
from backends.kernels.neighbourhood import Neighbourhood, expansions, khop, union, union_with_places
from backends.kernels.operand import partition_rows
from backends.kernels.rows import MatrixRows, count_sources, spmm_with_own, take_rows
from backends.kernels.samplers import SAMPLERS, EdgeSampler
from backends.kernels.sampling import SampledEdges, distinct, sample_neighbors

__all__ = [
    "SAMPLERS",
    "AdamRates",
    "EdgeSampler",
    "LayerBlock",
    "Mask",
    "MatrixRows",
    "Neighbourhood",
    "SampledEdges",
    "adam",
    "adam_step",
    "attention_key",
    "bias_activation",
    "binary_cross_entropy",
    "count_sources",
    "cross_entropy",
    "dense",
    "distinct",
    "dropout",
    "dropout_values",
    "edge_softmax",
    "expansions",
    "gat",
    "gat_layer",
    "head_products",
    "khop",
    "layer_blocks",
    "mask_key",
    "partition_rows",
    "product",
    "projection",
    "sample_neighbors",
    "sddmm",
    "spmm",
    "spmm_layer",
    "spmm_with_own",
    "take_rows",
    "union",
    "union_with_places",
]
