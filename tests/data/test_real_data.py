"""The graphs in HARNESS_DATA: counts as published, and equal to what PyG reads from the same files."""

from pathlib import Path

import numpy as np
import pytest

from datasets.features import SparseFeatures, dense_features
from datasets.graph import Graph
from datasets.hashes import file_sha256
from datasets.manifest import manifest
from datasets.registry import DATASETS, available, fetch_dataset, load_dataset
from tests.data.server import Behaviour, serving

pytestmark = pytest.mark.real_data

COUNTS = {
    "cora": {"nodes": 2708, "edges": 2 * 5278, "features": 1433, "classes": 7, "train": 140, "test": 1000},
    "citeseer": {"nodes": 3327, "edges": 2 * 4552, "features": 3703, "classes": 6, "train": 120, "test": 1000},
    "ppi_recovered": {"nodes": 56944, "edges": 2 * (818716 - 25084), "features": 50, "classes": 121},
    "amazon_computers": {"nodes": 13752, "edges": 2 * 245861, "features": 767, "classes": 10, "train": 200},
    "coauthor_cs": {"nodes": 18333, "edges": 2 * 81894, "features": 6805, "classes": 15, "train": 300},
    "cnr_2000": {"nodes": 325557, "edges": 3216152 - 87442, "self_loops_dropped": 87442},
    "ego_twitter": {"nodes": 81306, "edges": 2684606 - 14},
    "cit_hep_ph": {"nodes": 34546, "edges": 421578 - 44},
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    return {name: load_dataset(name, {}, tmp_path_factory.mktemp("cache")) for name in COUNTS}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_and_trust(graphs: dict[str, Graph], name: str) -> None:
    graph = graphs[name]
    assert {key: graph.counts()[key] for key in COUNTS[name]} == COUNTS[name]
    assert graph.published == manifest()[name]["published"]
    assert graph.trust == "manifest"
    assert available(name)[0]
    assert (graph.csr.indices != graph.csr.destinations).all()
    assert np.unique(graph.csr.ids).size == graph.csr.nnz


def test_every_hash_of_the_manifest_is_that_of_its_file(data_folder: Path) -> None:
    for name, known in manifest().items():
        for file, expected in known.get("sha256", {}).items():
            assert file_sha256(data_folder / DATASETS[name].family / file) == expected


@pytest.mark.parametrize(
    "name", ["cora", "citeseer", "ppi_recovered", "amazon_computers", "coauthor_cs", "ego_twitter"]
)
def test_undirected_graphs_are_symmetric(graphs: dict[str, Graph], name: str) -> None:
    csr = graphs[name].csr
    there = csr.destinations.astype(np.int64) * csr.shape[0] + csr.indices
    back = csr.indices.astype(np.int64) * csr.shape[0] + csr.destinations
    np.testing.assert_array_equal(there, np.sort(back))


def test_citeseer_has_15_test_nodes_without_a_row(graphs: dict[str, Graph]) -> None:
    graph = graphs["citeseer"]
    assert graph.features is not None
    assert graph.labels is not None
    unlabelled = np.flatnonzero(graph.labels < 0)
    assert len(unlabelled) == 15
    assert not dense_features(graph.features, "a test")[unlabelled].any()
    assert not np.isin(unlabelled, graph.nodes_of("test")).any()


def test_recovered_ppi_keeps_the_original_splits(graphs: dict[str, Graph]) -> None:
    graph = graphs["ppi_recovered"]
    assert graph.split is not None
    assert graph.graph_ids is not None
    assert graph.labels is not None
    assert np.bincount(graph.split).tolist() == [44906, 6514, 5524]
    assert [np.unique(graph.graph_ids[graph.split == part]).size for part in range(3)] == [20, 2, 2]
    assert (graph.labels >= 0).all(axis=1).sum() == 55462
    assert (graph.graph_ids[graph.csr.indices] == graph.graph_ids[graph.csr.destinations]).all()
    assert graph.training_view().nodes == 44906


def test_another_split_seed_is_another_data_set(graphs: dict[str, Graph], tmp_path: Path) -> None:
    other = load_dataset("amazon_computers", {"split_seed": 1}, tmp_path)
    same = load_dataset("amazon_computers", {"split_seed": 0}, tmp_path)
    assert same.sha256 == graphs["amazon_computers"].sha256 != other.sha256
    np.testing.assert_array_equal(same.split, graphs["amazon_computers"].split)
    assert (same.split != other.split).any()


def test_cora_is_fetched_and_then_trusted_by_the_manifest(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {path.name: path.read_bytes() for path in (data_folder / "planetoid").glob("ind.cora.*")}
    monkeypatch.delenv("HARNESS_DATA")
    with serving(Behaviour(files)) as mirror:
        monkeypatch.setenv("HARNESS_MIRROR", mirror)
        fetch_dataset("cora", tmp_path)
    graph = load_dataset("cora", {}, tmp_path)
    assert (graph.trust, graph.csr.nnz) == ("manifest", 10556)


def test_a_file_found_with_other_bytes_is_only_local(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(data_folder / "structure" / "cit-hep-ph.npz") as data:
        np.savez(tmp_path / "cit-hep-ph.npz", **data)
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    graph = load_dataset("cit_hep_ph", {}, tmp_path)
    assert graph.trust == "local"


def test_a_file_that_is_not_the_published_graph_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "cit-hep-ph.npz", indptr=np.array([0, 1, 1]), indices=np.array([1]), shape=np.array([2, 2]))
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="cit_hep_ph: read 2 nodes, published are 34546"):
        load_dataset("cit_hep_ph", {}, tmp_path)


@pytest.mark.needs_pyg
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_planetoid_equals_pyg(graphs: dict[str, Graph], data_folder: Path, name: str) -> None:
    from torch_geometric.io import read_planetoid_data
    from torch_geometric.transforms import NormalizeFeatures

    theirs, ours = NormalizeFeatures()(read_planetoid_data(str(data_folder / "planetoid"), name)), graphs[name]
    assert ours.features is not None
    assert ours.labels is not None
    labelled = ours.labels >= 0
    assert isinstance(ours.features, SparseFeatures)
    np.testing.assert_allclose(ours.features.dense(), theirs.x.numpy(), atol=1e-7)
    np.testing.assert_array_equal(ours.labels[labelled], theirs.y.numpy()[labelled])
    for part, mask in (("train", theirs.train_mask), ("validation", theirs.val_mask), ("test", theirs.test_mask)):
        np.testing.assert_array_equal(ours.nodes_of(part), np.flatnonzero(mask.numpy()))
    pairs = np.stack([ours.csr.indices, ours.csr.destinations])
    edges = theirs.edge_index.numpy()
    np.testing.assert_array_equal(pairs[:, np.lexsort(pairs)], edges[:, np.lexsort(edges)])
