"""Mesh and R-MAT: the shapes they are named for, the same graph for the same seed, bad options refused."""

import numpy as np
import pytest

from datasets.registry import load_dataset
from datasets.synthetic import mesh, rmat

MESH = {"nodes": 2500}
RMAT = {"scale": 10, "edges": 20_000}


@pytest.mark.parametrize(("name", "options"), [("mesh", MESH), ("rmat", RMAT)])
def test_a_seed_names_one_graph(name, options, tmp_path):
    graph, again = (load_dataset(name, options, tmp_path) for _ in range(2))
    other = load_dataset(name, options | {"seed": 1}, tmp_path)
    assert graph.sha256 == again.sha256 != other.sha256
    assert graph.synthetic
    assert graph.features is None
    assert not (graph.csr.indices == graph.csr.destinations).any()


@pytest.mark.parametrize(("module", "options"), [(mesh, MESH), (rmat, RMAT)], ids=["mesh", "rmat"])
def test_blocks_change_nothing(module, options, monkeypatch):
    name = module.__name__.rpartition(".")[2]
    whole = module.load(name, options).sha256
    monkeypatch.setattr(module, "_BLOCK", 777)
    assert module.load(name, options).sha256 == whole


def test_a_mesh_is_symmetric_local_and_nearly_a_grid(tmp_path):
    graph = load_dataset("mesh", MESH, tmp_path)
    csr = graph.csr
    edges = set(zip(csr.indices.tolist(), csr.destinations.tolist(), strict=True))
    assert edges == {(end, start) for start, end in edges}
    assert len(edges) == csr.nnz
    assert set(np.abs(csr.indices - csr.destinations).tolist()) == {1, 50, 51}
    assert csr.nnz / graph.nodes == pytest.approx(2 * (2 * 0.85 + 0.05), rel=0.06)


def test_a_whole_grid_has_every_street_and_no_diagonal(tmp_path):
    csr = load_dataset("mesh", {"nodes": 9, "missing": 0.0, "diagonals": 0.0}, tmp_path).csr
    assert csr.in_degrees.tolist() == [2, 3, 2, 3, 4, 3, 2, 3, 2]
    assert csr.indices[csr.indptr[4] : csr.indptr[5]].tolist() == [1, 3, 5, 7]


def test_rmat_has_hubs_no_repeated_edges_and_the_quadrants_of_graph500(tmp_path):
    graph = load_dataset("rmat", RMAT, tmp_path)
    key = graph.csr.destinations.astype(np.int64) * graph.nodes + graph.csr.indices
    assert len(np.unique(key)) == graph.csr.nnz
    assert graph.csr.in_degrees.max() > 20 * graph.csr.in_degrees.mean()
    source, destination = rmat._ends(rmat.RmatOptions(scale=1), np.arange(200_000))
    shares = np.bincount(2 * source + destination, minlength=4) / 200_000
    np.testing.assert_allclose(shares, rmat.QUADRANTS, atol=0.005)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("mesh", {"nodes": 0}, "positive"),
        ("mesh", {"missing": 1.5}, "shares from 0 to 1"),
        ("mesh", {"sides": 3}, "nodes"),
        ("rmat", {"scale": 40}, "scales from 1 to 30"),
        ("rmat", {"edges": -1}, "negative"),
    ],
)
def test_bad_options_are_named(name, options, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        load_dataset(name, options, tmp_path)
