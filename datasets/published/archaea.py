"""Protein similarity networks of HipMCL (Azad et al. 2018), parsed from text in blocks of lines."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from datasets.edge_list import directed, undirected
from datasets.graph import Graph
from datasets.paths import Files, Options

LINES_AT_ONCE = 1 << 20
_TRIPLE = np.dtype([("first", np.int64), ("second", np.int64), ("weight", np.float32)])


def load(name: str, files: Files, options: Options) -> Graph:
    """Read triples ``a b weight``, indexed from 0 or 1, or the same in Matrix Market form (its header, from 1).

    Lines are directed edges unless the Matrix Market header says symmetric. ``weights=true`` keeps the similarities
    as edge weights; by default only the structure is kept, as the compared papers use it. No features or labels.
    """
    (path,) = files.values()
    with path.open() as handle:
        shape, rows, symmetric, start = _matrix_market_header(handle, path)
        blocks = list(_triples(handle, path, start))
    triples = np.concatenate(blocks) if blocks else np.zeros(0, dtype=_TRIPLE)
    if not len(triples):
        raise ValueError(f"{path} has no edges: expected lines 'a b weight'")
    if rows not in (None, len(triples)):
        raise ValueError(f"{path} has {len(triples)} edges, but its header says {rows}")
    base = 0 if shape is None else 1
    first, second = triples["first"] - base, triples["second"] - base
    nodes = shape or int(max(first.max(), second.max())) + 1
    csr, loops = (undirected if symmetric else directed)(first, second, nodes)
    weights = triples["weight"][csr.ids % len(triples)] if options.get("weights") else None
    return Graph(name=name, csr=csr, edge_weights=weights, self_loops_dropped=loops)


def _matrix_market_header(handle: TextIO, path: Path) -> tuple[int | None, int | None, bool, int]:
    """Return numbers of nodes and of edges, whether symmetric, and lines read; rewind a file without such a header."""
    line = handle.readline()
    if not line.startswith("%%MatrixMarket"):
        handle.seek(0)
        return None, None, False, 0
    symmetric, read = "symmetric" in line, 1
    while line.startswith("%"):
        line, read = handle.readline(), read + 1
    sizes = [int(size) for size in line.split() if size.isdigit()]
    if len(sizes) != 3:
        raise ValueError(f"{path}, line {read}: {line.strip()!r} is not 'rows columns edges'")
    return max(sizes[:2]), sizes[2], symmetric, read


def _triples(handle: TextIO, path: Path, start: int) -> Iterator[NDArray[np.void]]:
    """Yield blocks of triples; raises ValueError with file and first line of the block that does not parse."""
    while lines := list(islice(handle, LINES_AT_ONCE)):
        try:
            yield np.loadtxt(lines, dtype=_TRIPLE, ndmin=1)
        except ValueError as error:
            raise ValueError(f"{path}, rows counted from line {start + 1}: {error}; expected 'a b weight'") from error
        start += len(lines)
