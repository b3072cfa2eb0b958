"""A ring of nodes as a data set, and an order that reverses the numbers of the nodes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from datasets.csr import Csr, csr_from_edges
from datasets.graph import Graph
from datasets.options import options_from
from datasets.synthetic.content_hash import with_content_hash


@dataclass(frozen=True)
class RingOptions:
    """How many nodes the ring has."""

    nodes: int = 60


def load(name: str, options: dict[str, Any]) -> Graph:
    """Ring with labels that change halfway.

    Every node gets edges from both neighbours and a feature that leans with its label.
    """
    nodes = np.arange(options_from(RingOptions, name, options).nodes)
    count = len(nodes)
    csr = csr_from_edges(
        np.concatenate([nodes, (nodes + 1) % count]), np.concatenate([(nodes + 1) % count, nodes]), (count, count)
    )
    labels = (2 * nodes // count).astype(np.int64)
    features = np.stack([labels + 0.5 * np.sin(nodes), np.cos(nodes), np.ones(count)], axis=1).astype(np.float32)
    split = (nodes % 3).astype(np.int8)
    graph = Graph(name, csr, features, labels, split, classes=2, task="multiclass", synthetic=True)
    return with_content_hash(graph)


def backwards(csr: Csr) -> np.ndarray:
    """Last node first."""
    return np.arange(csr.shape[0])[::-1]
