"""Estimates of a cell's time from records of the same work."""

import pytest

from harness.planning.estimate import Estimates, _same, _work, expected_seconds
from harness.store import files
from tests import factory
from tests.harness.planning.test_plan import MACHINE, config, groups, write

MEASURE = {"processes": 1, "warmup": 2, "min_samples": 5, "max_samples": 5, "max_seconds": 60.0}
MEASURE |= {"repeat_seconds": 0.0, "turn_seconds": 2.0}


def earlier(seconds, **keys):
    values = factory.record("dgl", 0, seconds) | {"prepare": {"parse": 10.0, "import": 3.0}} | keys
    values["epochs"]["seconds"] = [seconds] * 3
    del values["metrics"]
    return values


def test_every_process_prepares_warms_up_and_takes_its_turns():
    one = expected_seconds(earlier(1.0), MEASURE)
    assert one == pytest.approx(10 + 3 + 2 + 5 * 2)
    five = expected_seconds(earlier(1.0), MEASURE | {"processes": 5})
    assert five == pytest.approx(10 + 5 * (3 + 2 + 2))


def test_training_to_the_end_counts_once_in_whole_epochs():
    record = earlier(1.0, extrapolated=4.0)
    record["metrics"] = {"epochs_run": 100}
    assert expected_seconds(record, MEASURE) == pytest.approx(10 + 3 + 2 + 10 + 400)


def test_work_is_the_same_however_it_is_measured_and_whatever_options_are_newer():
    older = _work(factory.config("agl", measure={"warmup": 7}))
    today = _work(factory.config("agl", backend={"name": "agl", "newer": 1}, measure={"warmup": 2, "processes": 5}))
    assert _same(today, older)
    assert not _same(_work(factory.config("agl", model={"hidden": 9})), older)


def test_each_record_is_read_once_for_all_cells_and_machines(tmp_path, monkeypatch):
    (group,) = groups(config(), config("backend.seconds=0.02"))
    write(group, tmp_path, ["ok", "ok"])
    paths, read_record = [], files.read_record
    monkeypatch.setattr(files, "read_record", lambda path: paths.append(path) or read_record(path))
    estimates = Estimates(tmp_path)
    assert all(estimates.seconds(cell, machine) for machine in (MACHINE, "another") for cell in group.cells)
    assert len(paths) == len(set(paths)) == 2
