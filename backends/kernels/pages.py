"""Columns of uncompressed Parquet files, read where they lie in the file: plain values, checked by their checksums."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.graphfeatures import Strings
from backends.kernels.native import native, threads

TYPES = {"BYTE_ARRAY": 0, "INT64": 8, "FLOAT": 4}


class PlainFile:
    """A Parquet file, mapped; ``bytes_read`` counts its columns that were asked for.

    Raises ValueError, an error of pyarrow or OSError for what is damaged, and KeyError for a column that it lacks.
    """

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.metadata = parquet.read_metadata(path)
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.bytes_read = 0

    def strings(self, name: str) -> Strings:
        """A column of byte strings."""
        return Strings(self.data, *self._found(name, "BYTE_ARRAY"))

    def numbers(self, name: str, kind: str) -> NDArray[Any]:
        """A column of numbers, or of lists of them, one after the other; ``kind`` is Parquet's name of their type."""
        starts, ends = self._found(name, kind)
        pieces = [self.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return np.concatenate(pieces or [self.data[:0]]).view({"INT64": "<i8", "FLOAT": "<f4"}[kind])

    def _found(self, name: str, kind: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if native is None:
            raise RuntimeError("shards are read by the compiled kernels: build them with pip install -e .")
        schema = self.metadata.schema
        places = [place for place in range(len(schema)) if schema.column(place).path.split(".")[0] == name]
        if not places:
            raise KeyError(f"no column {name}")
        groups = [self.metadata.row_group(number) for number in range(self.metadata.num_row_groups)]
        chunks = [group.column(places[0]) for group in groups]
        plain = {("UNCOMPRESSED", kind, False)}
        if {(chunk.compression, chunk.physical_type, chunk.has_dictionary_page) for chunk in chunks} != plain:
            raise ValueError(f"column {name} is not of plain values")
        sizes = np.array([chunk.total_compressed_size for chunk in chunks], dtype=np.int64)
        offsets = np.array([chunk.data_page_offset for chunk in chunks], dtype=np.int64)
        self.bytes_read += int(sizes.sum())
        column = schema.column(places[0])
        levels = (column.max_definition_level > 0) + (column.max_repetition_level > 0)
        found: tuple[NDArray[np.int64], NDArray[np.int64]] = native.parquet_column(
            self.data, offsets, sizes, levels, kind == "BYTE_ARRAY", TYPES[kind], threads()
        )
        return found
