"""Cora, CiteSeer and PubMed from the raw Planetoid files (Yang, Cohen and Salakhutdinov, ICML 2016)."""

import collections
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.edge_list import undirected, unique_pairs
from datasets.features import SparseFeatures, in_layout, layout_notes, sparse_features
from datasets.graph import MISSING, NO_SPLIT, SPLITS, Graph
from datasets.paths import Files, Options

VALIDATION_NODES = 500


class _PlanetoidUnpickler(pickle.Unpickler):
    """Unpickler restricted to numpy arrays, CSR matrices and default dictionaries of lists."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "csr_matrix" and module.startswith("scipy.sparse"):
            from scipy.sparse import csr_matrix

            return csr_matrix
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            from numpy._core.multiarray import _reconstruct

            return _reconstruct
        allowed = {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}
        allowed |= {("collections", "defaultdict"): collections.defaultdict}
        allowed |= {("__builtin__", "list"): list, ("builtins", "list"): list}
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(
                f"{module}.{name} is refused: allowed are arrays, CSR matrices and dictionaries of lists, "
                "as in the published files"
            )
        return allowed[module, name]


def read_pickle(path: Path) -> Any:
    """Read a Python 2 pickle without running code that it names; raises UnpicklingError with the file's name."""
    try:
        with path.open("rb") as file:
            return _PlanetoidUnpickler(file, encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError) as error:
        raise pickle.UnpicklingError(f"{path}: {error}") from error


def load(name: str, files: Files, options: Options) -> Graph:
    """Read ``ind.<name>.{x,tx,allx,y,ty,ally,graph,test.index}`` with the public split.

    Undirected edges are de-duplicated, features divided by their row sum (at least 1, as PyG's NormalizeFeatures).
    Test nodes without a row (CiteSeer) get zero features and no label. Features are stored sparse, as in the files,
    unless few columns are empty or ``options`` say ``features=dense``.
    """
    parts = {part: read_pickle(files[f"ind.{name}.{part}"]) for part in ("allx", "tx", "y", "ally", "ty", "graph")}
    test = np.loadtxt(files[f"ind.{name}.test.index"], dtype=np.int64, ndmin=1)
    rows = parts["allx"].shape[0]
    nodes = max(rows, int(test.max()) + 1, len(parts["graph"]))
    layout = str(options.get("features", "auto"))
    features = _features(parts["allx"], parts["tx"], test, nodes)
    labels = np.full(nodes, MISSING, dtype=np.int64)
    labels[:rows], labels[test] = _classes(parts["ally"]), _classes(parts["ty"])
    csr, loops = undirected(*_pairs(parts["graph"], nodes), nodes)
    return Graph(
        name=name,
        csr=csr,
        features=in_layout(features, layout),
        labels=labels,
        split=_public_split(nodes, len(parts["y"]), test),
        classes=parts["ally"].shape[1],
        task="multiclass",
        self_loops_dropped=loops,
        notes=layout_notes(features, layout),
    )


def _features(known: Any, tested: Any, test: NDArray[np.int64], nodes: int) -> SparseFeatures:
    """Join the rows of two sparse matrices, the second ones at ``test``; each divided by its sum, at least 1."""
    known, tested = known.tocoo(), tested.tocoo()
    rows = np.concatenate((known.row, test[tested.row]))
    values = np.concatenate((known.data, tested.data)).astype(np.float32)
    sums = np.bincount(rows, values, nodes).astype(np.float32)
    columns = np.concatenate((known.col, tested.col))
    return sparse_features(rows, columns, values / np.maximum(sums, 1)[rows], (nodes, known.shape[1]))


def _classes(one_hot: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), MISSING).astype(np.int64)


def _pairs(neighbours: dict[int, list[int]], nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    degrees = [len(ends) for ends in neighbours.values()]
    first = np.repeat(np.fromiter(neighbours, np.int64, len(neighbours)), degrees)
    second = np.fromiter((end for ends in neighbours.values() for end in ends), np.int64, sum(degrees))
    return unique_pairs(first, second, nodes)


def _public_split(nodes: int, train: int, test: NDArray[np.int64]) -> NDArray[np.int8]:
    split = np.full(nodes, NO_SPLIT, dtype=np.int8)
    split[:train] = SPLITS["train"]
    split[train : train + VALIDATION_NODES] = SPLITS["validation"]
    split[test] = SPLITS["test"]
    return split
