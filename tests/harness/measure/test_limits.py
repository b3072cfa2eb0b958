"""Limits: the formulas by hand, and ceilings that are of the right kind."""

import json

import numpy as np
import pytest

from backends.kernels import dispatch, plain
from datasets.csr import Csr
from harness.measure import ceilings, shared_values
from harness.measure.limits import limits

FACTS = {"spmm": [{"name": "forward", "nnz": 1000, "rows": 100, "columns": 80, "width": 20, "count": 3}]}


@pytest.fixture
def fixed(monkeypatch):
    """Ceilings of a machine made up for the test."""
    for name, value in (("read_bandwidth", 1e9), ("triad_bandwidth", 5e8), ("multiply_add_rate", 1e12)):
        monkeypatch.setattr(ceilings, name, lambda threads, value=value: value)
    monkeypatch.setattr(ceilings, "gather_bandwidth", lambda rows, width, threads: 2e9)
    monkeypatch.setattr(ceilings, "order_seconds", lambda indices, rows, width, threads, between: len(indices) * 1e-6)


def operand(nnz):
    return {"name": "forward", "csr": Csr(np.zeros(101, dtype=np.int32), np.zeros(nnz, dtype=np.int32), (100, 80))}


def test_bytes_and_operations_follow_the_formulas(fixed):
    found = limits(FACTS | {"dense_flops": 5_000_000}, 0.01, 2)
    stream = 101 * 4 + 1000 * 8 + 100 * 80
    assert found["flops"] == 3 * 2 * 1000 * 20
    assert found["bytes_best"] == 3 * (stream + 80 * 80)
    assert found["bytes_worst"] == 3 * (stream + 100 * 80 + 1000 * 128)
    assert found["xnr"] == pytest.approx(found["bytes_worst"] / 1e9 / 0.01)
    assert found["dense_seconds"] == pytest.approx(5e-6)
    assert found["fraction_of_limit"] == pytest.approx((found["bytes_best"] / 1e9 + 5e-6) / 0.01)
    assert found["fraction_of_gather"] == pytest.approx((found["bytes_worst"] / 2e9 + 5e-6) / 0.01)
    assert "fraction_of_ceiling" not in found  # nobody told the order of the edges


@pytest.mark.parametrize(("nnz", "bound"), [(1000, 1e-3), (2, (404 + 8000 + 8000 + 6400) / 1e9)])
def test_the_ceiling_is_the_slower_of_stream_and_of_reading_in_order(fixed, nnz, bound):
    found = limits(FACTS, 0.01, 2, [operand(nnz)], dense_floor=0.5)
    assert found["attainable_seconds"] == pytest.approx(3 * bound)
    assert found["fraction_of_ceiling"] == pytest.approx(3 * bound / 0.01)
    assert found["dense_floor"] == 0.5


def test_before_rows_are_read_passes_what_the_call_moves_beside_them(fixed, monkeypatch):
    told = []
    monkeypatch.setattr(ceilings, "order_seconds", lambda *given: told.append(given[1:]) or 1.0)
    moved = limits(FACTS, 0.01, 2, [operand(1000)])["bytes_best"]
    assert told == [(80, 20, 2, moved - 80 * 80)]


def test_a_time_twice_as_long_is_half_as_close(fixed):
    one, two = (limits(FACTS, seconds, 2, [operand(1000)]) for seconds in (0.01, 0.02))
    for key in ("xnr", "fraction_of_limit", "fraction_of_gather", "fraction_of_ceiling"):
        assert one[key] == pytest.approx(2 * two[key])


def test_no_product_no_limits():
    assert limits({"spmm": []}, 1.0, 2) == {}
    assert limits({}, 1.0, 2) == {}


@pytest.mark.parametrize("compiled", [True, False], ids=["native", "torch"])
def test_ceilings_of_this_machine_are_measured(monkeypatch, compiled):
    if not compiled:
        monkeypatch.setitem(dispatch.IMPLEMENTATIONS, "cpu", plain)
    monkeypatch.setattr(ceilings, "STREAM_BYTES", 1 << 22)
    monkeypatch.setattr(ceilings, "GATHER_BYTES", 1 << 20)
    shared_values.clear()
    found = limits(FACTS, 1.0, 1, [operand(1000)])
    assert all(found["ceilings"][name] > 1e6 for name in ("stream", "read", "triad", "flops", "gather"))
    assert found["ceilings"]["stream"] == max(found["ceilings"]["read"], found["ceilings"]["triad"])
    assert found["fraction_of_ceiling"] > 0
    shared_values.clear()


def test_what_another_cell_measured_is_not_measured_again(monkeypatch):
    shared_values.clear()
    facts = {"spmm": [FACTS["spmm"][0] | {"rows": 10, "columns": 10}]}
    monkeypatch.setattr(ceilings, "best_of", lambda call, *rest, **named: 0.5)
    first = limits(facts, 1.0, 1, [operand(1000)])
    values = json.loads(json.dumps(shared_values.snapshot()))
    shared_values.clear()
    shared_values.adopt(values)
    monkeypatch.setattr(ceilings, "best_of", lambda call, *rest, **named: 0.25)
    assert limits(facts, 1.0, 1, [operand(1000)]) == first
    assert limits(facts, 1.0, 1, [operand(2000)])["fraction_of_ceiling"] < first["fraction_of_ceiling"]
    shared_values.clear()
