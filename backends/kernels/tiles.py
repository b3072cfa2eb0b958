"""Dense tiles of 32 x 32 of a sparse matrix (Hetu-GNN, algorithm 3): multiplied without indices, the rest as it is.

A tile costs the same whatever is in it, so it pays where many of its cells are set: on the cores of a CPU, whose caches
serve repeated reads of a row anyway, from about a third on; the paper's 5 % are a GPU's. Empty cells are multiplied
too: an infinity in a row of X becomes NaN in all rows of a tile that reads it, not only where there is an edge. Tiles
that the border of the matrix cuts are stored whole, padded with zeros.
"""

import time
import weakref
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels import native
from backends.kernels.dispatch import IMPLEMENTATIONS, implementation
from backends.kernels.extension import extension
from backends.kernels.operand import Direction, operand
from datasets.csr import Csr

SIDE = 32
MOST_INFLATION = 32  # of which no product is faster, and its tiles would take a hundred bytes and more for an edge
LEAST_SHARE = 0.1  # of the edges in tiles: fewer cannot save 5 % of the product
GAIN = 0.95
_CHUNK = 1 << 22  # edges whose tiles are counted together
_SAMPLES, _SAMPLE_EDGES = 8, 1 << 17  # runs of rows in which tiles are looked for first, and their edges
_TRIALS = 3
_NONE = np.empty(0, dtype=np.int64)


