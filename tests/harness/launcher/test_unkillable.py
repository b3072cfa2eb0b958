"""A process that cannot be killed costs no record, and ends the run with a sentence."""

import json

import pytest

from harness.cell import main as run_plan
from harness.launcher import process
from harness.run import main as run_command
from tests.cells import cell, group, records, saved_graph

pytestmark = pytest.mark.usefixtures("own_lock", "unknown_load")

SENTENCE = "cannot be killed: end them by hand; records so far are whole"


@pytest.fixture(autouse=True)
def unkillable(monkeypatch):
    """Process trees that end, but of which one process seems to be left."""
    end_tree = process.end_tree
    monkeypatch.setattr(process, "end_tree", lambda tree: [*end_tree(tree), 2**22 + 1])


@pytest.mark.parametrize(("fail", "status"), [("none", "ok"), ("raise", "error")], ids=["good", "failed"])
def test_the_run_of_a_plan_has_the_record_and_ends_with_1(tmp_path, capsys, fail, status):
    saved_graph(tmp_path / "graphs" / "tiny")
    (tmp_path / "cells.json").write_text(json.dumps({"groups": [group(cell("graphs/tiny", backend={"fail": fail}))]}))
    assert run_plan([str(tmp_path / "cells.json"), "--out", str(tmp_path / "out")]) == 1
    assert SENTENCE in capsys.readouterr().err
    assert [record["status"] for record in records(tmp_path / "out")] == [status]


def test_a_command_has_the_record_and_ends_with_1(tmp_path, capsys, cache_folder):
    measure = ["measure=few", "measure.limits=false", "measure.parity=false", "measure.processes=1"]
    graph = ["dataset=uug", "dataset.options.nodes=500", "model=sage", "scenario.train_to_end=false"]
    assert run_command(["backend=dummy", *measure, *graph, f"results={tmp_path / 'results'}"]) == 1
    errors = capsys.readouterr().err
    assert "error: processes [" in errors and SENTENCE in errors
    assert [record["status"] for record in records(tmp_path / "results")] == ["ok"]
