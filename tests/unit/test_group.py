"""Who measures next, when a cell has had enough, how an end is called, and what a record says of it."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.contract import Unsupported
from harness.launcher.failure import CellFailed, status_of, status_of_exit
from harness.launcher.outcome import Outcome
from harness.launcher.turns import Budget, shuffled
from harness.store.record import MEASURED
from tests.cells import cell

LIMITS = st.builds(
    lambda least, more, seconds: {"min_samples": least, "max_samples": least + more, "max_seconds": seconds},
    st.integers(1, 20),
    st.integers(0, 30),
    st.floats(0.1, 100.0),
)


@given(LIMITS, st.floats(0.001, 50.0))
def test_a_budget_ends_between_its_bounds(limits, seconds):
    budget = Budget(limits)
    while not budget.done:
        budget.seconds.append(seconds)
    taken = len(budget.seconds)
    assert limits["min_samples"] <= taken <= limits["max_samples"]
    if limits["min_samples"] < taken < limits["max_samples"]:
        assert sum(budget.seconds) >= limits["max_seconds"] > sum(budget.seconds[:-1])


@given(LIMITS, st.floats(0.001, 50.0), st.integers(1, 5))
def test_shares_of_a_budget_reach_the_least_number_together(limits, seconds, processes):
    taken = 0
    for _ in range(processes):
        budget = Budget(limits, 1.0 / processes)
        while not budget.done:
            budget.seconds.append(seconds)
        taken += len(budget.seconds)
    assert limits["min_samples"] <= taken <= limits["max_samples"] + processes


@given(LIMITS)
def test_disturbed_samples_are_repeated_a_bounded_number_of_times(limits):
    budget = Budget(limits)
    while not budget.accepts(disturbed=True):
        budget.disturbed += 1
    assert budget.disturbed == limits["max_samples"]
    assert budget.accepts(disturbed=False)


@given(st.lists(st.integers(), unique=True, max_size=12), st.text(), st.integers(0, 1000))
def test_a_round_is_a_repeatable_permutation(cells, seed, number):
    assert sorted(shuffled(cells, seed, number)) == sorted(cells)
    assert shuffled(cells, seed, number) == shuffled(cells, seed, number)


def test_rounds_and_seeds_differ():
    orders = {tuple(shuffled(range(8), seed, number)) for seed in ("a", "b") for number in range(10)}
    assert len(orders) == 20


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), "oom"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"), "oom"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"), "oom"),
        (OSError(12, "Cannot allocate memory"), "oom"),
        (RuntimeError("shapes cannot be multiplied"), "error"),
        (ValueError("a column named MemoryError"), "error"),
        (Unsupported("no such model"), "unsupported"),
        (ModuleNotFoundError("No module named 'dgl'"), "not_installed"),
    ],
    ids=repr,
)
def test_exceptions_have_a_status(error, status):
    assert status_of(error)[0] == status
    assert status_of(error)[1]


@pytest.mark.parametrize(
    ("returncode", "tail", "status", "word"),
    [
        (-signal.SIGKILL, "", "oom", "SIGKILL"),
        (-signal.SIGSEGV, "", "error", "SIGSEGV"),
        (-signal.SIGABRT, "terminate called after throwing an instance of 'std::bad_alloc'", "oom", "SIGABRT"),
        (3, "", "error", "3"),
    ],
)
def test_silent_ends_have_a_status(returncode, tail, status, word):
    found, message = status_of_exit(returncode, tail)
    assert found == status
    assert word in message


def sample(seconds, **phases):
    return {"seconds": seconds, "cpu_seconds": seconds, "phases": phases, "loss": 1.0, "calls": 1, "ran": 1}


def test_phases_of_all_samples_have_one_length():
    outcome = Outcome(cell(None), "group")
    outcome.opened({"prepare": {"load": 1.0}, "warmup": [], "resident": 10, "parity": None})
    outcome.sampled(sample(1.0, forward=0.5), 0, True)
    outcome.sampled(sample(2.0, forward=0.5, step=0.25), 1, True)
    outcome.sampled(sample(9.0, forward=9.0), 2, False)
    outcome.sampled(sample(3.0, step=0.25), 3, True)
    record = outcome.record("environment")
    assert record["epochs"]["phases"] == {"forward": [0.5, 0.5, 0.0], "step": [0.0, 0.25, 0.25]}
    assert record["epochs"]["disturbed"] == [9.0]
    assert record["rounds"] == [0, 1, 3]
    assert record["prepare"] == {"parse": 0.5, "order": 0.25, "load": 1.0}


def test_a_failed_cell_keeps_nothing_measured():
    outcome = Outcome(cell(None), "group")
    outcome.opened({"prepare": {"load": 1.0}, "warmup": [1.0], "resident": 10, "dataset": {"name": "tiny"}})
    outcome.sampled(sample(1.0), 0, True)
    outcome.failure = CellFailed("timeout", "too late", "tail")
    record = outcome.record("environment")
    assert not set(record) & set(MEASURED)
    assert (record["status"], record["message"], record["log_tail"]) == ("timeout", "too late", "tail")
    assert record["dataset"] == {"name": "tiny"}
