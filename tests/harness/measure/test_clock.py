"""Phases add up on any clock; CPU seconds count work, not waiting."""

import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.clock import Clock, cpu_seconds


class Steps:
    """A clock that the test sets."""

    def __init__(self):
        self.at = 0.0

    def __call__(self):
        return self.at


@given(st.lists(st.tuples(st.sampled_from(["load", "forward", "step"]), st.integers(0, 1000))))
def test_phases_add_up(phases):
    steps = Steps()
    clock = Clock(steps)
    for name, seconds in phases:
        with clock.phase(name):
            steps.at += seconds
        steps.at += 7
    expected = {name: sum(seconds for other, seconds in phases if other == name) for name, _ in phases}
    assert clock.seconds == expected


def test_a_phase_counts_even_when_it_fails():
    steps = Steps()
    clock = Clock(steps)
    with pytest.raises(KeyError), clock.phase("load"):
        steps.at += 2
        raise KeyError
    assert clock.seconds == {"load": 2}


def test_the_device_is_synchronized_at_both_ends_of_a_phase():
    steps = Steps()

    def synchronize():
        steps.at += 10

    clock = Clock(steps, synchronize)
    with clock.phase("forward"):
        steps.at += 1
    assert clock.seconds == {"forward": 11}


def test_phases_of_other_threads_are_not_lost():
    steps = Steps()
    clock = Clock(steps)

    def work():
        for _ in range(2000):
            with clock.phase("load"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    with clock.phase("load"):
        steps.at += 5
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.seconds == {"load": 5}


def test_cpu_seconds_count_work_of_this_process_and_of_ended_children():
    start = cpu_seconds()
    time.sleep(0.2)
    idle = cpu_seconds() - start
    subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"], check=True)
    assert cpu_seconds() - start - idle > idle
