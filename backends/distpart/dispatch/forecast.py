"""What a dispatch will take of memory and disk, before it begins."""

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.distpart.typed_graph import MOST_ROW_BYTES, TypedGraph, row_bytes
from datasets.csr import index_dtype

_BYTES_PER_EDGE = 96  # of a piece while it is sorted: ends, owners, order, and their copies
_LEAST_PIECE, _PIECE = 1 << 14, 1 << 18  # edges; larger pieces are no faster, and take more memory
_MOST_PIECES = 1024  # from there on pieces grow: each part opens all of them for each of its columns
_BUCKET_EDGE = 8 + 4  # row and owner, beside both ends
_PART_NODE = 8 + 1 + 1  # of a part that is written: its HALO nodes, and what marks them while they are sought
_GRAPH_NODE, _GRAPH_EDGE = 8 + 1 + 8 + 8, 8 + 8 + 8 + 1 + 8  # ids, flags, parts and original ids in the files


@dataclass(frozen=True)
class Forecast:
    """``nodes``: bytes of what is there for each node, and of bits of edges; ``piece``: edges per task.

    ``rows`` of attributes are read at a time.
    """

    threads: int
    nodes: int
    edges: int
    piece: int
    rows: int
    buckets: int
    files: int

    @classmethod
    def of(cls, graph: TypedGraph, memory: int, threads: int, hops: int = 1) -> "Forecast":
        """Count bytes from sizes alone; each thread has its own piece and table of nodes: fewer are used if need be."""
        number = np.dtype(index_dtype(max(1, graph.total_nodes))).itemsize
        # a part may need nearly all nodes, beside the table of their local numbers, which is filled from a copy
        shared, own = graph.total_nodes * (4 + 2 * number), graph.total_nodes * (2 * number + _PART_NODE)
        if hops > 1:
            own += graph.total_nodes * 2 + graph.total_edges // 8  # nodes of a hop, and a bit for each far edge
        room = (memory - shared) // (own + _LEAST_PIECE * _BYTES_PER_EDGE)
        threads = max(1, min(threads, room))
        nodes = shared + threads * own
        left = max(0, memory - nodes) // threads
        largest = max(_PIECE, -(-graph.total_edges // _MOST_PIECES))
        piece = int(np.clip(left // _BYTES_PER_EDGE, _LEAST_PIECE, largest))
        widths = [row_bytes(array) for _, array in graph.attributes()]
        rows = max(1, min(left // 4, MOST_ROW_BYTES) // max([1, *widths]))
        attributes = sum(len(array) * row_bytes(array) for _, array in graph.attributes())
        files = graph.total_edges * _GRAPH_EDGE + graph.total_nodes * _GRAPH_NODE + attributes
        return cls(
            threads, nodes, graph.total_edges, piece, rows, graph.total_edges * (2 * number + _BUCKET_EDGE), files
        )

    @property
    def memory(self) -> int:
        """Bytes of memory that are needed at least."""
        return self.nodes + self.threads * _LEAST_PIECE * _BYTES_PER_EDGE

    @property
    def disk(self) -> int:
        """Bytes on disk, without HALO nodes and the edges to them, while the buckets are there."""
        return self.buckets + self.files


def refuse_what_does_not_fit(forecast: Forecast, folder: Path, memory: int) -> None:
    """Raise OSError where the forecast is beyond the memory that was given, or the disk."""
    if forecast.memory > memory:
        raise MemoryError(
            f"dispatch needs {_mebibytes(forecast.memory)} of memory, {_mebibytes(memory)} were given: raise it"
        )
    place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(place).free
    present = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if forecast.disk > free + present:
        raise OSError(
            errno.ENOSPC,
            f"{os.strerror(errno.ENOSPC)}: {_mebibytes(forecast.disk)} are needed, {_mebibytes(free)} free",
            str(folder),
        )


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
