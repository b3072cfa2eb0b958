"""Records made from the answers of a cell."""

from harness.launcher.failure import CellFailed
from harness.launcher.outcome import Outcome
from harness.store.record import MEASURED
from tests.cells import cell


def sample(seconds, **phases):
    return {"seconds": seconds, "cpu_seconds": seconds, "phases": phases, "loss": 1.0, "calls": 1, "ran": 1}


def test_phases_of_all_samples_have_one_length():
    outcome = Outcome(cell(None), "group", "run")
    outcome.add_opened({"prepare": {"load": 1.0}, "warmup": [], "resident": 10, "parity": None})
    outcome.add_sample(sample(1.0, forward=0.5), 0, True)
    outcome.add_sample(sample(2.0, forward=0.5, step=0.25), 1, True)
    outcome.add_sample(sample(9.0, forward=9.0), 2, False)
    outcome.add_sample(sample(3.0, step=0.25), 3, True)
    record = outcome.record("environment")
    assert record["epochs"]["phases"] == {"forward": [0.5, 0.5, 0.0], "step": [0.0, 0.25, 0.25]}
    assert record["epochs"]["disturbed"] == [9.0]
    assert record["rounds"] == [0, 1, 3]
    assert record["prepare"] == {"parse": 0.5, "order": 0.25, "load": 1.0}


def test_a_failed_cell_keeps_nothing_measured():
    outcome = Outcome(cell(None), "group", "run")
    outcome.add_opened({"prepare": {"load": 1.0}, "warmup": [1.0], "resident": 10, "dataset": {"name": "tiny"}})
    outcome.add_sample(sample(1.0), 0, True)
    outcome.failure = CellFailed("timeout", "too late", "tail")
    record = outcome.record("environment")
    assert not set(record) & set(MEASURED)
    assert (record["status"], record["message"], record["log_tail"]) == ("timeout", "too late", "tail")
    assert record["dataset"] == {"name": "tiny"}


def test_a_record_names_its_group_and_its_run():
    record = Outcome(cell(None), "group", "run").record("environment")
    assert (record["group"], record["run"], record["environment"]) == ("group", "run", "environment")
