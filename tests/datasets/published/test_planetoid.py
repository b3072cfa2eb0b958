"""The Planetoid reader on files of the published layout, and its refusal to run what a pickle names."""

import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from datasets.published.planetoid import load, read_pickle

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def write_planetoid(folder: Path, name: str) -> dict[str, Path]:
    """Write 6 known nodes, test nodes 9, 6 and 7 in that order, and node 8 without a row; 2 are trained."""
    features = np.zeros((6, 4), dtype=np.float32)
    features[np.arange(6), np.arange(6) % 4] = 1
    features[0] = [1, 0, 3, 0]
    classes = np.eye(3, dtype=np.int32)
    graph = defaultdict(list, {node: [] for node in range(10)})
    for first, second in [(0, 1), (1, 0), (0, 1), (2, 2), (1, 5), (9, 0), (0, 9)]:
        graph[first].append(second)
    parts = {
        "x": csr_matrix(features[:2]),
        "allx": csr_matrix(features),
        "tx": csr_matrix(np.diag([2, 4, 8, 0]).astype(np.float32)[:3]),
        "y": classes[[0, 1]],
        "ally": classes[[0, 1, 2, 0, 1, 2]],
        "ty": classes[[2, 1, 0]],
        "graph": graph,
    }
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=3))
    (folder / f"ind.{name}.test.index").write_text("9\n6\n7\n")
    return {f"ind.{name}.{part}": folder / f"ind.{name}.{part}" for part in PARTS}


def test_edges_are_undirected_unique_and_without_self_loops(tmp_path: Path) -> None:
    graph = load("tiny", write_planetoid(tmp_path, "tiny"), {})
    pairs = set(zip(graph.csr.indices.tolist(), graph.csr.destinations.tolist(), strict=True))
    assert pairs == {(0, 1), (1, 0), (1, 5), (5, 1), (0, 9), (9, 0)}
    assert graph.self_loops_dropped == 1
    assert graph.csr.nnz == 6


def test_an_undirected_row_becomes_edges_i_and_i_plus_rows(tmp_path: Path) -> None:
    csr = load("tiny", write_planetoid(tmp_path, "tiny"), {}).csr
    ends = {int(i): (s, d) for i, s, d in zip(csr.ids, csr.indices.tolist(), csr.destinations.tolist(), strict=True)}
    rows = 4  # the three pairs and the self loop
    assert sorted(edge % rows for edge in ends) == sorted(2 * sorted({edge % rows for edge in ends}))
    assert all(ends[edge] == ends[edge - rows][::-1] for edge in ends if edge >= rows)


def test_test_rows_stand_where_the_index_says(tmp_path: Path) -> None:
    graph = load("tiny", write_planetoid(tmp_path, "tiny"), {})
    assert graph.features is not None
    assert graph.labels is not None
    assert graph.features[[9, 6, 7]].argmax(axis=1).tolist() == [0, 1, 2]
    assert graph.labels[[9, 6, 7]].tolist() == [2, 1, 0]
    assert graph.features[8].tolist() == [0, 0, 0, 0]
    assert graph.labels[8] == -1
    assert graph.features[0].tolist() == [0.25, 0, 0.75, 0]
    assert graph.features.dtype == np.float32


def test_public_split(tmp_path: Path) -> None:
    graph = load("tiny", write_planetoid(tmp_path, "tiny"), {})
    assert graph.nodes_of("train").tolist() == [0, 1]
    assert graph.nodes_of("test").tolist() == [6, 7, 9]
    assert graph.nodes_of("validation").tolist() == [2, 3, 4, 5]


class Bomb:
    """Creates a file when unpickled by a reader that runs the code that a pickle names."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.target,)


def test_a_pickle_cannot_run_code(tmp_path: Path) -> None:
    target, path = tmp_path / "ran", tmp_path / "ind.tiny.x"
    path.write_bytes(pickle.dumps(Bomb(target)))
    with pytest.raises(pickle.UnpicklingError, match=r"ind\.tiny\.x.*is refused: allowed are"):
        read_pickle(path)
    assert not target.exists()


def test_a_truncated_pickle_names_its_file(tmp_path: Path) -> None:
    files = write_planetoid(tmp_path, "tiny")
    path = files["ind.tiny.ally"]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(pickle.UnpicklingError, match=r"ind\.tiny\.ally"):
        load("tiny", files, {})
