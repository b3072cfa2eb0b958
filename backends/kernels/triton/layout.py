"""Matrices as Triton's kernels take them: the edges of each row in pieces, which programs add up side by side."""

import weakref
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels.operand import Direction, Operand
from datasets.csr import index_dtype

# Shorter pieces of a small matrix would take less time than starting the kernel that adds up their sums.
PIECE = 256  # edges that a program adds up: a row of more is cut, so that nothing waits for a hub
WINDOW = 1 << 16  # rows whose pieces are sorted by length: programs take equal ones, neighbours stay close


@dataclass(frozen=True, eq=False)
class RowPieces:
    """Consecutive edges of one row each, from ``begins`` to ``ends``, in row ``rows``: int32 or int64 [pieces].

    ``slots`` [pieces] is -1 where a piece is its whole row, else the place of its partial sum. ``partials`` of these
    are added up over the pieces ``hubs``. Pieces of about equal length are neighbours, the longest come first.
    """

    begins: Tensor
    ends: Tensor
    rows: Tensor
    slots: Tensor
    partials: int
    hubs: "RowPieces | None"

    @classmethod
    def of(
        cls,
        indptr: NDArray[np.integer],
        device: torch.device,
        size: int | None = None,
        rows: NDArray[np.integer] | None = None,
    ) -> "RowPieces":
        """Cut rows, by default all, into pieces of at most ``size`` edges; a row without edges is one piece."""
        starts = indptr.astype(np.int64)
        size = size or PIECE
        rows = np.arange(len(starts) - 1) if rows is None else rows
        counts = np.maximum(1, -(-np.diff(starts) // size))
        of_row = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(of_row)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = starts[of_row] + size * place
        ends = np.minimum(begins + size, starts[of_row + 1])
        cut = counts[of_row] > 1
        slots = np.where(cut, np.cumsum(cut) - 1, -1)
        hubs = None
        if len(hub_rows := np.flatnonzero(counts > 1)):
            hubs = cls.of(np.concatenate(([0], np.cumsum(counts[hub_rows]))), device, size, rows[hub_rows])
        order = np.lexsort((begins - ends, of_row // WINDOW))
        dtype = index_dtype(int(max(starts[-1] + size, rows.max(initial=0))))  # programs count beyond the last edge
        arrays = (torch.from_numpy(one[order].astype(dtype)).to(device) for one in (begins, ends, rows[of_row], slots))
        return cls(*arrays, int(cut.sum()), hubs)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Side:
    """Rows of a matrix or of its transpose: their pieces, and the column of each edge, int32 or int64 [nnz]."""

    direction: Direction
    pieces: RowPieces
    columns: Tensor

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.direction.rows

    @classmethod
    def of(cls, direction: Direction, device: torch.device) -> "Side":
        """Copy one direction of a matrix to a device."""
        columns = torch.from_numpy(np.array(direction.indices)).to(device)
        return cls(direction, RowPieces.of(direction.indptr, device), columns)

    @cached_property
    def edge_rows(self) -> Tensor:
        """Row of each edge, of the columns' type [nnz]."""
        degrees = torch.from_numpy(np.diff(self.direction.indptr)).to(self.columns.device)
        rows = torch.arange(self.count, device=self.columns.device, dtype=self.columns.dtype)
        return rows.repeat_interleave(degrees, output_size=len(self.columns))


_SIDES: "weakref.WeakKeyDictionary[Operand, dict[tuple[torch.device, bool], Side]]" = weakref.WeakKeyDictionary()


def side_of(matrix: Operand, device: torch.device, transposed: bool = False) -> Side:
    """The rows of a matrix, or of its transpose, on a device; copied there once."""
    sides = _SIDES.setdefault(matrix, {})
    if (device, transposed) not in sides:
        sides[device, transposed] = Side.of(matrix.backward if transposed else matrix.forward, device)
    return sides[device, transposed]
