"""Graphs published without features and labels, as a CSR ``npz``: web crawls, social and citation networks."""

import numpy as np

from datasets.edge_list import directed
from datasets.graph import Graph
from datasets.paths import Files, Options


def load(name: str, files: Files, options: Options) -> Graph:
    """Read a CSR ``npz`` (indptr, indices, shape; row = source); an edge id is a position in ``indices``."""
    (path,) = files.values()
    with np.load(path, allow_pickle=False) as data:
        rows, columns = (int(size) for size in data["shape"])
        indptr, indices = data["indptr"], data["indices"]
    if rows != columns or len(indptr) != rows + 1 or indptr[-1] != len(indices):
        raise ValueError(
            f"{path} has shape {rows} x {columns}, {len(indptr)} row bounds and {len(indices)} column indices: "
            "expected a square CSR matrix, fetch the file again"
        )
    sources = np.repeat(np.arange(rows, dtype=indices.dtype), np.diff(indptr))
    csr, loops = directed(sources, indices, rows)
    return Graph(name=name, csr=csr, self_loops_dropped=loops)
