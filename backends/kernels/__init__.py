"""The one place for kernels: what every native engine's aggregation and sampling stands on.

Aggregation and loss are C++ where the extension is built (``native.py``), plain torch elsewhere; neighbourhoods are
numpy.
"""

from backends.kernels.aggregate import gat, spmm
from backends.kernels.loss import binary_cross_entropy
from backends.kernels.neighbourhood import Neighbourhood, khop, layer_blocks

__all__ = ["Neighbourhood", "binary_cross_entropy", "gat", "khop", "layer_blocks", "spmm"]
