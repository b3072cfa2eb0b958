"""Layer blocks: the pruned matrix that each layer of a model multiplies with on a neighbourhood."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.definition import Nodes
from backends.kernels.extension import extension, threads
from backends.kernels.neighbourhood import Neighbourhood, expansions
from backends.kernels.sampling import row_places
from datasets.csr import Csr

FORMS = ("tight", "paper", "full")


@dataclass(frozen=True, eq=False)
class LayerBlock:
    """One layer's matrix: rows are its output nodes, columns its input nodes, both prefixes of the neighbourhood.

    Edges of ``csr`` have no ids of their own: their places in the whole graph are ``positions``.
    """

    csr: Csr
    neighbourhood: Neighbourhood
    values_of: Callable[[Any], Any]

    @cached_property
    def positions(self) -> Nodes | None:
        """Places of the edges in the whole graph's edge order, [nnz], ``None`` where the neighbourhood has none.

        They are gathered when first read, as only layers with weights or features of edges need them.
        """
        positions = self.neighbourhood.positions
        return None if positions is None else self.values_of(positions)


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
    # distances of their own type: numbers of another would convert the whole array
    depths = np.arange(layers - layer, layers - layer + 2, dtype=neighbourhood.distance.dtype)
    outputs, inputs = np.searchsorted(neighbourhood.distance, depths, side="right").tolist()
    nodes = len(neighbourhood.nodes)
    rows, columns = {"tight": (outputs, inputs), "paper": (inputs, inputs), "full": (nodes, nodes)}[form]
    csr, fanout = neighbourhood.csr, neighbourhood.fanouts[layer - 1]
    indptr, shape = csr.indptr[: rows + 1], (rows, columns)
    all_edges = itemgetter(slice(int(indptr[-1])))
    if form == "paper":
        mask = all_edges(csr.indices) < columns
        if fanout is not None:
            mask &= row_places(indptr) < fanout
        starts = np.concatenate(([0], np.cumsum(mask)))[indptr].astype(indptr.dtype)
        places = np.flatnonzero(mask)
        return LayerBlock(Csr(starts, csr.indices[places], shape), neighbourhood, itemgetter(places))
    if fanout == expansions(neighbourhood.fanouts)[0]:  # no row has more
        return LayerBlock(Csr(indptr, all_edges(csr.indices), shape), neighbourhood, all_edges)
    assert fanout is not None
    starts, indices = first_of_rows(indptr, csr.indices, fanout)
    return LayerBlock(Csr(starts, indices, shape), neighbourhood, lambda array: first_of_rows(indptr, array, fanout)[1])


def first_of_rows(indptr: Nodes, values: NDArray[Any], most: int) -> tuple[Nodes, NDArray[Any]]:
    """Bounds of rows that keep their first ``most`` entries, [rows + 1], and what ``values`` [nnz] holds of these."""
    if extension is not None:
        starts, chosen = extension.first_of_rows(indptr, values, most, threads())
        return starts, chosen
    counts = np.minimum(np.diff(indptr), most)
    starts = np.concatenate(([0], np.cumsum(counts))).astype(indptr.dtype)
    return starts, values[np.arange(starts[-1]) + np.repeat(indptr[:-1] - starts[:-1], counts)]
