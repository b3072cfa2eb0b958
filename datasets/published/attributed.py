"""Amazon co-purchase and coauthor graphs (Shchur et al. 2018): bag-of-words features, a seeded split per class."""

import numpy as np
from numpy.typing import NDArray

from datasets.edge_list import undirected, unique_pairs
from datasets.features import SparseFeatures, in_layout, layout_notes, sparse_features
from datasets.graph import NO_SPLIT, SPLITS, Graph
from datasets.paths import Files, Options
from datasets.randomness import permutation

TRAIN_PER_CLASS = 20
VALIDATION_PER_CLASS = 30
_ORIGINAL = {"x_indptr": "attr_indptr", "x_indices": "attr_indices", "x_shape": "attr_shape", "y": "labels"}


def load(name: str, files: Files, options: Options) -> Graph:
    """Read the original ``npz`` (``adj_*``, ``attr_*``, ``labels``) or the one with ``edge_index``, ``x_*`` and ``y``.

    Edges become undirected and unique, word counts become 0 or 1, both as in PyG. The split takes 20 nodes per class
    for training, 30 for validation and the rest for testing, drawn by ``split_seed``.
    """
    (path,) = files.values()
    with np.load(path, allow_pickle=False) as data:
        original = "adj_indptr" in data.files
        arrays = {key: data[other if original else key] for key, other in _ORIGINAL.items()}
        if original:
            second = data["adj_indices"]
            first = np.repeat(np.arange(len(data["adj_indptr"]) - 1), np.diff(data["adj_indptr"]))
        else:
            first, second = data["edge_index"]
    labels = arrays["y"].astype(np.int64)
    nodes, width = (int(size) for size in arrays["x_shape"])
    csr, loops = undirected(*unique_pairs(first, second, nodes), nodes)
    features = _present_words(arrays["x_indptr"], arrays["x_indices"], nodes, width)
    layout = str(options.get("features", "auto"))
    return Graph(
        name=name,
        csr=csr,
        features=in_layout(features, layout),
        labels=labels,
        split=seeded_split(labels, int(options.get("split_seed", 0))),
        classes=int(labels.max(initial=-1)) + 1,
        task="multiclass",
        self_loops_dropped=loops,
        notes=("features: word present or absent", *layout_notes(features, layout)),
    )


def _present_words(indptr: NDArray[np.integer], indices: NDArray[np.integer], nodes: int, width: int) -> SparseFeatures:
    """Each word of a node once, as 1."""
    present = np.unique(np.repeat(np.arange(nodes), np.diff(indptr)) * width + indices)
    return sparse_features(present // width, present % width, np.ones(len(present)), (nodes, width))


def seeded_split(labels: NDArray[np.integer], seed: int) -> NDArray[np.int8]:
    """Draw 20 training and 30 validation nodes of each class by hash; all other labelled nodes are for testing."""
    split = np.where(labels >= 0, SPLITS["test"], NO_SPLIT).astype(np.int8)
    order = permutation(seed, "split", len(labels))
    for label in np.unique(labels[labels >= 0]):
        members = order[labels[order] == label]
        split[members[:TRAIN_PER_CLASS]] = SPLITS["train"]
        split[members[TRAIN_PER_CLASS : TRAIN_PER_CLASS + VALIDATION_PER_CLASS]] = SPLITS["validation"]
    return split
