"""Processes that a group opens: one at a time where memory holds no two, and one that is to end a cell."""

import pytest

from harness.launcher import group as group_module
from harness.launcher.allowance import Allowance
from harness.launcher.failure import CellFailed
from harness.launcher.remote import RemoteCell
from tests.cells import cell, run, saved_graph

pytestmark = pytest.mark.usefixtures("own_lock", "unknown_load")


@pytest.fixture
def graph(tmp_path):
    return saved_graph(tmp_path / "graph")


def test_a_cell_that_cannot_be_opened_to_end_it_keeps_its_samples(tmp_path, graph, monkeypatch):
    """The group's time ends after two of three processes, and the one that is to end the cell comes late."""
    opened, end_early, late = RemoteCell.open, group_module.GroupRun._end_early, []

    def fit(allowance, cells, calls, number):
        for one in cells:
            one.processes = min(one.processes, 2)

    def end(group, cell):
        late.append(cell)
        end_early(group, cell)

    def open_unless_late(worker, *arguments):
        if late:
            raise CellFailed("timeout", "on purpose")
        return opened(worker, *arguments)

    monkeypatch.setattr(Allowance, "fit", lambda *arguments: fit(*arguments) if arguments[-1] == 2 else None)
    monkeypatch.setattr(group_module.GroupRun, "_end_early", end)
    monkeypatch.setattr(RemoteCell, "open", open_unless_late)
    (written,), _ = run(tmp_path, cell(graph, "long", measure={"processes": 3}))
    assert late and written["status"] == "ok" and len(written["processes"]) == 2
    assert written["facts"] == {"status": "not measured, timeout in the process that was to end it: on purpose"}


def test_workers_that_do_not_fit_beside_each_other_are_noticed_while_they_start(tmp_path, graph, monkeypatch):
    monkeypatch.setattr(group_module.GroupRun, "_wave", 1)
    monkeypatch.setattr(group_module.GroupRun, "_fit", lambda run: len(run._at_work()) < 2)
    started, start = [], RemoteCell.start
    monkeypatch.setattr(RemoteCell, "start", lambda worker: (started.append(worker), start(worker))[-1])
    written, _ = run(tmp_path, *(cell(graph, label) for label in "abc"))
    assert [record["status"] for record in written] == ["ok"] * 3 and not any("alone" in one for one in written)
    assert len(started) == 2 + 2 + 3 * (len(written[0]["processes"]))
