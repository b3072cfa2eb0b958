"""Ceilings of a device: on a GPU where there is one, else the same calls on the CPU; what is timed and shared."""

import pytest
import torch

from harness.measure import best, gpu_ceilings, shared_values
from harness.measure.gpu_ceilings import Gpu
from harness.measure.limits import limits
from tests.harness.measure.test_limits import FACTS, operand

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def device(monkeypatch):
    """A device, with small arrays where it is the CPU."""
    shared_values.clear()
    if DEVICE == "cpu":
        for name, value in (("STREAM_BYTES", 1 << 20), ("SIZES", (1 << 18, 1 << 20)), ("SQUARES", (64,))):
            monkeypatch.setattr(gpu_ceilings, name, value)
        monkeypatch.setattr(gpu_ceilings, "GATHER_BYTES", 1 << 20)
        monkeypatch.setattr(best, "QUEUED", 2)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a device")
    yield Gpu(DEVICE)
    shared_values.clear()


def test_a_call_on_a_device_has_limits_but_no_order_of_edges(device):
    values = limits(FACTS, 1.0, device, [operand(1000)])
    assert all(values["ceilings"][name] > 1e6 for name in ("stream", "read", "triad", "flops", "gather"))
    assert values["fraction_of_limit"] > 0 and values["xnr"] > 0 and values["fraction_of_gather"] > 0
    assert "fraction_of_ceiling" not in values and "torch" in values["ceilings"]["kernel"]


def test_a_small_array_moves_at_least_as_fast_as_a_larger_one(device):
    speeds = [device.fastest_bandwidth(size) for size in (0, 1 << 18, gpu_ceilings.SIZES[-1], 1 << 40)]
    assert speeds == sorted(speeds, reverse=True)


def test_devices_share_no_ceilings_with_each_other_or_the_processor(device):
    device.read_bandwidth()
    assert all(name.endswith(f", {DEVICE}") for name in shared_values.snapshot())


def test_a_queue_of_calls_is_waited_for_and_divided_by_their_number():
    calls, clock = [], iter(range(10**6))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(best.time, "perf_counter", lambda: next(clock) / 1024)
        seconds = best.queued_best([lambda: calls.append("call")], lambda: calls.append("wait"))
    assert seconds == 1 / 1024 / best.QUEUED
    assert calls[:1] == ["call"] and calls[2 : 2 + best.QUEUED] == ["call"] * best.QUEUED
    assert calls[2 + best.QUEUED] == "wait"
