"""Every loader on a tiny file of the published layout: what becomes an edge, a label, a split."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from datasets.graph import Graph
from datasets.published import archaea, attributed, ogb, ppi, reddit, structure_only
from datasets.registry import DATASETS
from tests.data import layouts


def edges(graph: Graph) -> list[tuple[int, int]]:
    """Source and destination of every edge, sorted."""
    return sorted(zip(graph.csr.indices.tolist(), graph.csr.destinations.tolist(), strict=True))


@pytest.mark.parametrize("both_directions", [False, True])
def test_ppi_is_one_block_diagonal_graph(tmp_path: Path, both_directions: bool) -> None:
    graph = ppi.load("ppi", layouts.write_ppi(tmp_path, both_directions), {})
    once = [(0, 1), (1, 2), (3, 4), (5, 7), (8, 9)]
    assert edges(graph) == sorted(once + [(b, a) for a, b in once])
    assert graph.self_loops_dropped == 2
    assert graph.graph_ids is not None
    assert graph.graph_ids.tolist() == [1, 1, 1, 2, 2, 21, 21, 21, 23, 23, 24, 24]
    assert [len(graph.nodes_of(part)) for part in ("train", "validation", "test")] == [5, 3, 4]
    assert graph.training_view().nodes == 5
    assert (graph.task, graph.classes, graph.width, graph.inductive) == ("multilabel", 3, 2, True)
    assert graph.features is not None
    assert graph.features[:, 0].tolist() == [0] * 5 + [1] * 3 + [2] * 4


def test_ppi_refuses_a_graph_of_another_size(tmp_path: Path) -> None:
    files = layouts.write_ppi(tmp_path)
    np.save(files["valid_feats.npy"], np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"valid_graph\.json has 3 nodes but .* 2 rows"):
        ppi.load("ppi", files, {})


def test_recovered_ppi_fills_features_and_keeps_missing_labels(tmp_path: Path) -> None:
    graph = ppi.load_recovered("ppi_recovered", layouts.write_recovered(tmp_path), {})
    assert graph.features is not None
    assert graph.labels is not None
    assert graph.features[1].tolist() == [0, 0]
    assert graph.labels[2].tolist() == [-1, -1, -1]
    assert edges(graph) == [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert sorted(graph.csr.ids.tolist()) == [0, 2, 3, 5]
    assert graph.self_loops_dropped == 1
    assert graph.nodes_of("test").tolist() == [3]
    assert "1 nodes without features" in graph.notes[0]


def test_both_attributed_layouts_give_the_same_graph(tmp_path: Path) -> None:
    first = attributed.load("a", layouts.write_gnn_benchmark(tmp_path / "original.npz"), {})
    second = attributed.load("a", layouts.write_edge_index(tmp_path / "other.npz"), {})
    assert edges(first) == edges(second)
    assert first.csr.nnz == 2 * 180
    assert (first.self_loops_dropped, second.self_loops_dropped) == (1, 0)
    for name in ("features", "labels", "split"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.features is not None
    assert np.unique(first.features).tolist() == [0, 1]


def test_attributed_split_is_seeded_per_class(tmp_path: Path) -> None:
    files = layouts.write_gnn_benchmark(tmp_path / "original.npz")
    graphs = [attributed.load("a", files, {"split_seed": seed}) for seed in (0, 0, 1)]
    assert graphs[0].labels is not None
    for graph in graphs:
        for part, size in (("train", 20), ("validation", 30), ("test", 10)):
            assert np.bincount(graphs[0].labels[graph.nodes_of(part)]).tolist() == [size] * 3
    np.testing.assert_array_equal(graphs[0].split, graphs[1].split)
    assert (graphs[0].split != graphs[2].split).any()


def test_reddit(tmp_path: Path) -> None:
    graph = reddit.load("reddit", layouts.write_reddit(tmp_path), {})
    assert edges(graph) == [(0, 1), (1, 0), (1, 3), (3, 1)]
    assert graph.self_loops_dropped == 1
    assert [graph.nodes_of(part).tolist() for part in ("train", "validation", "test")] == [[0, 3], [1], [2]]
    assert (graph.classes, graph.width) == (3, 2)


def test_reddit_refuses_another_sparse_format(tmp_path: Path) -> None:
    files = layouts.write_reddit(tmp_path)
    save_npz(files["reddit_graph.npz"], csr_matrix(np.eye(4)))
    with pytest.raises(ValueError, match=r"reddit_graph\.npz.*COO"):
        reddit.load("reddit", files, {})


@pytest.mark.parametrize(("name", "split"), [("ogbn_arxiv", "time"), ("ogbn_products", "sales_ranking")])
def test_ogb_multiclass(tmp_path: Path, name: str, split: str) -> None:
    files = layouts.write_ogb(tmp_path, split, False, np.array([[0], [4], [1], [2]]))
    assert set(files) == set(DATASETS[name].needs)
    graph = ogb.load(name, files, {})
    once = [(0, 1), (0, 1), (1, 2)]
    both = once + [(b, a) for a, b in once]
    assert edges(graph) == sorted(both if name == "ogbn_products" else once)
    assert graph.self_loops_dropped == 1
    assert (graph.task, graph.classes) == ("multiclass", 5)
    assert graph.features is not None
    assert graph.features[3].tolist() == [1.5, 1.75]
    assert graph.nodes_of("train").tolist() == [0, 2]


@pytest.mark.parametrize("kept", [False, True])
def test_ogbn_proteins_averages_the_features_of_edges(tmp_path: Path, kept: bool) -> None:
    files = layouts.write_ogb(tmp_path, "species", True, np.array([[0, 1], [1, 1], [0, 0], [1, 0]]))
    assert set(files) == set(DATASETS["ogbn_proteins"].needs)
    graph = ogb.load("ogbn_proteins", files, {"edge_features": kept})
    assert graph.features is not None
    np.testing.assert_allclose(graph.features[:, 0], [4.5, 11 / 3, 2, 0], rtol=1e-6)
    assert (graph.task, graph.classes) == ("multilabel", 2)
    assert (graph.edge_features is not None) == kept
    if graph.edge_features is not None:
        weight = {0: 1, 1: 2, 3: 8}
        assert graph.edge_features[:, 0].tolist() == [weight[edge % 4] for edge in graph.csr.ids.tolist()]


def test_ogb_names_the_file_that_does_not_parse(tmp_path: Path) -> None:
    files = layouts.write_ogb(tmp_path, "time", False, np.array([[0], [4], [1], [2]]))
    files["raw/edge.csv.gz"].write_bytes(files["raw/node-feat.csv.gz"].read_bytes())
    with pytest.raises(ValueError, match=r"edge\.csv\.gz"):
        ogb.load("ogbn_arxiv", files, {})


def triples(tmp_path: Path, text: str) -> dict[str, Path]:
    path = tmp_path / "archaea.triples"
    path.write_text(text)
    return {path.name: path}


@pytest.mark.parametrize("lines_at_once", [1, 2, 100])
def test_archaea_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines_at_once: int) -> None:
    monkeypatch.setattr(archaea, "LINES_AT_ONCE", lines_at_once)
    files = triples(tmp_path, "1\t2\t0.5\n2 1 0.25\n3   3 1.0\n4\t1\t2e-1\n")
    graph = archaea.load("archaea", files, {"weights": True})
    assert edges(graph) == [(1, 2), (2, 1), (4, 1)]
    assert (graph.nodes, graph.self_loops_dropped) == (5, 1)
    assert graph.edge_weights is not None
    held = dict(zip(graph.csr.ids.tolist(), graph.edge_weights.tolist(), strict=True))
    assert held == pytest.approx({0: 0.5, 1: 0.25, 3: 0.2})
    assert archaea.load("archaea", files, {"weights": False}).edge_weights is None


@pytest.mark.parametrize("symmetric", [False, True])
def test_archaea_in_matrix_market_form_counts_from_one(tmp_path: Path, symmetric: bool) -> None:
    kind = "symmetric" if symmetric else "general"
    header = f"%%MatrixMarket matrix coordinate real {kind}\n% a comment\n5 5 2\n"
    graph = archaea.load("archaea", triples(tmp_path, header + "1 2 0.5\n5 4 0.25\n"), {"weights": True})
    once = [(0, 1), (4, 3)]
    assert edges(graph) == sorted(once + [(b, a) for a, b in once] if symmetric else once)
    assert graph.nodes == 5
    assert graph.edge_weights is not None
    assert sorted(set(graph.edge_weights.tolist())) == [0.25, 0.5]


@pytest.mark.parametrize(("text", "told"), [("1 2 1\n3 x 1\n", "row 2|row 1"), ("1 2\n", "column"), ("", "no edges")])
def test_archaea_errors_name_the_file(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ValueError, match=rf"archaea\.triples.*({told})"):
        archaea.load("archaea", triples(tmp_path, text), {})


def test_structure_rows_are_sources(tmp_path: Path) -> None:
    path = tmp_path / "web.npz"
    np.savez(path, indptr=np.array([0, 2, 2, 4]), indices=np.array([1, 2, 0, 2]), shape=np.array([3, 3]))
    graph = structure_only.load("web", {path.name: path}, {})
    assert edges(graph) == [(0, 1), (0, 2), (2, 0)]
    assert graph.csr.ids[graph.csr.destinations == 0].tolist() == [2]
    assert (graph.self_loops_dropped, graph.task, graph.features, graph.labels) == (1, "none", None, None)


def test_structure_refuses_a_matrix_that_is_not_square(tmp_path: Path) -> None:
    path = tmp_path / "web.npz"
    np.savez(path, indptr=np.array([0, 1]), indices=np.array([1]), shape=np.array([1, 3]))
    with pytest.raises(ValueError, match=r"web\.npz has shape 1 x 3"):
        structure_only.load("web", {path.name: path}, {})


def test_ogb_labels_may_be_missing(tmp_path: Path) -> None:
    files = layouts.write_ogb(tmp_path, "time", False, np.array([[0.0], [np.nan], [1.0], [2.0]]))
    graph = ogb.load("ogbn_arxiv", files, {})
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, -1, 1, 2]
    assert len(graph.nodes_of("validation")) == 0
