"""What others did during a sample: read from the kernel's counters, judged beside the cores of the cell."""

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.launcher import interference
from harness.launcher.interference import TICK, Interference, between, cores_of, read

STAT = "cpu  900 0 90 5 5 7 7 50 0 0\ncpu0 300 10 30 5 5 7 7 20 0 0\ncpu1 600 0 60 5 5 7 7 30 0 0\nintr 5 1\n"


def test_only_the_cores_of_this_process_count():
    assert cores_of(STAT, {0, 1}) == (pytest.approx(1000 * TICK), pytest.approx(50 * TICK))
    assert cores_of(STAT, {1}) == (pytest.approx(660 * TICK), pytest.approx(30 * TICK))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (None, None)),
        ("cpu  0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\n", (None, None)),  # sandboxes
        ("cpu0 10 0 0 5\n", (10 * TICK, None)),  # no steal
        ("cpu1 10 0 0 5 0 0 0 3\n", (None, None)),  # a core of somebody else
    ],
)
def test_what_the_kernel_does_not_tell_is_unknown(text, expected):
    assert cores_of(text, {0}) == expected


def test_counters_that_cannot_be_read_are_unknown(monkeypatch):
    def missing(_):
        raise FileNotFoundError

    monkeypatch.setattr(interference.Path, "read_text", missing)
    reading = read((), (), first=True)
    assert reading.busy is None and reading.stolen is None
    quiet = between(reading, read((), (), first=False))
    assert quiet.others is None and not quiet.disturbs(1.0, 2, 2)


@given(st.integers(1, 64), st.integers(1, 64), st.floats(0.2, 100.0))  # longer than the errors of the counters
def test_a_program_on_every_core_disturbs_and_an_idle_machine_does_not(threads, cores, seconds):
    idle = Interference(seconds, 0.0, seconds, 0.0, 0.0)
    assert not idle.disturbs(seconds, threads, cores)
    busy = Interference(seconds, 0.0, seconds * cores, seconds * cores, 0.0)
    assert busy.disturbs(seconds, threads, cores)
    stolen = Interference(seconds, 0.0, seconds, 0.0, seconds)
    assert stolen.disturbs(seconds, threads, cores)


def test_one_busy_program_disturbs_a_cell_on_all_cores_and_not_two_threads_of_sixty_four():
    busy = Interference(10.0, 0.0, 10.0, 10.0, 0.0)
    assert busy.disturbs(10.0, threads=1, cores=1)
    assert busy.disturbs(20.0, threads=2, cores=2)
    assert busy.disturbs(640.0, threads=64, cores=64)
    assert not busy.disturbs(20.0, threads=2, cores=64)


def test_waiting_cells_may_use_a_hundredth():
    assert Interference(10.0, 0.3, None, None, None).disturbs(20.0, 2, 2)
    assert not Interference(10.0, 0.1, None, None, None).disturbs(20.0, 2, 2)


def test_another_program_is_seen():
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        before = read((), (), first=True)
        time.sleep(1.0)
        beside = between(before, read((), (), first=False))
        ours_before = read((other.pid,), (), first=True)
        time.sleep(1.0)
        ours = between(ours_before, read((other.pid,), (), first=False))
    finally:
        other.kill()
        other.wait()
    assert beside.others is None or beside.others > 0.1
    assert ours.others is None or ours.busy - ours.others > 0.1
