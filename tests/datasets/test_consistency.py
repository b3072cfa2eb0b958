"""What a loader returns is checked whoever wrote it: one row for each node or edge, and numbers that are finite."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from datasets import registry
from datasets.consistency import EDGE_ARRAYS, NODE_ARRAYS, check_finite, check_lengths
from datasets.csr import csr_from_edges
from datasets.features import sparse_features
from datasets.graph import Graph

GRAPH = Graph("small", csr_from_edges(np.array([0, 1]), np.array([1, 2]), (3, 3)))


@pytest.mark.parametrize("name", [*NODE_ARRAYS, *EDGE_ARRAYS])
def test_an_array_of_another_length_is_named(name: str) -> None:
    rows = 3 if name in NODE_ARRAYS else 2
    check_lengths(replace(GRAPH, **{name: np.zeros((rows, 1), dtype=np.float32)}))
    for other in (rows - 1, rows + 1):
        with pytest.raises(ValueError, match=f"{name} has {other} rows, but the graph has {rows} "):
            check_lengths(replace(GRAPH, **{name: np.zeros((other, 1), dtype=np.float32)}))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_and_weights_are_finite(value: float) -> None:
    sparse = sparse_features(np.array([2]), np.array([0]), np.ones(1, dtype=np.float32), (3, 4))
    sparse = replace(sparse, values=np.full(1, value, dtype=np.float32))
    for name, array in (
        ("features", np.array([[0, 0], [0, 0], [0, value]])),
        ("features", sparse),
        ("edge_weights", np.array([0, value])),
    ):
        row = 2 if name == "features" else 1
        with pytest.raises(ValueError, match=f"{name} holds NaN or infinite numbers in row {row}$"):
            check_finite(replace(GRAPH, **{name: array}))
    check_finite(GRAPH)


def test_files_that_give_arrays_of_other_lengths_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    (tmp_path / "cnr-2000.npz").write_bytes(b"x")
    monkeypatch.setattr(registry, "trust", lambda *_: "checked")
    monkeypatch.setattr(registry, "_loader", lambda entry: lambda *_: replace(GRAPH, split=np.zeros(2, dtype=np.int8)))
    with pytest.raises(
        ValueError, match=r"cnr_2000: cnr-2000.npz in .* \(split has 2 rows, but the graph has 3 nodes\)"
    ):
        registry.load_dataset("cnr_2000", {}, tmp_path)
