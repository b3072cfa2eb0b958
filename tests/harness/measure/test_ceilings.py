"""Ceilings of a machine: what is timed, and how much of a long list is read."""

import numpy as np

from harness.measure import ceilings, shared_values


def test_the_preparation_of_a_call_is_not_timed(monkeypatch):
    now, order = [0.0], []

    def step(name, seconds):
        order.append(name)
        now[0] += seconds

    monkeypatch.setattr(ceilings.time, "perf_counter", lambda: now[0])
    assert ceilings.best_of(lambda: step("call", 1), 2, before=lambda: step("before", 8)) == 1
    assert order == ["call", "before", "call", "before", "call"]


def test_long_lists_are_tried_in_part_and_read_whole(monkeypatch):
    indices = np.arange(100_000, dtype=np.int64) % 1000
    gathered, read = [], []

    def gathering(table, rows):
        gathered.append(rows)
        return lambda ahead, block, threads: read.append(len(rows))

    monkeypatch.setattr(ceilings, "gathering", gathering)
    monkeypatch.setattr(ceilings, "TRIAL_BYTES", 64 * 1600)
    monkeypatch.setattr(ceilings, "TRIAL_SECONDS", 0.0)
    shared_values.clear()
    assert ceilings.order_seconds(indices, 1000, 16, 1) > 0
    assert ceilings.order_seconds(indices[:0], 1000, 16, 1) == 0
    shared_values.clear()
    assert np.array_equal(gathered[1], indices)
    assert read == [1600] * 3 * len(ceilings.AHEAD) + [100_000] * (1 + ceilings.REPEATS)
