"""What partitions on disk have in common: the JSON that describes one, and the names of nodes' attributes."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from datasets.graph import SPLITS, Graph

MASKS = {"train_mask": "train", "val_mask": "validation", "test_mask": "test"}
_KEYS = {"graph_name", "num_parts", "num_nodes", "num_edges", "node_map", "edge_map", "ntypes", "etypes", "part-0"}


def read_description(path: Path) -> dict[str, Any]:
    """Read the JSON that DGL's ``load_partition`` takes; raises ValueError for a file that describes no partition."""
    try:
        description: dict[str, Any] = json.loads(path.read_text())
        missing = _KEYS - set(description)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path} does not describe a partition: {error}") from error
    if missing:
        raise ValueError(f"{path} does not describe a partition: it has no {', '.join(sorted(missing))}")
    return description


def part_folders(path: Path, description: dict[str, Any]) -> list[Path]:
    """The folder of each part; raises ValueError where the JSON at ``path`` names no graph of one."""
    try:
        graphs = [description[f"part-{part}"]["part_graph"] for part in range(description["num_parts"])]
        return [(path.parent / graph).parent for graph in graphs]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} does not describe a partition: it names no graph of a part ({error!r})") from error


def node_attributes(graph: Graph, nodes: slice) -> dict[str, Any]:
    """Features, labels and masks of the splits of some nodes, under DGL's usual names."""
    arrays: dict[str, Any] = {"feat": graph.features, "label": graph.labels}
    if graph.split is not None:
        arrays |= {mask: (graph.split == SPLITS[split]).astype(np.uint8) for mask, split in MASKS.items()}
    return {name: array[nodes] for name, array in arrays.items() if array is not None}
