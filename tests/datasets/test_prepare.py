"""Prepared graphs: written once and atomically, reused with their times."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from datasets.csr import csr_from_edges
from datasets.graph import Graph
from datasets.paths import DatasetNotFound
from datasets.prepare import known_sha256, prepare_graph, prepared_graph
from harness.planning.schema import DatasetConfig, OrderConfig

SMALL = DatasetConfig("uug", {"nodes": 500, "features": 8})
GRAPH = Graph("small", csr_from_edges(np.array([0, 1]), np.array([1, 2]), (3, 3)))
NONE, RCM = OrderConfig("none"), OrderConfig("rcm")


def test_a_second_call_reuses_the_folder_and_reports_the_first_times(cache_folder: Path) -> None:
    assert prepared_graph(SMALL, NONE, cache_folder) is None
    folder, phases = prepare_graph(SMALL, NONE, cache_folder)
    assert set(phases) == {"parse", "order"} and phases["parse"] > 0 == phases["order"]
    stamps = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert prepare_graph(SMALL, NONE, cache_folder) == (folder, phases)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == stamps


@pytest.mark.parametrize("file", ["phases.json", "structure.json"])
def test_a_prepared_graph_whose_facts_are_damaged_is_named(file: str, cache_folder: Path) -> None:
    folder, _ = prepare_graph(SMALL, NONE, cache_folder)
    (folder / file).write_text("")
    with pytest.raises(ValueError, match=f"{folder}/{file} .* is absent or damaged .* delete {folder} and run"):
        prepare_graph(SMALL, NONE, cache_folder)


def test_orders_and_options_have_folders_of_their_own(cache_folder: Path) -> None:
    plain, _ = prepare_graph(SMALL, NONE, cache_folder)
    ordered, phases = prepare_graph(SMALL, RCM, cache_folder)
    other, _ = prepare_graph(DatasetConfig("uug", {"nodes": 501, "features": 8}), NONE, cache_folder)
    assert len({plain, ordered, other}) == 3 and plain.parent == ordered.parent and phases["order"] > 0
    before, after = Graph.load(plain), Graph.load(ordered)
    assert after.node_ids is not None and before.features is not None and after.features is not None
    assert not np.array_equal(after.node_ids, np.arange(500))
    assert np.array_equal(before.features[after.node_ids], after.features)


@pytest.mark.parametrize("order", [OrderConfig("mine"), OrderConfig("blockwise", {"inner": "mine"})], ids=str)
def test_an_order_of_a_plug_in_has_another_folder_after_its_code_changed(
    order: OrderConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import prepare

    folders = set()
    for code in ("one", "other"):
        plugin = SimpleNamespace(source_hash=lambda code=code: code)
        monkeypatch.setattr(prepare, "plugins", lambda kind, plugin=plugin: {"mine": plugin})
        folders.add(prepare._order_folder(order))
    assert len(folders) == 2


def test_a_changed_file_is_read_again(cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    file = tmp_path / "cnr-2000.npz"
    dataset = DatasetConfig("cnr_2000")
    file.write_bytes(b"first")
    from datasets import prepare

    prepare._remember_sha256(dataset, cache_folder, "ab" * 32)
    assert known_sha256(dataset, cache_folder) == "ab" * 32
    file.write_bytes(b"another")
    assert known_sha256(dataset, cache_folder) is None


def test_a_file_that_changes_while_it_is_read_is_not_taken_for_the_old_one(
    cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import prepare

    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    file = tmp_path / "cnr-2000.npz"
    file.write_bytes(b"first")

    def load(*_: object) -> Graph:
        file.write_bytes(b"another")
        return replace(GRAPH, sha256="ab" * 32)

    monkeypatch.setattr(prepare, "load_dataset", load)
    with pytest.raises(ValueError, match="files of data set cnr_2000 changed while they were read: run the same"):
        prepare_graph(DatasetConfig("cnr_2000"), NONE, cache_folder)


def test_a_graph_prepared_from_equal_files_of_another_time_is_not_written_again(
    cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import prepare

    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    (tmp_path / "cnr-2000.npz").write_bytes(b"first")
    monkeypatch.setattr(prepare, "load_dataset", lambda *_: replace(GRAPH, sha256="ab" * 32))
    folder, _ = prepare_graph(DatasetConfig("cnr_2000"), NONE, cache_folder)
    os.utime(tmp_path / "cnr-2000.npz", (1, 1))
    monkeypatch.setattr(prepare, "_save", lambda *_: pytest.fail("it was written again"))
    assert prepared_graph(DatasetConfig("cnr_2000"), NONE, cache_folder) is None
    assert prepare_graph(DatasetConfig("cnr_2000"), NONE, cache_folder)[0] == folder
    assert prepared_graph(DatasetConfig("cnr_2000"), NONE, cache_folder) == folder


def test_a_graph_without_a_hash_is_told_by_its_arrays(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datasets import prepare

    folders = set()
    for weight in (1.0, 2.0):
        weighted = replace(GRAPH, edge_weights=np.full(2, weight, dtype=np.float32))
        monkeypatch.setattr(prepare, "load_dataset", lambda *_, weighted=weighted: weighted)
        folders.add(prepare._write_graph(SMALL, NONE, cache_folder))
    assert len(folders) == 2


def test_a_disk_that_fills_leaves_nothing(cache_folder: Path) -> None:
    """A limit on file sizes stands in for the full disk: both fail in the middle of a write."""
    code = (
        "import resource, sys; from pathlib import Path; from datasets.prepare import prepare_graph;"
        "from harness.planning.schema import DatasetConfig, OrderConfig;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "prepare_graph(DatasetConfig('uug', {'nodes': 500}), OrderConfig('none'), Path(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(cache_folder)], capture_output=True, text=True)
    assert done.returncode == 1 and "OSError" in done.stderr
    assert [path for path in cache_folder.rglob("*") if path.is_file()] == []


def test_missing_data_name_the_environment_variable(
    cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    monkeypatch.setenv("HARNESS_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(DatasetNotFound, match="HARNESS_DATA"):
        prepare_graph(DatasetConfig("cora"), NONE, cache_folder)
