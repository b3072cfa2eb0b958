"""What is no fault of a cell: waits longer than the system takes, a full disk, an engine that is not here."""

import errno
import json
import os

import pytest

from harness.cell import main as run_plan
from harness.launcher import remote
from harness.launcher.cell_run import sources_of_graph
from harness.launcher.failure import CellFailed
from harness.launcher.process import _readable
from tests.cells import cell, group, saved_graph


def test_a_wait_may_be_longer_than_the_system_takes():
    read, write = os.pipe()
    os.write(write, b"x")
    assert _readable([read], 1e10) == [read]
    os.close(read), os.close(write)


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "no-python"), CellFailed),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "no-python"), CellFailed),
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/gnn-1"), OSError),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), OSError),
    ],
    ids=["no such file", "below a file", "disk full", "no more processes"],
)
def test_an_interpreter_that_is_not_there_fails_its_cell_and_a_full_disk_the_run(monkeypatch, error, fails):
    def refuse(*_):
        raise error

    monkeypatch.setattr(remote, "Child", refuse)
    planned = cell(None, launcher="process")
    planned["config"]["launcher"]["python"] = "no-python"
    with pytest.raises(fails):
        remote.RemoteCell(planned, None, lambda event: None)


def test_a_plan_of_an_engine_that_is_not_here_is_refused_before_the_first_cell(tmp_path, capsys):
    saved_graph(tmp_path / "graph")
    planned = [cell("graph"), cell("graph", label="b")]
    planned[1]["config"]["backend"]["name"] = "of_a_plugin"
    (tmp_path / "cells.json").write_text(json.dumps({"groups": [group(*planned)]}))
    assert run_plan([str(tmp_path / "cells.json"), "--out", str(tmp_path / "out")]) == 2
    assert "no backend of_a_plugin is installed here: install its package" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("dataset", "order", "modules"),
    [
        ("cora", {"name": "rcm", "options": {}}, {"datasets.order.rcm", "datasets.published.planetoid"}),
        (
            "uug",
            {"name": "blockwise", "options": {"inner": "metis"}},
            {"datasets.order.blockwise", "datasets.order.metis", "datasets.synthetic.uug"},
        ),
        ("a_plugins", {"name": "none", "options": {}}, {"datasets.order.basic"}),
    ],
)
def test_a_record_names_the_code_that_read_and_ordered_its_graph(dataset, order, modules):
    sources = sources_of_graph({"dataset": {"name": dataset}, "order": order})
    assert set(sources) == modules and all(os.path.isfile(path) for path in sources.values())  # noqa: PTH113


def test_all_modules_of_tables_are_named():
    sources = sources_of_graph({"dataset": {"name": "tables"}, "order": {"name": "none", "options": {}}})
    assert {"datasets.tables.loader", "datasets.tables.reading", "datasets.tables.csv_types"} < set(sources)
