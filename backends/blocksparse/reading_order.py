"""In which order a product in panels or tiles gathers the rows of its table, for the model of the caches."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from backends.blocksparse.adaptive import FORMED, Forms
from backends.kernels.operand import Direction, operand
from backends.kernels.tiles import SIDE, Tiles
from datasets.csr import Csr

Rows = NDArray[np.integer]


def reading_orders(csr: Csr, forms: Forms, widths: Mapping[str, int]) -> dict[str, Rows]:
    """Numbers of the gathered rows in their order, by the names of those products that have panels or tiles.

    ``forms`` are what ``adapt`` answered for products of these ``widths`` with the matrix.
    """
    matrix, names = operand(csr), {name for form in FORMED for name in forms.get(form, ())}
    products = {
        name: (matrix.backward if name.endswith("backward") else matrix.forward, widths[name]) for name in names
    }
    orders = {product: reading_order(*product) for product in set(products.values())}
    return {name: orders[product] for name, product in products.items()}


def reading_order(side: Direction, width: int) -> Rows:
    """Numbers of the rows that a product with a table of ``width`` columns gathers, in their order."""
    if width in side.tiles:
        return _in_tiles(side.tiles[width])
    starts, indptr = side.panels[width], side.indptr
    panels = [_panel(side, begins, ends) for begins, ends in pairwise(starts)]
    return np.concatenate([*panels, *(side.indices[indptr[hub] : indptr[hub + 1]] for hub in side.hubs.tolist())])


def _panel(side: Direction, begins: Rows, ends: Rows) -> Rows:
    """The edges of one panel by rows, without those of hubs, which are summed whole after the last panel."""
    counts = (ends - begins).astype(np.int64)
    counts[side.hubs] = 0
    skipped = begins - (np.cumsum(counts) - counts)
    return side.indices[np.repeat(skipped, counts) + np.arange(counts.sum())]


def _in_tiles(tiles: Tiles) -> Rows:
    """The edges in no tile, then the columns of each tile once, as its further rows find them in the nearest cache."""
    columns = (tiles.columns[:, None] + np.arange(SIDE)).ravel()
    inside = columns[columns < tiles.shape[1]]
    return np.concatenate([tiles.rest.indices, inside.astype(tiles.rest.indices.dtype)])
