"""DGL's binary files, written and read without DGL: dictionaries of tensors, and graphs of one node and one edge type.

The layout was read off files of DGL 1.1.3. All numbers are little-endian. Equal input gives equal bytes: DGL leaves
whatever was in memory in the 4 KiB before the graph, here they are zero.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_TENSORS, _GRAPHS = 0xDD5A9FBE3FA2443F, 0xDD2E4FF046B4A13F
_ARRAY, _HETERO, _UNIT, _COO = 0xDD5E40F096B4A13F, 0xDD589FBE35224ABF, 0xDD2E60F0F6B4A127, 0xDD61FFD305DFF127
_STRUCTURE, _STRUCTURE_CSR = 0xDD3C5FFE20046ABF, 0xDD6CD31205DFF127
_VERSION, _HETERO_GRAPH = 2, 2
_FORMAT_FLAG, _COO_FORMAT, _ALL_FORMATS = 1 << 32, 1, 7
_HEADER = 4096
_CODES = {"i": 0, "u": 1, "f": 2, "b": 1}  # DLPack's; DGL stores truth values as bytes


class FormatError(ValueError):
    """A file that is not what its name says."""


@dataclass(frozen=True)
class TensorRows:
    """An array that is written piece by piece: ``pieces`` have its type and together its rows."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Iterable[NDArray[Any]]

    @classmethod
    def of(cls, array: NDArray[Any]) -> "TensorRows":
        """A column of one piece."""
        return cls(array.dtype, array.shape, [array])


NamedRows = Mapping[str, TensorRows]


def write_tensors(path: Path, tensors: NamedRows) -> None:
    """Write a dictionary of tensors, which ``dgl.data.utils.load_tensors`` reads."""
    with path.open("wb") as file:
        _numbers(file, _TENSORS, len(tensors))
        _write_named(file, tensors)


def write_graph(
    path: Path, nodes: int, sources: TensorRows, destinations: TensorRows, ndata: NamedRows, edata: NamedRows
) -> None:
    """Write one graph in coordinate form, which ``dgl.load_graphs`` reads; ids are int64."""
    with path.open("wb") as file:
        _numbers(file, _GRAPHS, _VERSION, _HETERO_GRAPH, 1)
        file.write(bytes(_HEADER - file.tell()))
        start = _HEADER + 16
        _numbers(file, start, 0)  # no labels
        _numbers(file, _HETERO)
        _write_structure(file)
        _numbers(file, 1, _UNIT, _FORMAT_FLAG | _COO_FORMAT, _FORMAT_FLAG | _ALL_FORMATS)
        _write_structure(file)
        _numbers(file, _COO, nodes, nodes)
        for column in (sources, destinations, TensorRows.of(np.empty(0, np.int64))):
            _write_column(file, column)
        file.write(b"\0\0")  # neither rows nor columns are said to be sorted
        _numbers(file, 1, nodes)
        for columns in (ndata, edata):
            _numbers(file, 1)
            _write_named(file, columns)
        for name in ("_N", "_E"):
            _numbers(file, 1)
            _write_text(file, name)
        _numbers(file, 16, 1, start, 16)


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Map the tensors of a file; raises FormatError for another file, or one that ends too soon."""
    reader = _Reader(path)
    reader.expect(_TENSORS)
    reader.number()
    return reader.named()


@dataclass(frozen=True)
class StoredGraph:
    """A graph that was read: mapped arrays, ``sources`` and ``destinations`` [edges]."""

    nodes: int
    sources: NDArray[np.int64]
    destinations: NDArray[np.int64]
    ndata: dict[str, NDArray[Any]]
    edata: dict[str, NDArray[Any]]

    def damage(self) -> str:
        """A sentence on the first column of another length or end that is no node, empty if there is none."""
        edges = len(self.sources)
        for columns, count in ((self.ndata, self.nodes), (self.edata | {"destinations": self.destinations}, edges)):
            for name, column in columns.items():
                if column.shape[:1] != (count,):
                    return f"{name} has the shape {list(column.shape)}, {count} rows are needed"
        for what, ends in (("source", self.sources), ("destination", self.destinations)):
            if edges and (ends.min() < 0 or ends.max() >= self.nodes):
                edge = int(np.flatnonzero((ends < 0) | (ends >= self.nodes))[0])
                return f"edge {edge} has {what} {ends[edge]}, there are {self.nodes} nodes"
        return ""


def read_graph(path: Path) -> StoredGraph:
    """Map a graph that ``write_graph`` or DGL wrote in coordinate form; raises FormatError for another file."""
    reader = _Reader(path)
    reader.expect(_GRAPHS, _VERSION, _HETERO_GRAPH, 1)
    reader.position = _HEADER
    reader.position = reader.number()
    reader.expect(_HETERO)
    reader.structure()
    reader.expect(1, _UNIT, _FORMAT_FLAG | _COO_FORMAT)
    reader.number()
    reader.structure()
    reader.expect(_COO)
    nodes = reader.number()
    reader.expect(nodes)
    sources, destinations, _ = (reader.array() for _ in range(3))
    reader.position += 2
    reader.expect(1, nodes)
    attributes = []
    for _ in range(2):
        reader.expect(1)
        attributes.append(reader.named())
    return StoredGraph(nodes, sources, destinations, *attributes)


def _numbers(file: BinaryIO, *values: int) -> None:
    file.write(struct.pack(f"<{len(values)}Q", *values))


def _write_text(file: BinaryIO, text: str) -> None:
    encoded = text.encode()
    _numbers(file, len(encoded))
    file.write(encoded)


def _write_named(file: BinaryIO, columns: NamedRows) -> None:
    _numbers(file, len(columns))
    for name in sorted(columns):
        _write_text(file, name)
        _write_column(file, columns[name])


def check_type(dtype: np.dtype[Any]) -> None:
    """Raise FormatError for a type of numbers that DGL's files do not have."""
    if dtype.kind not in _CODES or dtype.itemsize > (1 if dtype.kind == "u" else 8):
        raise FormatError(f"DGL has no tensors of {dtype}: give signed integers, bytes or floats")


