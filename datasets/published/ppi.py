"""Protein interactions in 24 tissues (Zitnik and Leskovec 2017; Hamilton et al. 2017): inductive, 121 labels."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from datasets.edge_list import undirected, unique_pairs
from datasets.graph import SPLITS, Graph
from datasets.paths import Files, Options

_PREFIXES = {"train": "train", "validation": "valid", "test": "test"}


def load(name: str, files: Files, options: Options) -> Graph:
    """Read the published layout: ``{train,valid,test}_{graph.json,feats.npy,labels.npy,graph_id.npy}``.

    The three parts become one block-diagonal graph in that order; an interaction is an undirected row.
    """
    firsts, seconds, sizes = [], [], [0]
    arrays: dict[str, list[NDArray[np.generic]]] = {"feats": [], "labels": [], "graph_id": []}
    for prefix in _PREFIXES.values():
        for key, parts in arrays.items():
            parts.append(np.load(files[f"{prefix}_{key}.npy"], allow_pickle=False))
        count = len(arrays["feats"][-1])
        first, second = _interactions(files[f"{prefix}_graph.json"], count)
        firsts.append(first + sum(sizes))
        seconds.append(second + sum(sizes))
        sizes.append(count)
    nodes = sum(sizes)
    split = np.repeat(np.array([SPLITS[part] for part in _PREFIXES], dtype=np.int8), sizes[1:])
    csr, loops = undirected(*unique_pairs(np.concatenate(firsts), np.concatenate(seconds), nodes), nodes)
    labels = np.concatenate(arrays["labels"]).astype(np.int8)
    return Graph(
        name=name,
        csr=csr,
        features=np.concatenate(arrays["feats"]).astype(np.float32),
        labels=labels,
        split=split,
        classes=labels.shape[1],
        task="multilabel",
        graph_ids=np.concatenate(arrays["graph_id"]).astype(np.int32),
        inductive=True,
        self_loops_dropped=loops,
    )


def _interactions(path: Path, nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read the links of a node-link JSON document; their ends are positions in its node list."""
    document = json.loads(path.read_text())
    if len(document["nodes"]) != nodes:
        raise ValueError(
            f"{path} has {len(document['nodes'])} nodes but its feature file has {nodes} rows: "
            "both must be of one download, fetch them again"
        )
    links = document["links"]
    first = np.fromiter((link["source"] for link in links), np.int64, len(links))
    second = np.fromiter((link["target"] for link in links), np.int64, len(links))
    return first, second


def load_recovered(name: str, files: Files, options: Options) -> Graph:
    """Read ``ppi_recovered.npz``: structure and splits of PPI; missing features become 0, missing labels stay -1."""
    with np.load(files["ppi_recovered.npz"], allow_pickle=False) as data:
        nodes = len(data["graph_id"])
        csr, loops = undirected(data["edges"][:, 0], data["edges"][:, 1], nodes)
        features, labels = data["features"], data["labels"].astype(np.int8)
        graph_ids, split = data["graph_id"].astype(np.int32), data["split"].astype(np.int8)
    missing = int(np.isnan(features).any(axis=1).sum())
    return Graph(
        name=name,
        csr=csr,
        features=np.nan_to_num(features, nan=0.0).astype(np.float32),
        labels=labels,
        split=split,
        classes=labels.shape[1],
        task="multilabel",
        graph_ids=graph_ids,
        inductive=True,
        self_loops_dropped=loops,
        notes=(f"recovered: {missing} nodes without features hold 0; scores do not compare with published PPI scores",),
    )
