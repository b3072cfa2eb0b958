"""Matrices as Triton's kernels take them: the edges of each row in pieces, one program per piece."""

import weakref
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels.operand import Direction, Operand

PIECE = 256  # edges that one program adds up; a row of more is cut, so that no program waits for a hub


@dataclass(frozen=True, eq=False)
class RowPieces:
    """Consecutive edges, ``bounds`` int64 [pieces + 1], of one row each, ``rows`` int64 [pieces].

    ``slots`` int64 [pieces] is -1 where a piece is its whole row, else the place of its partial sum. ``partials`` of
    these are added up over the pieces ``hubs``.
    """

    bounds: Tensor
    rows: Tensor
    slots: Tensor
    partials: int
    hubs: "RowPieces | None"

    @classmethod
    def of(cls, indptr: NDArray[np.integer], device: torch.device, size: int = PIECE) -> "RowPieces":
        """Cut rows into pieces of at most ``size`` edges; a row without edges is one piece."""
        starts = indptr.astype(np.int64)
        counts = np.maximum(1, -(-np.diff(starts) // size))
        rows = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        bounds = np.append(starts[rows] + size * place, starts[-1])
        cut = counts[rows] > 1
        slots = np.where(cut, np.cumsum(cut) - 1, -1)
        hub_rows = np.flatnonzero(counts > 1)
        hubs = None
        if len(hub_rows):
            hub_bounds = np.concatenate(([0], np.cumsum(counts[hub_rows])))
            hubs = cls(*_copies(device, hub_bounds, hub_rows, np.full(len(hub_rows), -1)), 0, None)
        return cls(*_copies(device, bounds, rows, slots), int(cut.sum()), hubs)

    def __len__(self) -> int:
        return len(self.rows)


def _copies(device: torch.device, *arrays: NDArray[np.int64]) -> list[Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays]


@dataclass(frozen=True, eq=False)
class Side:
    """Rows of a matrix or of its transpose: their pieces, and the column of each edge, int32 or int64 [nnz]."""

    count: int
    pieces: RowPieces
    columns: Tensor

    @classmethod
    def of(cls, direction: Direction, device: torch.device) -> "Side":
        """Copy one direction of a matrix to a device."""
        columns = torch.from_numpy(np.ascontiguousarray(direction.indices)).to(device)
        return cls(direction.rows, RowPieces.of(direction.indptr, device), columns)


_SIDES: "weakref.WeakKeyDictionary[Operand, dict[tuple[torch.device, bool], Side]]" = weakref.WeakKeyDictionary()


def side_of(matrix: Operand, device: torch.device, transposed: bool = False) -> Side:
    """The rows of a matrix, or of its transpose, on a device; copied there once."""
    sides = _SIDES.setdefault(matrix, {})
    if (device, transposed) not in sides:
        sides[device, transposed] = Side.of(matrix.backward if transposed else matrix.forward, device)
    return sides[device, transposed]
