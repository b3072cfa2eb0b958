"""Node property data sets of the Open Graph Benchmark (Hu et al. 2020), from the raw ``csv.gz`` files."""

from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.edge_list import directed, undirected
from datasets.graph import MISSING, NO_SPLIT, SPLITS, Graph
from datasets.paths import Files, Options

T = TypeVar("T", np.int64, np.float32, np.float64)
UNDIRECTED = ("ogbn_products", "ogbn_proteins")
_SPLIT_FILES = {"train": "train.csv.gz", "validation": "valid.csv.gz", "test": "test.csv.gz"}


def load(name: str, files: Files, options: Options) -> Graph:
    """Read edges, labels, features and the published split; rows of products and proteins are undirected.

    Proteins has no node features: each node gets the mean of its edges' 8 features, as in the benchmark's own
    examples; ``edge_features=true`` also returns those of the edges. Several label columns mean ``multilabel``.
    """
    nodes = int(_table(files["raw/num-node-list.csv.gz"], np.int64)[0, 0])
    rows = _table(files["raw/edge.csv.gz"], np.int64)
    csr, loops = (undirected if name in UNDIRECTED else directed)(rows[:, 0], rows[:, 1], nodes)
    edge_features = None
    if "raw/edge-feat.csv.gz" in files:
        row_features = _table(files["raw/edge-feat.csv.gz"], np.float32)
        features = _mean_of_edges(csr, row_features)
        edge_features = row_features[csr.ids % len(row_features)] if options.get("edge_features") else None
    else:
        features = _table(files["raw/node-feat.csv.gz"], np.float32)
    labels = _table(files["raw/node-label.csv.gz"], np.float64)
    multilabel = labels.shape[1] > 1
    labels = np.where(np.isnan(labels), MISSING, labels)
    return Graph(
        name=name,
        csr=csr,
        features=features,
        labels=labels.astype(np.int8) if multilabel else labels[:, 0].astype(np.int64),
        split=_published_split(nodes, files),
        classes=labels.shape[1] if multilabel else int(labels.max(initial=-1)) + 1,
        task="multilabel" if multilabel else "multiclass",
        edge_features=edge_features,
        self_loops_dropped=loops,
    )


def _table(path: Path, dtype: type[T]) -> NDArray[T]:
    try:
        table: NDArray[T] = np.loadtxt(path, dtype=dtype, delimiter=",", ndmin=2)
        return table
    except ValueError as error:
        raise ValueError(f"{path}: {error}; expected numbers separated by commas") from error


def _mean_of_edges(csr: Csr, row_features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Average the features of each node's in-edges, column by column; nodes without edges get 0."""
    row = csr.ids % len(row_features)
    sums = [np.bincount(csr.destinations, weights=column[row], minlength=csr.shape[0]) for column in row_features.T]
    means = np.stack(sums, axis=1) / np.maximum(csr.in_degrees, 1)[:, None]
    return np.asarray(means, dtype=np.float32)


def _published_split(nodes: int, files: Files) -> NDArray[np.int8]:
    split = np.full(nodes, NO_SPLIT, dtype=np.int8)
    parts = {Path(need).name: path for need, path in files.items() if need.startswith("split/")}
    for part, file in _SPLIT_FILES.items():
        split[_table(parts[file], np.int64)[:, 0]] = SPLITS[part]
    return split
