"""Layer blocks: the pruned matrix that each layer of a model multiplies with on a neighbourhood."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.kernels.definition import Nodes
from backends.kernels.neighbourhood import Neighbourhood
from backends.kernels.sampling import row_places
from datasets.csr import Csr

FORMS = ("tight", "paper", "full")


@dataclass(frozen=True, eq=False)
class LayerBlock:
    """One layer's matrix: rows are its output nodes, columns its input nodes, both prefixes of the neighbourhood.

    ``positions`` [nnz] are places in the whole graph's edge order, ``None`` where the neighbourhood has none.
    """

    csr: Csr
    positions: Nodes | None


def layer_blocks(neighbourhood: Neighbourhood, layers: int, form: str = "tight") -> list[LayerBlock]:
    """Return the matrix of each layer, first layer (the deepest hop) first; layer l keeps edges of rank < its fanout.

    ``full`` keeps all nodes in every layer; ``paper`` drops at layer k (1-based) every node further than
    ``layers - k + 1`` and its edges (AGL, section 3.3.2); ``tight`` also drops edges into nodes that no later layer
    reads: destinations are within ``layers - k``. Rows of targets are equal in all forms.
    """
    if form not in FORMS:
        raise ValueError(f"form={form!r} is unknown: allowed are {', '.join(FORMS)}")
    if not 1 <= layers <= len(neighbourhood.fanouts):
        hops = len(neighbourhood.fanouts)
        raise ValueError(f"layers={layers} is not allowed: the neighbourhood has {hops} hops, so 1 to {hops}")
    return [_block(neighbourhood, layers, layer, form) for layer in range(1, layers + 1)]


def _block(neighbourhood: Neighbourhood, layers: int, layer: int, form: str) -> LayerBlock:
    outputs = int(np.searchsorted(neighbourhood.distance, layers - layer, side="right"))
    inputs = int(np.searchsorted(neighbourhood.distance, layers - layer + 1, side="right"))
    nodes = len(neighbourhood.nodes)
    rows, columns = {"tight": (outputs, inputs), "paper": (inputs, inputs), "full": (nodes, nodes)}[form]
    csr, fanout, positions = neighbourhood.csr, neighbourhood.fanouts[layer - 1], neighbourhood.positions
    end = int(csr.indptr[rows])
    indptr, shape = csr.indptr[: rows + 1], (rows, columns)
    degrees = np.diff(indptr)
    # only nodes near the targets have more edges than this layer's fanout
    over = 0 if fanout is None else int(np.flatnonzero(degrees > fanout).max(initial=-1)) + 1
    if form == "paper":
        mask = csr.indices[:end] < columns
        mask[: int(indptr[over])] &= row_places(indptr[: over + 1]) < (fanout or 0)
        places = np.flatnonzero(mask)
        starts = np.concatenate(([0], np.cumsum(mask)))[indptr].astype(indptr.dtype)
        return LayerBlock(Csr(starts, csr.indices[places], shape, csr.ids[places]), _select(positions, places))
    if over == 0:
        return LayerBlock(Csr(indptr, csr.indices[:end], shape, csr.ids[:end]), _select(positions, slice(end)))
    assert fanout is not None
    starts = np.concatenate(([0], np.cumsum(np.minimum(degrees, fanout)))).astype(indptr.dtype)
    first = np.arange(starts[over]) + np.repeat(indptr[:over] - starts[:over], np.diff(starts[: over + 1]))

    def shortened(array: Any) -> Any:
        return np.concatenate((array[first], array[indptr[over] : end]))

    chosen = None if positions is None else shortened(positions)
    return LayerBlock(Csr(starts, shortened(csr.indices), shape, shortened(csr.ids)), chosen)


def _select(positions: Nodes | None, places: slice | Nodes) -> Nodes | None:
    return None if positions is None else positions[places]
