"""Protocol Buffers' wire format in numpy: varints, headers and bytes of many records at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.graphfeatures import Strings

Bytes = NDArray[np.uint8]
Bounds = NDArray[np.int64]
VARINT, LENGTH_DELIMITED = 0, 2
_LONG = 256  # bytes of a piece from which copying piece by piece is faster than an index per byte


@dataclass(frozen=True, eq=False)
class Pieces:
    """Consecutive byte strings, one per record: piece r is ``data[bounds[r]:bounds[r + 1]]``."""

    data: Bytes
    bounds: Bounds

    @property
    def sizes(self) -> Bounds:
        """Bytes of each piece."""
        sizes: Bounds = self.bounds[1:] - self.bounds[:-1]
        return sizes

    @property
    def strings(self) -> Strings:
        """The pieces as strings that share these bytes."""
        return Strings(self.data, self.bounds[:-1], self.bounds[1:])


def zigzag(values: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Map signed to unsigned numbers, alternating in sign, so that numbers near 0 have short varints."""
    signed = values.astype(np.int64)
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def differences(values: NDArray[np.integer], bounds: Bounds) -> NDArray[np.int64]:
    """Replace each value by its difference to the one before; the first of a record stays as it is."""
    steps = np.diff(values.astype(np.int64), prepend=0)
    starts = bounds[:-1][np.diff(bounds) > 0]
    steps[starts] = values[starts]
    return steps


def varints(values: NDArray[Any], bounds: Bounds) -> Pieces:
    """Write unsigned integers as base-128 varints; ``bounds`` counts values per record."""
    largest = int(values.max(initial=0))
    if largest < 128:
        return Pieces(values.astype(np.uint8), bounds)
    words = values.astype(np.uint64)
    lengths = np.ones(len(words), dtype=np.int64)
    for length in range(1, -(-largest.bit_length() // 7)):
        lengths += words >= np.uint64(1 << 7 * length)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    data = np.empty(ends[-1], dtype=np.uint8)
    for byte in range(int(lengths.max())):
        here = np.flatnonzero(lengths > byte)
        more = (lengths[here] > byte + 1).astype(np.uint8) << 7
        data[ends[here] + byte] = ((words[here] >> np.uint64(7 * byte)) & np.uint64(127)).astype(np.uint8) | more
    return Pieces(data, ends[bounds])


def headers(field: int, pieces: Pieces) -> Pieces:
    """Tag and length of a length-delimited field, of one byte string per record; empty fields have none."""
    present = pieces.sizes > 0
    pairs = np.stack([np.full(int(present.sum()), field << 3 | LENGTH_DELIMITED), pieces.sizes[present]], axis=1)
    return varints(pairs.ravel(), np.concatenate(([0], np.cumsum(present * 2))))


def scalars(field: int, values: NDArray[np.integer]) -> Pieces:
    """One unsigned number per record with its tag; zeros are left out, as proto3 requires."""
    present = values > 0
    pairs = np.stack([np.full(int(present.sum()), field << 3 | VARINT), values[present]], axis=1)
    return varints(pairs.ravel(), np.concatenate(([0], np.cumsum(present * 2))))


def interleave(columns: list[Pieces]) -> Pieces:
    """Join the r-th pieces of all columns into record r, for every r."""
    sizes = np.stack([column.sizes for column in columns], axis=1)
    ends = np.concatenate(([0], np.cumsum(sizes.ravel())))
    starts = ends[:-1].reshape(sizes.shape)
    data = np.empty(ends[-1], dtype=np.uint8)
    for index, column in enumerate(columns):
        if len(column.data) < _LONG * len(sizes):
            shift = np.repeat(starts[:, index] - column.bounds[:-1], sizes[:, index])
            data[shift + np.arange(len(column.data))] = column.data
            continue
        pairs = zip(starts[:, index].tolist(), column.bounds.tolist(), column.bounds[1:].tolist(), strict=False)
        for start, first, last in pairs:
            data[start : start + last - first] = column.data[first:last]
    return Pieces(data, ends[:: len(columns)].copy())
