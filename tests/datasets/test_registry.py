"""The registry of data sets: names, options, searched folders, errors of absent and damaged files."""

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from datasets.csr import csr_from_edges
from datasets.fetch import FetchError
from datasets.graph import Graph
from datasets.manifest import manifest
from datasets.paths import DatasetNotFound, dataset_folder
from datasets.registry import DATASETS, available, check_counts, entry_of, fetch_dataset, load_dataset
from tests.data import layouts
from tests.data.server import Behaviour, serving
from tests.datasets.published.test_planetoid import write_planetoid

ROOT = Path(__file__).resolve().parents[2]
REAL = [name for name, entry in DATASETS.items() if entry.kind == "real"]


def test_importing_the_registry_imports_no_numpy() -> None:
    code = (
        "import sys, datasets.registry; print([m for m in ('numpy', 'torch', 'scipy', 'pyarrow') if m in sys.modules])"
    )
    completed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"


def test_every_data_set_has_a_config_of_its_name() -> None:
    configs = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / "conf" / "dataset").glob("*.yaml")}
    assert set(configs) == set(DATASETS)
    assert all(config["name"] == name for name, config in configs.items())


def test_every_real_data_set_is_in_the_manifest_with_counts() -> None:
    assert set(manifest()) == set(REAL)
    for name in REAL:
        known = manifest()[name]
        files = {file for layout in (DATASETS[name].needs, *DATASETS[name].also) for file in layout}
        assert set(known.get("sha256", {})) <= files
        assert known["counts"]["nodes"]
        assert {"nodes", "edges"} <= set(known["published"])
        assert all(url.startswith("https://") for url in known.get("downloads", []))


@pytest.mark.parametrize("name", REAL)
def test_a_missing_data_set_names_the_searched_folders_and_the_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    with serving(Behaviour({})) as mirror:
        monkeypatch.setenv("HARNESS_MIRROR", mirror)
        with pytest.raises(DatasetNotFound) as raised:
            load_dataset(name, {}, tmp_path / "cache")
    message = str(raised.value)
    for part in (str(tmp_path / "mine"), str(dataset_folder(name, tmp_path / "cache"))):
        assert part in message
    has_address = "downloads" in manifest()[name]
    assert (f"fetch dataset={name}" in message) == has_address
    assert ("no address is known" in message) != has_address
    assert DATASETS[name].needs[0] in message
    assert available(name)[0] is False


def test_unknown_names_and_options_suggest_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="did you mean 'cora'"):
        entry_of("corra")
    with pytest.raises(ValueError, match=r"option of data set amazon_photo 'splitseed' .*did you mean 'split_seed'"):
        load_dataset("amazon_photo", {"splitseed": 1}, tmp_path)
    with pytest.raises(ValueError, match="allowed are features"):
        load_dataset("cora", {"seed": 1}, tmp_path)
    with pytest.raises(FetchError, match="uug is generated: there is nothing to fetch"):
        fetch_dataset("uug", tmp_path)


@pytest.mark.parametrize("size", [0, 100, 900])
def test_damaged_files_are_a_value_error_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    path = tmp_path / "ego-twitter.npz"
    np.savez(path, indptr=np.arange(50), indices=np.arange(49), shape=np.array([49, 49]))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"ego_twitter: ego-twitter\.npz in .* cannot be read"):
        load_dataset("ego_twitter", {}, tmp_path)
    np.savez(path, indptr=np.arange(50))
    with pytest.raises(ValueError, match=r"ego_twitter: ego-twitter\.npz in .* cannot be read"):
        load_dataset("ego_twitter", {}, tmp_path)


HEADER_CUT_SHORT = b"{'descr': '<i4', 'fortran_order': False, 'shape': (1,"


WRITERS: dict[str, Callable[[Path], object]] = {
    "cora": lambda folder: write_planetoid(folder, "cora"),
    "coauthor_cs": lambda folder: layouts.write_edge_index(folder / "coauthor_cs.npz"),
    "reddit": layouts.write_reddit,
    "ogbn_arxiv": lambda folder: layouts.write_ogb(folder, "time", False, np.array([[0], [4], [1], [2]])),
    "ppi": layouts.write_ppi,
}


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("cora", "ind.cora.ty", pickle.dumps({1: [2]}, 2)),
        ("cora", "ind.cora.test.index", b"\x80"),
        ("cora", "ind.cora.graph", pickle.dumps({0: [10**7]}, 2)),
        ("coauthor_cs", "coauthor_cs.npz", b"<html>not found</html>"),
        ("reddit", "reddit_data.npz", b"\x93NUMPY\x01\x00\x76\x00" + HEADER_CUT_SHORT.ljust(118) + bytes(4)),
        ("ogbn_arxiv", "raw/edge.csv.gz", b"<html>not found</html>"),
        ("ppi", "train_graph.json", b"[1, 2]"),
    ],
)
def test_files_with_another_content_are_a_value_error_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str, content: bytes
) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    WRITERS[name](tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: .*{re.escape(file)}.* in .* cannot be read .*fetch dataset={name}"):
        load_dataset(name, {}, tmp_path)


def _graph(nodes: int, edges: int, loops: int) -> Graph:
    ends = np.arange(edges) % nodes
    csr = csr_from_edges(ends, (ends + 1) % nodes, (nodes, nodes))
    return Graph("x", csr, features=np.zeros((nodes, 128), np.float32), self_loops_dropped=loops)


def test_counts_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"counts": {"nodes": [4, 5], "rows": 9}}
    monkeypatch.setitem(manifest(), "x", known)
    check_counts("x", _graph(4, 7, 2))
    check_counts("x", _graph(5, 9, 0))
    with pytest.raises(ValueError, match=r"read 6 nodes, published are \[4, 5\]"):
        check_counts("x", _graph(6, 9, 0))
    monkeypatch.setitem(manifest(), "x", known | {"undirected": True})
    check_counts("x", _graph(4, 14, 2))
    with pytest.raises(ValueError, match="read 8 rows"):
        check_counts("x", _graph(4, 14, 1))