def _write_column(file: BinaryIO, column: TensorRows) -> None:
    dtype, shape = column.dtype.newbyteorder("<"), column.shape
    check_type(dtype)
    size = math.prod(shape) * dtype.itemsize
    _numbers(file, _ARRAY, 0)
    file.write(struct.pack("<iiiBBH", 1, 0, len(shape), _CODES[dtype.kind], dtype.itemsize * 8, 1))
    _numbers(file, *shape, size)
    start = file.tell()
    for piece in column.pieces:
        file.write(memoryview(np.ascontiguousarray(piece, dtype=dtype)).cast("B") if piece.size else b"")
    if file.tell() - start != size:
        raise AssertionError(f"{file.tell() - start} bytes were written of a tensor {dtype} {list(shape)}")


def _write_structure(file: BinaryIO) -> None:
    """One node type with one edge type to itself, as a graph of its own."""
    _numbers(file, _STRUCTURE, _STRUCTURE_CSR, 1, 1)
    for values in ([0, 1], [0], [0]):
        _write_column(file, TensorRows.of(np.array(values, dtype=np.int64)))
    file.write(b"\0")


class _Reader:
    """Reads a file from ``position`` on; arrays are mapped, not copied."""

    def __init__(self, path: Path) -> None:
        self.path, self.position = path, 0
        self.bytes: NDArray[np.uint8] = (
            np.memmap(path, dtype=np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
        )

    def take(self, size: int) -> NDArray[np.uint8]:
        end = self.position + size
        if size < 0 or end > len(self.bytes):
            raise FormatError(f"{self.path} ends at byte {len(self.bytes)}, {end} are needed: it is cut or no DGL file")
        taken = self.bytes[self.position : end]
        self.position = end
        return taken

    def number(self) -> int:
        return int.from_bytes(self.take(8).tobytes(), "little")

    def expect(self, *values: int) -> None:
        for value in values:
            start, number = self.position, self.number()
            if number != value:
                raise FormatError(f"{self.path} has {number:#x} at byte {start} where {value:#x} is needed")

    def structure(self) -> None:
        self.expect(_STRUCTURE, _STRUCTURE_CSR, 1, 1)
        for _ in range(3):
            self.array()
        self.position += 1

    def array(self) -> NDArray[Any]:
        self.expect(_ARRAY, 0)
        _, _, dimensions, code, bits, _ = struct.unpack("<iiiBBH", self.take(16).tobytes())
        kinds = {"i": 0, "u": 1, "f": 2}
        kind = next((kind for kind, number in kinds.items() if number == code), None)
        if kind is None or bits not in (8, 16, 32, 64) or not 0 <= dimensions <= 8:
            raise FormatError(f"{self.path} has a tensor of an unknown type at byte {self.position}")
        dtype, shape = np.dtype(f"{kind}{bits // 8}"), tuple(self.number() for _ in range(dimensions))
        size = self.number()
        if size != math.prod(shape) * dtype.itemsize:
            raise FormatError(f"{self.path} has {size} bytes for a tensor {dtype} {list(shape)}")
        data = self.take(size)
        return np.frombuffer(data, dtype=dtype).reshape(shape)

    def named(self) -> dict[str, NDArray[Any]]:
        return dict(self._items())

    def _items(self) -> Iterator[tuple[str, NDArray[Any]]]:
        for _ in range(self.number()):
            name = self.take(self.number()).tobytes().decode()
            yield name, self.array()
