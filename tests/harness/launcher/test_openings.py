"""Processes that a group opens: one at a time where memory holds no two, and one that is to end a cell."""

import pytest

from harness.launcher import group as group_module
from harness.launcher.failure import CellFailed
from harness.launcher.remote import RemoteCell
from tests.cells import cell, run, saved_graph

pytestmark = pytest.mark.usefixtures("own_lock", "unknown_load")


@pytest.fixture
def graph(tmp_path):
    return saved_graph(tmp_path / "graph")


def test_a_cell_that_cannot_be_opened_to_end_it_keeps_its_samples(tmp_path, graph, monkeypatch):
    measure = {"group_seconds": 1000.0, "warmup": 1, "processes": 3, "min_samples": 3, "max_samples": 3}
    opened, last = RemoteCell.open, []

    def late(worker, first, limit):
        if last:
            raise CellFailed("timeout", "on purpose")
        return opened(worker, first, limit)

    end = group_module.GroupRun._end_early
    monkeypatch.setattr(RemoteCell, "open", late)
    monkeypatch.setattr(
        group_module.GroupRun, "_end_early", lambda run, cell: (last.append(1), end(run, cell), last.clear())
    )
    long = cell(graph, "long", backend={"seconds": 150.0}, measure=measure)
    (shortened, other), _ = run(tmp_path, long, cell(graph, "short", measure=measure))
    assert shortened["status"] == other["status"] == "ok" and len(shortened["processes"]) == 2
    assert shortened["facts"] == {"status": "not measured, timeout in the process that was to end it: on purpose"}


def test_workers_that_do_not_fit_beside_each_other_are_noticed_while_they_start(tmp_path, graph, monkeypatch):
    monkeypatch.setattr(group_module.GroupRun, "_wave", 1)
    monkeypatch.setattr(group_module.GroupRun, "_fit", lambda run: len(run._at_work()) < 2)
    started, start = [], RemoteCell.start
    monkeypatch.setattr(RemoteCell, "start", lambda worker: (started.append(worker), start(worker))[-1])
    written, _ = run(tmp_path, *(cell(graph, label) for label in "abc"))
    assert [record["status"] for record in written] == ["ok"] * 3 and not any("alone" in one for one in written)
    assert len(started) == 2 + 3 + 3 * (len(written[0]["processes"]))
