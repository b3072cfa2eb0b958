"""Ceilings of a machine: what is timed, and how much of a long list is read."""

import numpy as np
import pytest

from harness.measure import ceilings, shared_values
from harness.measure.best import REPEATS
from harness.measure.ceilings import Cpu


@pytest.fixture(autouse=True)
def no_values():
    shared_values.clear()
    yield
    shared_values.clear()


def test_lists_are_tried_in_part_and_read_whole_and_short_ones_several_times(monkeypatch):
    indices = np.arange(100_000, dtype=np.int64) % 1000
    gathered, read = [], []

    def gathering(table, rows):
        gathered.append(rows)
        return lambda ahead, block, threads: read.append((len(rows), threads))

    monkeypatch.setattr(ceilings, "gathering", gathering)
    monkeypatch.setattr(ceilings, "TRIAL_BYTES", 64 * 1600)
    monkeypatch.setattr(ceilings, "TRIAL_SECONDS", 0.0)
    assert Cpu(1).order_seconds(indices, 1000, 16) > 0
    assert Cpu(1).order_seconds(indices[:0], 1000, 16) == 0
    assert np.array_equal(gathered[1], indices)
    assert read == [(1600, 1)] * 3 * len(ceilings.AHEAD) + [(100_000, 1)] * (1 + REPEATS)
    read.clear()
    Cpu(2).order_seconds(indices[:3], 1000, 16)
    assert {length for length, _ in read} == {1600, 3 * (ceilings.SHORT_BYTES // (3 * 64))}
    assert {threads for _, threads in read} == {1, 2}


def test_a_small_array_moves_at_least_as_fast_as_a_larger_one(monkeypatch):
    monkeypatch.setattr(ceilings, "last_level_bytes", lambda cores: 0)
    speeds = dict(zip(ceilings.SIZES, (5.0, 9.0, 3.0, 2.0, 1.0), strict=True))
    monkeypatch.setattr(Cpu, "stream_bandwidth", lambda machine, size: speeds[size])
    sizes = [0, 1, 1 << 18, 1 << 20, (1 << 22) - 1, 1 << 22, 1 << 40]
    assert [Cpu(1).fastest_bandwidth(size) for size in sizes] == [9, 9, 9, 9, 9, 3, 1]


@pytest.mark.parametrize(("caches", "memory", "size"), [(0, 1 << 30, 1 << 18), (1 << 19, 1 << 30, 1 << 21)])
def test_streams_are_over_arrays_beyond_all_caches(monkeypatch, caches, memory, size):
    monkeypatch.setattr(ceilings, "STREAM_BYTES", 1 << 18)
    monkeypatch.setattr(ceilings, "last_level_bytes", lambda cores: caches)
    monkeypatch.setattr(ceilings, "total", lambda: memory)
    assert Cpu(1).stream_bandwidth() > 0
    assert set(shared_values.snapshot()) == {f"read {size} bytes, 1 threads", f"triad of {size} bytes, 1 threads"}


def test_arrays_of_streams_take_a_small_part_of_memory(monkeypatch):
    monkeypatch.setattr(ceilings, "last_level_bytes", lambda cores: 1 << 40)
    monkeypatch.setattr(ceilings, "total", lambda: 64 << 30)
    assert ceilings.stream_bytes() == 2 << 30


@pytest.mark.parametrize(("threads", "largest"), [(1, 1024), (2, 1024), (4, 1024), (16, 2048), (32, 2048), (64, 4096)])
def test_multiply_adds_are_measured_with_work_enough_for_each_thread(threads, largest):
    products = ceilings._products(threads)
    assert max(products) == (largest, threads) and largest**3 >= threads * ceilings.LEAST_WORK
    assert {(size, count) for size in ceilings.SQUARES for count in (1, threads)} <= set(products)
