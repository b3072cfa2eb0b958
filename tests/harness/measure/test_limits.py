"""Limits: the formulas by hand, the ceilings of this machine, values shared by the cells of a group."""

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
    """Ceilings of an imaginary machine."""
    for name, value in (("read_bandwidth", 1e9), ("triad_bandwidth", 5e8), ("multiply_add_rate", 1e12)):
        monkeypatch.setattr(ceilings, name, lambda threads, value=value: value)
    monkeypatch.setattr(ceilings, "gather_bandwidth", lambda rows, width, threads: 2e9)
    monkeypatch.setattr(ceilings, "order_seconds", lambda indices, rows, width, threads, between: len(indices) * 1e-6)


def operand(nnz):
    return {"name": "forward", "csr": Csr(np.zeros(101, dtype=np.int32), np.zeros(nnz, dtype=np.int32), (100, 80))}


def test_bytes_and_operations_follow_the_formulas(fixed):
    values = limits(FACTS | {"dense_flops": 5_000_000}, 0.01, 2)
    stream = 101 * 4 + 1000 * 8 + 100 * 80
    assert values["flops"] == 3 * 2 * 1000 * 20
    assert values["bytes_best"] == 3 * (stream + 80 * 80)
    assert values["bytes_worst"] == 3 * (stream + 100 * 80 + 1000 * 128)
    assert values["xnr"] == pytest.approx(values["bytes_worst"] / 1e9 / 0.01)
    assert values["dense_seconds"] == pytest.approx(5e-6)
    assert values["fraction_of_limit"] == pytest.approx((values["bytes_best"] / 1e9 + 5e-6) / 0.01)
    assert values["fraction_of_gather"] == pytest.approx((values["bytes_worst"] / 2e9 + 5e-6) / 0.01)
    assert "fraction_of_ceiling" not in values  # without the operands the order of the edges is unknown


@pytest.mark.parametrize(("nnz", "bound"), [(1000, 1e-3), (2, (404 + 8000 + 8000 + 6400) / 1e9)])
def test_the_ceiling_is_the_slower_of_stream_and_of_reading_in_order(fixed, nnz, bound):
    values = limits(FACTS, 0.01, 2, [operand(nnz)], dense_floor=0.5)
    assert values["attainable_seconds"] == pytest.approx(3 * bound)
    assert values["fraction_of_ceiling"] == pytest.approx(3 * bound / 0.01)
    assert values["dense_floor"] == 0.5


def test_order_seconds_gets_the_bytes_moved_beside_the_gathers(fixed, monkeypatch):
    calls = []
    monkeypatch.setattr(ceilings, "order_seconds", lambda *arguments: calls.append(arguments[1:]) or 1.0)
    moved = limits(FACTS, 0.01, 2, [operand(1000)])["bytes_best"]
    assert calls == [(80, 20, 2, moved - 80 * 80)]


def test_a_time_twice_as_long_is_half_as_close(fixed):
    one, two = (limits(FACTS, seconds, 2, [operand(1000)]) for seconds in (0.01, 0.02))
    for key in ("xnr", "fraction_of_limit", "fraction_of_gather", "fraction_of_ceiling"):
        assert one[key] == pytest.approx(2 * two[key])


def test_without_an_spmm_there_are_no_limits():
    assert limits({"spmm": []}, 1.0, 2) == {}
    assert limits({}, 1.0, 2) == {}


@pytest.mark.parametrize("compiled", [True, False], ids=["native", "torch"])
def test_ceilings_of_this_machine_are_measured(monkeypatch, compiled):
    if not compiled:
        monkeypatch.setitem(dispatch.IMPLEMENTATIONS, "cpu", plain)
    monkeypatch.setattr(ceilings, "STREAM_BYTES", 1 << 22)
    monkeypatch.setattr(ceilings, "GATHER_BYTES", 1 << 20)
    shared_values.clear()
    values = limits(FACTS, 1.0, 1, [operand(1000)])
    assert all(values["ceilings"][name] > 1e6 for name in ("stream", "read", "triad", "flops", "gather"))
    assert values["ceilings"]["stream"] == max(values["ceilings"]["read"], values["ceilings"]["triad"])
    assert values["fraction_of_ceiling"] > 0
    shared_values.clear()


def test_ceilings_measured_by_another_cell_are_not_measured_again(monkeypatch):
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
