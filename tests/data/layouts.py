"""Writers of tiny files in the layouts in which the larger data sets are published."""

import gzip
import json
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, save_npz

from datasets.graph import Graph

PPI_SIZES = {"train": 5, "valid": 3, "test": 4}
PPI_LINKS = {"train": [(0, 1), (1, 2), (2, 2), (3, 4)], "valid": [(0, 2)], "test": [(1, 0), (3, 3)]}
PPI_GRAPHS = {"train": [1, 1, 1, 2, 2], "valid": [21, 21, 21], "test": [23, 23, 24, 24]}


def write_ppi(folder: Path, both_directions: bool = False) -> dict[str, Path]:
    """Write PPI as GraphSAGE's authors and DGL publish it."""
    files = {}
    for number, (part, size) in enumerate(PPI_SIZES.items()):
        links = PPI_LINKS[part] + ([(b, a) for a, b in PPI_LINKS[part] if a != b] if both_directions else [])
        document = {
            "directed": both_directions,
            "multigraph": False,
            "graph": {},
            "nodes": [{"id": node, "test": part == "test", "val": part == "valid"} for node in range(size)],
            "links": [{"source": a, "target": b, "test_removed": False} for a, b in links],
        }
        arrays = {
            "feats": np.full((size, 2), number, dtype=np.float64),
            "labels": (np.arange(size * 3).reshape(size, 3) % 2).astype(np.int64),
            "graph_id": np.array(PPI_GRAPHS[part]),
        }
        (folder / f"{part}_graph.json").write_text(json.dumps(document))
        for key, array in arrays.items():
            np.save(folder / f"{part}_{key}.npy", array)
        files |= {name: folder / name for name in (f"{part}_graph.json", *(f"{part}_{key}.npy" for key in arrays))}
    return files


def write_recovered(folder: Path) -> dict[str, Path]:
    """Write the recovered PPI: 4 nodes in 2 graphs, one without features, one without labels, one self loop."""
    features = np.array([[1, 2], [np.nan, np.nan], [3, 4], [5, 6]], dtype=np.float32)
    labels = np.array([[1, 0, 1], [0, 0, 1], [-1, -1, -1], [1, 1, 1]], dtype=np.int8)
    np.savez_compressed(
        folder / "ppi_recovered.npz",
        edges=np.array([[0, 1], [1, 1], [2, 3]], dtype=np.int32),
        graph_id=np.array([1, 1, 2, 2], dtype=np.int8),
        split=np.array([0, 0, 2, 2], dtype=np.int8),
        features=features,
        features_source=np.array([1, 0, 2, 3], dtype=np.uint8),
        labels=labels,
        labels_source=np.array([1, 2, 0, 3], dtype=np.uint8),
    )
    return {"ppi_recovered.npz": folder / "ppi_recovered.npz"}


def attributed_parts(per_class: int, classes: int) -> tuple[csr_matrix, csr_matrix, np.ndarray]:
    """Make a one-way adjacency with a self loop, word counts and labels."""
    nodes = per_class * classes
    ring = np.arange(nodes)
    adjacency = csr_matrix((np.ones(nodes + 1), (np.r_[ring, 3], np.r_[np.roll(ring, 1), 3])), shape=(nodes, nodes))
    words = csr_matrix((np.arange(1, nodes + 1, dtype=np.float32), (ring, ring % 5)), shape=(nodes, 5))
    return adjacency, words, np.repeat(np.arange(classes), per_class)


def write_gnn_benchmark(path: Path, per_class: int = 60, classes: int = 3) -> dict[str, Path]:
    """Write Amazon and Coauthor sets as gnn-benchmark publishes them, object arrays of names included."""
    adjacency, words, labels = attributed_parts(per_class, classes)
    arrays = {f"adj_{key}": getattr(adjacency, key) for key in ("data", "indices", "indptr", "shape")}
    arrays |= {f"attr_{key}": getattr(words, key) for key in ("data", "indices", "indptr", "shape")}
    names = np.array([f"word {word}" for word in range(5)], dtype=object)
    np.savez(path, labels=labels, attr_names=names, **{key: np.asarray(value) for key, value in arrays.items()})
    return {path.name: path}


def write_edge_index(path: Path, per_class: int = 60, classes: int = 3) -> dict[str, Path]:
    """Write the same graph with both directions in ``edge_index``, as EdisonLeeeee/GraphData does."""
    adjacency, words, labels = attributed_parts(per_class, classes)
    both = coo_matrix(adjacency + adjacency.T)
    edges = both.row != both.col
    np.savez(
        path,
        edge_index=np.stack([both.row[edges], both.col[edges]]).astype(np.int32),
        x_indptr=words.indptr,
        x_indices=words.indices,
        x_data=words.data,
        x_shape=np.array(words.shape),
        y=labels.astype(np.int32),
    )
    return {path.name: path}


def write_reddit(folder: Path) -> dict[str, Path]:
    """Write Reddit as DGL and PyG download it."""
    np.savez(
        folder / "reddit_data.npz",
        feature=np.arange(8.0).reshape(4, 2),
        node_types=np.array([1, 2, 3, 1]),
        node_ids=np.arange(4),
        label=np.array([0, 2, 1, 0]),
    )
    matrix = coo_matrix((np.ones(5), ([0, 1, 1, 3, 2], [1, 0, 3, 1, 2])), shape=(4, 4))
    save_npz(folder / "reddit_graph.npz", matrix)
    return {name: folder / name for name in ("reddit_data.npz", "reddit_graph.npz")}


def write_ogb(folder: Path, split: str, edge_features: bool, labels: np.ndarray) -> dict[str, Path]:
    """Write a node property set as its archive unpacks: 4 nodes, the rows 0-1, 1-2, 3-3, 0-1 again."""
    edges = np.array([[0, 1], [1, 2], [3, 3], [0, 1]])
    tables = {
        "raw/edge": edges,
        "raw/num-node-list": np.array([[4]]),
        "raw/num-edge-list": np.array([[4]]),
        "raw/node-label": labels,
        f"split/{split}/train": np.array([[0], [2]]),
        f"split/{split}/valid": np.array([[1]]),
        f"split/{split}/test": np.array([[3]]),
    }
    tables |= {"raw/edge-feat": np.array([[1.0], [2], [4], [8]])} if edge_features else {}
    tables |= {} if edge_features else {"raw/node-feat": np.arange(8.0).reshape(4, 2) / 4}
    for name, table in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as handle:
            handle.writelines(",".join(str(value) for value in row) + "\n" for row in table.tolist())
    return {f"{name}.csv.gz": folder / f"{name}.csv.gz" for name in tables if not name.endswith("num-edge-list")}


def edges_of(graph: Graph) -> list[tuple[int, int]]:
    """Return source and destination of every edge, sorted."""
    return sorted(zip(graph.csr.indices.tolist(), graph.csr.destinations.tolist(), strict=True))
