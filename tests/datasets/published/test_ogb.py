"""The OGB loader on tiny files of the published layout."""

from pathlib import Path

import numpy as np
import pytest

from datasets.published import ogb
from datasets.registry import DATASETS
from tests.data import layouts
from tests.data.layouts import edges_of


@pytest.mark.parametrize(("name", "split"), [("ogbn_arxiv", "time"), ("ogbn_products", "sales_ranking")])
def test_ogb_multiclass(tmp_path: Path, name: str, split: str) -> None:
    files = layouts.write_ogb(tmp_path, split, False, np.array([[0], [4], [1], [2]]))
    assert set(files) == set(DATASETS[name].needs)
    graph = ogb.load(name, files, {})
    once = [(0, 1), (0, 1), (1, 2)]
    both = once + [(b, a) for a, b in once]
    assert edges_of(graph) == sorted(both if name == "ogbn_products" else once)
    assert graph.self_loops_dropped == 1
    assert (graph.task, graph.classes) == ("multiclass", 5)
    assert graph.features is not None
    assert graph.features[3].tolist() == [1.5, 1.75]
    assert graph.nodes_of("train").tolist() == [0, 2]


@pytest.mark.parametrize("edge_features", [False, True])
def test_ogbn_proteins_averages_the_features_of_edges(tmp_path: Path, edge_features: bool) -> None:
    files = layouts.write_ogb(tmp_path, "species", True, np.array([[0, 1], [1, 1], [0, 0], [1, 0]]))
    assert set(files) == set(DATASETS["ogbn_proteins"].needs)
    graph = ogb.load("ogbn_proteins", files, {"edge_features": edge_features})
    assert graph.features is not None
    np.testing.assert_allclose(graph.features[:, 0], [4.5, 11 / 3, 2, 0], rtol=1e-6)
    assert (graph.task, graph.classes) == ("multilabel", 2)
    assert (graph.edge_features is not None) == edge_features
    if graph.edge_features is not None:
        weight = {0: 1, 1: 2, 3: 8}
        assert graph.edge_features[:, 0].tolist() == [weight[edge % 4] for edge in graph.csr.ids.tolist()]


def test_ogb_names_the_file_that_does_not_parse(tmp_path: Path) -> None:
    files = layouts.write_ogb(tmp_path, "time", False, np.array([[0], [4], [1], [2]]))
    files["raw/edge.csv.gz"].write_bytes(files["raw/node-feat.csv.gz"].read_bytes())
    with pytest.raises(ValueError, match=r"edge\.csv\.gz"):
        ogb.load("ogbn_arxiv", files, {})


def test_ogb_labels_may_be_missing(tmp_path: Path) -> None:
    files = layouts.write_ogb(tmp_path, "time", False, np.array([[0.0], [np.nan], [1.0], [2.0]]))
    graph = ogb.load("ogbn_arxiv", files, {})
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, -1, 1, 2]
    assert len(graph.nodes_of("validation")) == 0
