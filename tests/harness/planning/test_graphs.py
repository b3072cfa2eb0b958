"""Graphs of a plan: prepared once, and cells whose graph cannot have their order."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from datasets.prepare import prepare_graph
from harness.planning import graphs
from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.planning.graphs import graph_keys, prepare_graphs
from harness.planning.plan import PlannedRun, form_groups
from harness.planning.schema import DatasetConfig, OrderConfig

PPI = ["backend=dummy", "dataset=lookalike_ppi", "dataset.options.scale=0.03"]


def test_a_graph_that_cannot_have_an_order_makes_its_cells_unsupported(tmp_path: Path) -> None:
    plain, ordered = load(compose_one(PPI)), load(compose_one([*PPI, "order=blockwise"]))
    groups = form_groups([PlannedRun(plain, [], None), PlannedRun(ordered, [], None)], lambda config: {})
    prepared, failures = prepare_graphs(groups, tmp_path)
    cells = {cell.config.order.name: cell for group in groups for cell in group.cells}
    assert not failures and cells["none"].status is None and len(prepared) == 1
    assert cells["blockwise"].status == "unsupported" and "inductive" in cells["blockwise"].message
    assert all(key in prepared for group in groups for key in graph_keys(group))


def test_a_graph_larger_than_memory_is_one_failure_among_others(tmp_path: Path) -> None:
    uug = ["backend=dummy", "dataset=uug", "dataset.options.nodes=500"]
    configs = [load(compose_one([*uug, f"dataset.options.features={width}"])) for width in (10**12, 8)]
    groups = form_groups([PlannedRun(config, [], None) for config in configs], lambda config: {})
    prepared, failures = prepare_graphs(groups, tmp_path)
    assert len(prepared) == 1 and len(failures) == 1
    assert failures[0].startswith("data set uug does not fit in memory (Unable to allocate ")


@pytest.mark.parametrize("place", ["data", "cache"])
def test_files_of_a_data_set_that_cannot_be_read_cost_its_own_group(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, file = tmp_path / "cache", tmp_path / place / "file"

    def prepare(dataset: DatasetConfig, order: OrderConfig, cache: Path) -> tuple[Path, dict[str, float]]:
        if order.name == "random":
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return prepare_graph(dataset, order, cache)

    monkeypatch.setattr(graphs, "prepare_graph", prepare)
    uug = ["backend=dummy", "dataset=uug", "dataset.options.nodes=500"]
    configs = [load(compose_one([*uug, f"order={order}"])) for order in ("random", "none")]
    groups = form_groups([PlannedRun(config, [], None) for config in configs], lambda config: {})
    if place == "cache":
        with pytest.raises(PermissionError):
            prepare_graphs(groups, cache)
        return
    prepared, failures = prepare_graphs(groups, cache)
    assert len(prepared) == 1 and str(file) in failures[0]


def test_a_loader_that_takes_piece_after_piece_is_refused_by_the_limit(tmp_path: Path) -> None:
    code = (
        "from harness.measure import memory\n"
        "memory.total = lambda: 1 << 28\n"
        "pieces = []\n"
        "with memory.within_machine():\n"
        "    try:\n"
        "        while len(pieces) < 1000: pieces.append(bytearray(1 << 20))\n"
        "    except MemoryError:\n"
        "        print('refused', len(pieces) < 256)\n"
        "bytearray(1 << 29)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "refused True\n" and done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", [TypeError, AttributeError, IndexError])
def test_a_graph_whose_loader_fails_is_one_failure_among_others(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(dataset: DatasetConfig, order: OrderConfig, cache: Path) -> tuple[Path, dict[str, float]]:
        if order.name == "random":
            raise kind("5 is none")
        return prepare_graph(dataset, order, cache)

    monkeypatch.setattr(graphs, "prepare_graph", prepare)
    uug = ["backend=dummy", "dataset=uug", "dataset.options.nodes=500"]
    configs = [load(compose_one([*uug, f"order={order}"])) for order in ("random", "none")]
    groups = form_groups([PlannedRun(config, [], None) for config in configs], lambda config: {})
    prepared, failures = prepare_graphs(groups, tmp_path)
    assert len(prepared) == 1
    assert failures[0].startswith(f"data set uug in order random: {kind.__name__} (5 is none): check dataset.options=")
