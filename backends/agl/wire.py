"""Protocol Buffers' wire format for many records at once: packed integers, bytes, and their headers, in numpy."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Bounds = NDArray[np.int64]
VARINT, LENGTH_DELIMITED = 0, 2
_LONG = 256  # bytes per piece from which copying piece by piece beats an index per byte


class CorruptRecord(ValueError):
    """Bytes that are no GraphFeature."""


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

    def split(self) -> list[memoryview]:
        """Each piece as a view."""
        view = memoryview(self.data)
        return [view[start:end] for start, end in pairwise(self.bounds.tolist())]


def zigzag(values: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Interleave negative and positive numbers, so that small ones are short."""
    signed = values.astype(np.int64)
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def unzigzag(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Undo ``zigzag``."""
    half, sign = (values >> np.uint64(1)).view(np.int64), (values & np.uint64(1)).view(np.int64)
    signed: NDArray[np.int64] = half ^ -sign
    return signed


def differences(values: NDArray[np.integer], bounds: Bounds) -> NDArray[np.int64]:
    """Replace each value by its difference from the one before; the first of a record stays."""
    steps = np.diff(values.astype(np.int64), prepend=0)
    starts = bounds[:-1][np.diff(bounds) > 0]
    steps[starts] = values[starts]
    return steps


def sums(steps: NDArray[np.int64], bounds: Bounds) -> NDArray[np.int64]:
    """Undo ``differences``."""
    running = np.concatenate(([0], np.cumsum(steps)))
    return running[1:] - np.repeat(running[bounds[:-1]], np.diff(bounds))


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


def read_varints(pieces: Pieces) -> tuple[NDArray[np.uint64], Bounds]:
    """Undo ``varints``: the values and how many each record holds, as bounds; raises CorruptRecord."""
    ends = np.flatnonzero(pieces.data < 128)
    bounds = np.searchsorted(ends, pieces.bounds)
    filled = pieces.sizes > 0
    if (pieces.data[pieces.bounds[1:][filled] - 1] >= 128).any():
        raise CorruptRecord("a packed field ends inside a number")
    if len(ends) == len(pieces.data):
        return pieces.data.astype(np.uint64), bounds
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max(initial=0) > 10:
        raise CorruptRecord("a number is longer than 10 bytes")
    values = np.zeros(len(ends), dtype=np.uint64)
    for byte in range(int(lengths.max(initial=0))):
        here = np.flatnonzero(lengths > byte)
        values[here] |= (pieces.data[starts[here] + byte] & np.uint8(127)).astype(np.uint64) << np.uint64(7 * byte)
    return values, bounds


def headers(field: int, pieces: Pieces) -> Pieces:
    """Tag and length of a length-delimited field, of one byte string per record; empty fields have none."""
    held = pieces.sizes > 0
    pairs = np.stack([np.full(int(held.sum()), field << 3 | LENGTH_DELIMITED), pieces.sizes[held]], axis=1)
    return varints(pairs.ravel(), np.concatenate(([0], np.cumsum(held * 2))))


def scalars(field: int, values: NDArray[np.integer]) -> Pieces:
    """One unsigned number per record with its tag; zeros are left out, as proto3 wants it."""
    held = values > 0
    pairs = np.stack([np.full(int(held.sum()), field << 3 | VARINT), values[held]], axis=1)
    return varints(pairs.ravel(), np.concatenate(([0], np.cumsum(held * 2))))


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


def fields_of(record: memoryview) -> dict[int, memoryview | int]:
    """Split one record into its fields; raises CorruptRecord where lengths do not fit."""
    found: dict[int, memoryview | int] = {}
    at = 0
    while at < len(record):
        tag, at = _varint(record, at)
        value, at = _varint(record, at)
        if tag & 7 == VARINT:
            found[tag >> 3] = value
        elif tag & 7 == LENGTH_DELIMITED and at + value <= len(record):
            found[tag >> 3], at = record[at : at + value], at + value
        else:
            raise CorruptRecord(f"field {tag >> 3} of wire type {tag & 7} does not fit into {len(record)} bytes")
    return found


def _varint(record: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(record) and shift < 70:
        byte = record[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise CorruptRecord("the record ends inside a number")
