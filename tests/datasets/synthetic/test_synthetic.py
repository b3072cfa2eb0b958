"""Mesh and R-MAT: one graph per seed, whatever the block size; bad options are refused."""

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


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mesh", {"nodes": 0}, "positive"),
        ("mesh", {"missing": 1.5}, "shares from 0 to 1"),
        ("mesh", {"sides": 3}, "nodes"),
        ("rmat", {"scale": 40}, "scales from 1 to 30"),
        ("rmat", {"edges": -1}, "negative"),
    ],
)
def test_bad_options_are_named(name, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        load_dataset(name, options, tmp_path)
