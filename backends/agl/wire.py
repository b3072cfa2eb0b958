"""Protocol Buffers' wire format for many records at once: packed integers, bytes, and their headers, in numpy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Bounds = NDArray[np.int64]
VARINT, LENGTH_DELIMITED = 0, 2
_LONG = 256  # bytes per piece from which copying piece by piece beats an index per byte


class CorruptRecord(ValueError):
    """Bytes that are no GraphFeature; ``record`` is its place among those that were read, where one is to blame."""

    def __init__(self, told: str, record: int | None = None) -> None:
        super().__init__(told if record is None else f"record {record}: {told}")
        self.told, self.record = told, record


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
    def slices(self) -> "Slices":
        """The pieces where they lie."""
        return Slices(self.data, self.bounds[:-1], self.bounds[1:])


@dataclass(frozen=True, eq=False)
class Slices:
    """Byte strings anywhere in one buffer: string r is ``data[starts[r]:ends[r]]``."""

    data: Bytes
    starts: Bounds
    ends: Bounds

    @classmethod
    def of(cls, strings: Sequence[bytes | memoryview]) -> "Slices":
        """Copy strings into one buffer."""
        bounds = np.concatenate(([0], np.cumsum([len(string) for string in strings], dtype=np.int64)))
        return cls(np.frombuffer(b"".join(strings), dtype=np.uint8), bounds[:-1], bounds[1:])

    def taken(self, rows: Bounds) -> "Slices":
        """Some of the strings, where they lie."""
        return Slices(self.data, self.starts[rows], self.ends[rows])

    def split(self) -> list[memoryview]:
        """Each string as a view."""
        view = memoryview(self.data)
        return [view[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]

    def joined(self) -> Pieces:
        """The strings one after the other."""
        bounds = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        return Pieces(np.frombuffer(b"".join(self.split()), dtype=np.uint8), bounds)


@dataclass(frozen=True, eq=False)
class Fields:
    """Fields of many records, [fields + 1, records]: ``kinds`` is the wire type, -1 where a record has no such field.

    A field of bytes is ``data[starts:ends]``, one of a number is in ``numbers``.
    """

    data: Bytes
    kinds: NDArray[np.int8]
    starts: Bounds
    ends: Bounds
    numbers: NDArray[np.int64]

    def pieces(self, field: int) -> Pieces:
        """A field's bytes of all records, empty where a record has none."""
        return Slices(self.data, self.starts[field], self.ends[field]).joined()


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
    inside = pieces.data[pieces.bounds[1:][filled] - 1] >= 128
    if inside.any():
        raise CorruptRecord("a packed field ends inside a number", int(np.flatnonzero(filled)[inside.argmax()]))
    if len(ends) == len(pieces.data):
        return pieces.data.astype(np.uint64), bounds
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max(initial=0) > 10:
        place = int(starts[lengths.argmax()])
        raise CorruptRecord("a number is longer than 10 bytes", int(np.searchsorted(pieces.bounds, place, "right")) - 1)
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


def fields_of(strings: Slices, fields: int) -> Fields:
    """Split records into their fields 1 to ``fields``, all records a field at a time; raises CorruptRecord."""
    count, at = len(strings.starts), strings.starts.copy()
    starts, ends, numbers = (np.zeros((fields + 1, count), dtype=np.int64) for _ in range(3))
    kinds = np.full((fields + 1, count), -1, dtype=np.int8)
    while len(rows := np.flatnonzero(at < strings.ends)):
        tags = _varint(strings, at, rows)
        values = _varint(strings, at, rows)
        kind, wide = tags & 7, values > (strings.ends - at)[rows]
        wrong = (kind != VARINT) & ((kind != LENGTH_DELIMITED) | wide | (values < 0))
        if wrong.any():
            first, size = int(wrong.argmax()), int((strings.ends - strings.starts)[rows[wrong.argmax()]])
            told = f"field {tags[first] >> 3} of wire type {kind[first]} does not fit into {size} bytes"
            raise CorruptRecord(told, int(rows[first]))
        known = (tags >> 3 >= 0) & (tags >> 3 <= fields)
        name, length = np.where(known, tags >> 3, 0), np.where(kind == VARINT, 0, values)
        kinds[name, rows], numbers[name, rows] = kind, values
        starts[name, rows], ends[name, rows] = at[rows], at[rows] + length
        at[rows] += length
    return Fields(strings.data, kinds, starts, ends, numbers)


def _varint(strings: Slices, at: Bounds, rows: Bounds) -> NDArray[np.int64]:
    """Read the number that stands in each of ``rows`` at ``at``, which moves behind it."""
    value, open_ = np.zeros(len(rows), dtype=np.int64), np.arange(len(rows))
    for shift in range(0, 70, 7):
        here = rows[open_]
        over = at[here] >= strings.ends[here]
        if over.any():
            raise CorruptRecord("the record ends inside a number", int(here[over.argmax()]))
        byte = strings.data[at[here]].astype(np.int64)
        value[open_] |= (byte & 127) << shift
        at[here] += 1
        open_ = open_[byte >= 128]
        if not len(open_):
            return value
    raise CorruptRecord("a number is longer than 10 bytes", int(rows[open_[0]]))
