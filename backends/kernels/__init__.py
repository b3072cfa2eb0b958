"""The one place for kernels: what every native engine's aggregation and sampling stands on.

So far in plain torch and numpy; the thin surface is the one that native code will fill.
"""

from backends.kernels.aggregate import gat, spmm
from backends.kernels.neighbourhood import Neighbourhood, khop, layer_blocks

__all__ = ["Neighbourhood", "gat", "khop", "layer_blocks", "spmm"]
