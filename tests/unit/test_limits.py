"""Limits: the formulas by hand, and ceilings that are of the right kind."""

import pytest

from harness.measure import limits as measured
from harness.measure.limits import limits

FACTS = {"spmm": [{"name": "forward", "nnz": 1000, "rows": 100, "columns": 80, "width": 20, "count": 3}]}


@pytest.fixture
def fixed(monkeypatch):
    """Ceilings of a machine made up for the test."""
    monkeypatch.setattr(measured, "stream_bandwidth", lambda threads: 1e9)
    monkeypatch.setattr(measured, "multiply_add_rate", lambda threads: 1e12)
    monkeypatch.setattr(measured, "gather_bandwidth", lambda rows, width, threads: 2e9)


def test_bytes_and_operations_follow_the_formulas(fixed):
    found = limits(FACTS | {"dense_flops": 5_000_000}, 0.01, 2)
    stream = 101 * 4 + 1000 * 8 + 2 * 100 * 80
    assert found["flops"] == 3 * 2 * 1000 * 20
    assert found["bytes_best"] == 3 * (stream + 80 * 80)
    assert found["bytes_worst"] == 3 * (stream + 1000 * 128)
    assert found["xnr"] == pytest.approx(found["bytes_worst"] / 1e9 / 0.01)
    assert found["dense_seconds"] == pytest.approx(5e-6)
    assert found["fraction_of_limit"] == pytest.approx((found["bytes_best"] / 1e9 + 5e-6) / 0.01)
    assert found["fraction_of_gather"] == pytest.approx((found["bytes_worst"] / 2e9 + 5e-6) / 0.01)


def test_a_time_twice_as_long_is_half_as_close(fixed):
    one, two = limits(FACTS, 0.01, 2), limits(FACTS, 0.02, 2)
    for key in ("xnr", "fraction_of_limit", "fraction_of_gather"):
        assert one[key] == pytest.approx(2 * two[key])


def test_no_product_no_limits():
    assert limits({"spmm": []}, 1.0, 2) == {}
    assert limits({}, 1.0, 2) == {}


def test_ceilings_of_this_machine_are_measured(monkeypatch):
    monkeypatch.setattr(measured, "STREAM_BYTES", 1 << 22)
    monkeypatch.setattr(measured, "GATHER_BYTES", 1 << 20)
    found = limits(FACTS, 1.0, 1)
    assert all(found["ceilings"][name] > 1e6 for name in ("stream", "flops", "gather"))
    for cached in (measured.stream_bandwidth, measured.multiply_add_rate, measured.gather_bandwidth):
        cached.cache_clear()
