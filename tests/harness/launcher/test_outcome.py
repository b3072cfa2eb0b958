"""Records made from the answers of a cell."""

from harness.launcher.failure import CellFailed
from harness.launcher.interference import Interference
from harness.launcher.outcome import Outcome
from harness.store.record import MEASURED
from tests.cells import cell

QUIET = Interference(seconds=2.0, waiting=0.0, busy=1.0, others=0.5, stolen=0.25)


def sample(seconds, **phases):
    values = {"seconds": seconds, "cpu_seconds": seconds, "phases": phases, "loss": 1.0, "calls": 1, "ran": 2}
    return values | {"first": 2 * seconds, "page_faults": {"minor": 3, "major": 1}}


def opened(**keys):
    return {"prepare": {"load": 1.0}, "warmup": [], "first_call": None, "resident": 10, "parity": None} | keys


def test_phases_of_all_samples_have_one_length():
    outcome = Outcome(cell(None), "group", "run")
    outcome.add_opened(opened())
    outcome.add_process(opened(), 0.1)
    outcome.add_sample(sample(1.0, forward=0.5), QUIET, 0, True)
    outcome.add_sample(sample(2.0, forward=0.5, step=0.25), QUIET, 1, True)
    outcome.add_sample(sample(9.0, forward=9.0), QUIET, 2, False)
    outcome.add_sample(sample(3.0, step=0.25), QUIET, 3, True)
    record = outcome.record("environment")
    assert record["epochs"]["phases"] == {"forward": [0.5, 0.5, 0.0], "step": [0.0, 0.25, 0.25]}
    assert record["epochs"]["disturbed"] == [9.0]
    assert record["rounds"] == [0, 1, 3]
    assert record["prepare"] == {"parse": 0.5, "order": 0.25, "load": 1.0}


def test_every_process_has_its_preparation_and_sums_and_the_time_is_a_median_of_medians():
    outcome = Outcome(cell(None), "group", "run")
    outcome.add_opened(opened(prepare={"load": 9.0}))
    samples = [[1.0, 1.0, 8.0], [4.0], [2.0, 3.0, 2.0]]
    for number, seconds in enumerate(samples):
        outcome.add_process(opened(prepare={"load": float(number)}), 0.1)
        for one in seconds:
            outcome.add_sample(sample(one), QUIET, number, True)
    record = outcome.record("environment")
    assert outcome.seconds == 2.0
    assert record["prepare"]["load"] == 0.0
    assert record["epochs"]["process"] == [0, 0, 0, 1, 2, 2, 2]
    assert record["epochs"]["first"] == [2 * seconds for seconds in record["epochs"]["seconds"]]
    first, second, _ = record["processes"]
    assert (first["prepare"], second["prepare"]) == ({"load": 0.0}, {"load": 1.0})
    assert first["page_faults"] == {"minor": 9, "major": 3} and second["first_call"] == 8.0
    assert (first["load"], first["tolerated_load"], first["steal"]) == (0.25, 0.1, 0.2)


def test_what_the_machine_does_not_tell_is_absent():
    outcome = Outcome(cell(None), "group", "run")
    outcome.add_process(opened(), 0.1)
    outcome.add_sample(sample(1.0), Interference(2.0, 0.0, None, None, None), 0, True)
    assert set(outcome.record("environment")["processes"][0]) == {"prepare", "warmup", "first_call", "page_faults"}


def test_a_failed_cell_keeps_nothing_measured():
    outcome = Outcome(cell(None), "group", "run")
    outcome.add_opened(opened(warmup=[1.0], dataset={"name": "tiny"}))
    outcome.add_process(opened(warmup=[1.0]), 0.1)
    outcome.add_sample(sample(1.0), QUIET, 0, True)
    outcome.failure = CellFailed("timeout", "too late", "tail")
    record = outcome.record("environment")
    assert not set(record) & set(MEASURED)
    assert (record["status"], record["message"], record["log_tail"]) == ("timeout", "too late", "tail")
    assert record["dataset"] == {"name": "tiny"}


def test_a_record_names_its_group_and_its_run():
    record = Outcome(cell(None), "group", "run").record("environment")
    assert (record["group"], record["run"], record["environment"]) == ("group", "run", "environment")
