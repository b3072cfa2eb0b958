"""Reader of uncompressed Parquet columns with PLAIN encoding: views of the mapped file, page checksums verified."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.extension import extension, require, threads
from backends.kernels.graphfeatures import Strings

TYPES = {"BYTE_ARRAY": 0, "INT64": 8, "FLOAT": 4}


class UncompressedParquet:
    """A Parquet file, mapped into memory; ``bytes_read`` counts the columns read so far.

    Raises ValueError, an error of pyarrow or OSError for a damaged file, and KeyError for a column that it lacks.
    """

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.metadata = parquet.read_metadata(path)
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.bytes_read = 0

    def strings(self, name: str) -> Strings:
        """A column of byte strings."""
        return Strings(self.data, *self._bounds_of(name, "BYTE_ARRAY"))

    def numbers(self, name: str, kind: str) -> NDArray[Any]:
        """A column of numbers, or of lists of them, one after the other; ``kind`` is Parquet's name of their type."""
        starts, ends = self._bounds_of(name, kind)
        pieces = [self.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return np.concatenate(pieces or [self.data[:0]]).view({"INT64": "<i8", "FLOAT": "<f4"}[kind])

    def _bounds_of(self, name: str, kind: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and ends of a column's strings, or of the values of each page, in the file."""
        require("shards are read")
        schema = self.metadata.schema
        places = [place for place in range(len(schema)) if schema.column(place).path.split(".")[0] == name]
        if not places:
            raise KeyError(f"no column {name}")
        groups = [self.metadata.row_group(number) for number in range(self.metadata.num_row_groups)]
        chunks = [group.column(places[0]) for group in groups]
        layout = {("UNCOMPRESSED", kind, False)}
        if {(chunk.compression, chunk.physical_type, chunk.has_dictionary_page) for chunk in chunks} != layout:
            raise ValueError(f"column {name} is not of plain values")
        sizes = np.array([chunk.total_compressed_size for chunk in chunks], dtype=np.int64)
        offsets = np.array([chunk.data_page_offset for chunk in chunks], dtype=np.int64)
        self.bytes_read += int(sizes.sum())
        column = schema.column(places[0])
        levels = (column.max_definition_level > 0) + (column.max_repetition_level > 0)
        bounds: tuple[NDArray[np.int64], NDArray[np.int64]] = extension.parquet_column(
            self.data, offsets, sizes, levels, kind == "BYTE_ARRAY", TYPES[kind], threads()
        )
        return bounds
