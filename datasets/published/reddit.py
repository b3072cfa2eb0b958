"""Reddit posts joined by common commenters (Hamilton et al. 2017), in the layout that DGL and PyG download."""

import numpy as np

from datasets.edge_list import directed
from datasets.graph import NO_SPLIT, SPLITS, Graph
from datasets.paths import Files, Options

_NODE_TYPES = {1: SPLITS["train"], 2: SPLITS["validation"], 3: SPLITS["test"]}


def load(name: str, files: Files, options: Options) -> Graph:
    """Read ``reddit_data.npz`` (feature, label, node_types 1 2 3) and ``reddit_graph.npz`` (a COO matrix).

    Both directions are stored; an edge id is a position in the matrix, row = source.
    """
    with np.load(files["reddit_data.npz"], allow_pickle=False) as data:
        features, labels = data["feature"].astype(np.float32), data["label"].astype(np.int64)
        split = np.full(len(labels), NO_SPLIT, dtype=np.int8)
        for kind, part in _NODE_TYPES.items():
            split[data["node_types"] == kind] = part
    with np.load(files["reddit_graph.npz"], allow_pickle=False) as data:
        if "row" not in data.files:
            raise ValueError(
                f"{files['reddit_graph.npz']} has the arrays {', '.join(data.files)}: expected a COO matrix (row, col)"
            )
        csr, loops = directed(data["row"], data["col"], len(labels))
    return Graph(
        name=name,
        csr=csr,
        features=features,
        labels=labels,
        split=split,
        classes=int(labels.max(initial=-1)) + 1,
        task="multiclass",
        self_loops_dropped=loops,
    )
