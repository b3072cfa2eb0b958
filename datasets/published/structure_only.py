"""Graphs published without features and labels, as a CSR ``npz``: web crawls, social and citation networks."""

from typing import Any

import numpy as np

from datasets.edge_list import directed
from datasets.graph import SPLITS, Graph
from datasets.options import OptionError
from datasets.paths import Files, Options
from datasets.randomness import hash_ids, stream

CLASSES = 4


def load(name: str, files: Files, options: Options) -> Graph:
    """Read a CSR ``npz`` (indptr, indices, shape; row = source); an edge id is a position in ``indices``.

    Option ``features`` draws so many for each node, a label and a split, so that epochs can be timed on the structure.
    """
    (path,) = files.values()
    with np.load(path, allow_pickle=False) as data:
        rows, columns = (int(size) for size in data["shape"])
        indptr, indices = data["indptr"], data["indices"]
    if rows != columns or len(indptr) != rows + 1 or indptr[-1] != len(indices):
        raise ValueError(
            f"{path} has shape {rows} x {columns}, {len(indptr)} row bounds and {len(indices)} column indices: "
            "expected a square CSR matrix"
        )
    sources = np.repeat(np.arange(rows, dtype=indices.dtype), np.diff(indptr))
    csr, loops = directed(sources, indices, rows)
    drawn = _drawn_arrays(rows, int(options.get("features", 0)), int(options.get("seed", 0)))
    return Graph(name=name, csr=csr, self_loops_dropped=loops, **drawn)


def _drawn_arrays(nodes: int, width: int, seed: int) -> dict[str, Any]:
    """Random features, labels and splits (60 % train); nothing for no features."""
    if width < 0:
        raise OptionError(f"features={width} is not allowed: a number of features to draw, or 0 for none")
    if not width:
        return {}
    random = np.random.Generator(np.random.Philox(key=stream(seed, "features")))
    ids = np.arange(nodes)
    parts = np.array([SPLITS[name] for name in ("train", "train", "train", "validation", "test")], dtype=np.int8)
    return {
        "features": random.standard_normal((nodes, width), dtype=np.float32),
        "labels": (hash_ids(seed, "labels", ids) % np.uint64(CLASSES)).astype(np.int64),
        "split": parts[hash_ids(seed, "splits", ids) % np.uint64(len(parts))],
        "classes": CLASSES,
        "task": "multiclass",
        "notes": ("features, labels and splits are drawn at random: times mean something, scores do not",),
    }