@dataclass(eq=False)
class Tiles:
    """One direction of a matrix as tiles and the rest.

    ``shape`` is that of the matrix, ``starts`` [row blocks + 1] says where the tiles of 32 rows begin, ``columns``
    [tiles] each one's first column. ``edges`` are the positions of the edges in tiles, ``cells`` their places among the
    tiles' values, which are zero beyond the border; ``rest`` holds the other edges, ``rest_edges`` their positions.
    """

    threshold: float
    shape: tuple[int, int]
    starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    edges: Tensor
    cells: Tensor
    rest: Direction
    rest_edges: Tensor
    splits: "tuple[weakref.ref[Tensor] | None, int, Tensor, Tensor | None] | None" = field(default=None, repr=False)

    @property
    def share(self) -> float:
        """Share of the edges that lie in tiles."""
        return len(self.edges) / max(1, len(self.edges) + len(self.rest_edges))

    @property
    def inflation(self) -> float:
        """Multiplications of tiles and rest, over one per edge."""
        edges = len(self.edges) + len(self.rest_edges)
        return (len(self.columns) * SIDE * SIDE + len(self.rest_edges)) / max(1, edges)

    def split(self, weight: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """Values of the tiles [tiles * 1024], and weights of the rest; kept for the last weights until they change."""
        is_tracked = weight is None or not weight.is_inference()  # else nothing tells whether it changed
        if self.splits is not None and is_tracked:
            reference, version, values, rest = self.splits
            is_same = weight is None if reference is None else reference() is weight and weight is not None
            if is_same and values.dtype == dtype and version == (0 if weight is None else weight._version):
                return values, rest
        values = torch.zeros(len(self.columns) * SIDE * SIDE, dtype=dtype, device=self.edges.device)
        ones = values.new_ones(len(self.edges)) if weight is None else weight.index_select(0, self.edges)
        if values.is_cuda:  # parallel edges add up in one order: index_add_ has none there, index_put_ none on a CPU
            values.index_put_((self.cells,), ones, accumulate=True)
        else:
            values.index_add_(0, self.cells, ones)
        rest = None if weight is None else weight.index_select(0, self.rest_edges)
        if is_tracked:
            reference, version = (None, 0) if weight is None else (weakref.ref(weight), weight._version)
            self.splits = reference, version, values, rest
        return values, rest


@dataclass(frozen=True)
class TileChoice:
    """Whether tiles are used, the share of the edges that they hold, and the least seconds without and with them.

    ``inflation`` counts multiplications over one per edge, ``threshold`` is the density that used tiles have at least.
    """

    used: bool
    share: float
    seconds: tuple[float, float] | None = None
    inflation: float = 1.0
    threshold: float = 0.0

    @property
    def gain(self) -> float:
        """Seconds without tiles over those with them, 1 where none were tried."""
        without, with_tiles = self.seconds or (1.0, 1.0)
        return without / with_tiles


def find_tiles(side: Direction, columns: int, threshold: float) -> Tiles:
    """Find the tiles of which at least the share ``threshold`` of the cells has an edge, counting parallel edges.

    Tiles that the border cuts count and are stored as whole ones, as in ``datasets.statistics.tile_histogram``.
    """
    least, width = max(1, int(np.ceil(threshold * SIDE * SIDE))), max(1, -(-columns // SIDE))
    blocks = -(-side.rows // SIDE)
    starts, tile_columns, edges, cells = [0], [], [], []
    first, total = 0, 0
    while first < blocks:
        last = _end(side, first, blocks)
        row_starts = side.indptr[first * SIDE : last * SIDE + 1]  # the last block may have fewer rows
        begin, end = int(row_starts[0]), int(row_starts[-1])
        column = side.indices[begin:end].astype(np.int64)
        row = np.repeat(first * SIDE + np.arange(len(row_starts) - 1), np.diff(row_starts))
        key = (row // SIDE - first) * width + column // SIDE
        names, place, counts = np.unique(key, return_inverse=True, return_counts=True)
        dense = counts >= least
        number = np.cumsum(dense) - 1 + total
        chosen = np.flatnonzero(dense[place])
        tile = number[place[chosen]]
        edges.append(begin + chosen)
        cells.append((tile * SIDE + row[chosen] % SIDE) * SIDE + column[chosen] % SIDE)
        tile_columns.append(names[dense] % width * SIDE)
        per_block = np.bincount(names[dense] // width, minlength=last - first)
        starts.extend(total + np.cumsum(per_block))
        total, first = total + int(dense.sum()), last
    positions = np.concatenate([*edges, _NONE])
    rest = np.ones(len(side.indices), dtype=bool)
    rest[positions] = False
    indptr = np.concatenate(([0], np.cumsum(rest)))[side.indptr].astype(side.indptr.dtype)
    remaining = Csr(indptr, side.indices[rest], (side.rows, columns))
    return Tiles(
        threshold,
        (side.rows, columns),
        np.array(starts, dtype=np.int64),
        np.concatenate([*tile_columns, _NONE]).astype(np.int64),
        torch.from_numpy(positions),
        torch.from_numpy(np.concatenate([*cells, _NONE]).astype(np.int64)),
        Direction.of(remaining),
        torch.from_numpy(np.flatnonzero(rest)),
    )


def _end(side: Direction, first: int, blocks: int) -> int:
    """The row blocks from ``first`` on that hold about ``_CHUNK`` edges, one at least."""
    row = int(np.searchsorted(side.indptr, _edge_after(side, first * SIDE, _CHUNK), side="right"))
    return min(blocks, max(first + 1, row // SIDE))


def _edge_after(side: Direction, first: int, count: int) -> np.integer[Any]:
    """The number of the edge that lies ``count`` edges behind the first one of a row, or the number of all edges.

    It has the type of ``indptr``: to look for another one there would convert the whole array.
    """
    edge: np.integer[Any] = side.indptr.dtype.type(min(int(side.indptr[first]) + count, int(side.indptr[-1])))
    return edge


def choose_tiles(
    csr: Csr,
    width: int,
    weight: Tensor | None,
    transposed: bool,
    threshold: float,
    trial: bool = True,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> TileChoice:
    """Try a product with and without tiles of at least this density, and keep them for later calls if they are faster.

    Without ``weight`` [nnz], in the forward order, the product is of ``dtype`` and all edges count 1. Without ``trial``
    tiles are kept wherever there are some.
    """
    device = torch.device(device)
    if device.type == "cpu" and (extension is None or IMPLEMENTATIONS["cpu"] is not native):
        return TileChoice(False, 0.0)
    if device.type == "cuda" and find_spec("triton") is None:
        return TileChoice(False, 0.0)
    matrix, weight = operand(csr), None if weight is None else weight.detach().contiguous()
    side, columns = (matrix.backward, csr.shape[0]) if transposed else (matrix.forward, csr.shape[1])
    side.tiles.pop(width, None)
    if not trial:
        tiles = find_tiles(side, columns, threshold)
        side.tiles |= {width: tiles} if tiles.share else {}
        return TileChoice(tiles.share > 0, tiles.share, inflation=tiles.inflation, threshold=threshold)
    if (share := _share_in_samples(side, columns, threshold)) < LEAST_SHARE:
        return TileChoice(False, share)
    known = (tiles for tiles in side.tiles.values() if tiles.threshold == threshold)  # of another width
    tiles = next(known, None) or find_tiles(side, columns, threshold)
    if tiles.share < LEAST_SHARE or tiles.inflation > MOST_INFLATION:
        return TileChoice(False, tiles.share, inflation=tiles.inflation)
    dtype = dtype if weight is None else weight.dtype
    x, seconds = torch.ones((columns, width), dtype=dtype, device=device), [float("inf")] * 2
    multiply = implementation("x", x).product
    for _ in range(_TRIALS):
        for with_tiles in (False, True):
            side.tiles.pop(width, None)
            side.tiles |= {width: tiles} if with_tiles else {}
            _wait_for(device)
            start = time.perf_counter()
            multiply(matrix, x, weight, None, transposed)
            _wait_for(device)
            seconds[with_tiles] = min(seconds[with_tiles], time.perf_counter() - start)
    used = seconds[1] < GAIN * seconds[0]
    if not used:
        side.tiles.pop(width, None)
    return TileChoice(used, tiles.share, (seconds[0], seconds[1]), tiles.inflation, threshold)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _share_in_samples(side: Direction, columns: int, threshold: float) -> float:
    """Share of the edges in tiles, of runs of rows spread over the matrix."""
    inside = total = 0
    for first in np.unique(np.linspace(0, max(0, -(-side.rows // SIDE) - 1), _SAMPLES).astype(np.int64)) * SIDE:
        last = int(np.searchsorted(side.indptr, _edge_after(side, int(first), _SAMPLE_EDGES)))
        blocks = -(-max(1, last - int(first)) // SIDE)
        indptr = side.indptr[first : first + blocks * SIDE + 1]
        begin, end = int(indptr[0]), int(indptr[-1])
        rows = len(indptr) - 1
        part = Direction(indptr - begin, side.indices[begin:end], np.array([0, rows]), side.hubs[:0], rows)
        inside, total = inside + len(find_tiles(part, columns, threshold).edges), total + end - begin
    return inside / max(1, total)
