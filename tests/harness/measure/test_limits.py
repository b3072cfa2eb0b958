"""Limits: the formulas by hand, the ceilings of this machine, values shared by the cells of a group."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.kernels import dispatch, plain, spmm
from datasets.csr import Csr
from harness.measure import best, ceilings, shared_values
from harness.measure.best import stable_best
from harness.measure.ceilings import Cpu
from harness.measure.dense import DenseFloor
from harness.measure.limits import limits
from harness.store.sections import LimitFacts
from harness.store.violations import violations

FACTS = {"spmm": [{"name": "forward", "nnz": 1000, "rows": 100, "columns": 80, "width": 20, "count": 1}]}
TIMES_THREE = {"spmm": [FACTS["spmm"][0] | {"count": 3}]}


@pytest.fixture
def fixed(monkeypatch):
    """Ceilings of an imaginary machine."""
    for name, value in (("read_bandwidth", 1e9), ("triad_bandwidth", 5e8)):
        monkeypatch.setattr(Cpu, name, lambda machine, size=0, value=value: value)
    monkeypatch.setattr(Cpu, "multiply_add_rate", lambda machine: 1e12)
    monkeypatch.setattr(Cpu, "gather_bandwidth", lambda machine, rows, width: 2e9)
    monkeypatch.setattr(Cpu, "order_seconds", lambda machine, indices, *rest: len(indices) * 1e-6)


def operand(nnz, columns=80):
    indices = (np.arange(nnz) % columns).astype(np.int32)
    indptr = np.concatenate([[0], np.full(100, nnz)]).astype(np.int32)
    return {"name": "forward", "csr": Csr(indptr, indices, (100, 80))}


@pytest.mark.parametrize(("columns", "distinct"), [(80, 80), (1, 1)])
def test_bytes_and_operations_follow_the_formulas(fixed, columns, distinct):
    values = limits(TIMES_THREE | {"dense_flops": 5_000_000}, 0.01, Cpu(2), [operand(1000, columns)])
    least = 101 * 4 + 1000 * 4 + 100 * 80 + distinct * 80
    assert values["flops"] == 3 * 2 * 1000 * 20
    assert values["bytes_least"] == 3 * least
    assert values["bytes_worst"] == 3 * (101 * 4 + 1000 * 8 + 2 * 100 * 80 + 1000 * 128)
    assert values["xnr"] == pytest.approx(values["bytes_worst"] / 1e9 / 0.01)
    assert values["dense_seconds"] == pytest.approx(5e-6)
    assert values["fraction_of_limit"] == pytest.approx(2 * least / 1e9 / 0.01)  # the last batch may be short
    assert values["fraction_of_gather"] == pytest.approx((values["bytes_worst"] / 2e9 + 5e-6) / 0.01)


def test_a_table_that_memory_does_not_hold_leaves_the_limits_out_and_says_so():
    huge = {"spmm": [FACTS["spmm"][0] | {"columns": 2**31 - 1, "width": 2**16}]}
    values = limits(huge, 0.01, Cpu(1))
    assert set(values) == {"status"} and values["status"].startswith("not measured, oom")
    assert violations(values, LimitFacts) == []


def test_a_dense_floor_that_memory_does_not_hold_leaves_the_limits_out_and_says_so(fixed):
    def floor():
        raise MemoryError("Unable to allocate 1 TiB")

    assert limits(FACTS, 0.01, Cpu(2), [operand(1000)], floor) == {
        "status": "not measured, oom: Unable to allocate 1 TiB"
    }


def test_without_the_edges_no_row_is_counted_and_there_is_no_ceiling(fixed):
    values = limits(FACTS, 0.01, Cpu(2))
    assert values["bytes_least"] == 101 * 4 + 1000 * 4 + 100 * 80
    assert "fraction_of_ceiling" not in values


@pytest.mark.parametrize(
    "form",
    [
        {"panels": {"forward": 4}},
        {"tiles": {"forward": 0.5}},
        {"ranks": {"forms": [{"panels": {}, "tiles": {}}, {"panels": {"own": 2}, "tiles": {}}]}},
    ],
)
def test_a_product_that_reads_its_edges_in_another_order_has_no_ceiling(fixed, form):
    assert "ceiling" in limits(FACTS, 1e-6, Cpu(2), [operand(1000)])["beaten"]
    values = limits(FACTS | form, 1e-6, Cpu(2), [operand(1000)])
    assert "fraction_of_ceiling" not in values and "ceiling" not in values["beaten"]
    other = {"panels": {"backward": 4}, "tiles": {}}
    assert "fraction_of_ceiling" in limits(FACTS | other, 0.01, Cpu(2), [operand(1000)])


def test_facts_of_a_plug_ins_own_under_our_names_change_no_limit(fixed):
    own = {"panels": 4, "tiles": "none", "ranks": 2, "workers": "spawned"}
    assert limits(FACTS | {"ranks": {"forms": "two"}}, 0.01, Cpu(2), [operand(1000)]) == limits(
        FACTS, 0.01, Cpu(2), [operand(1000)]
    )
    assert limits(FACTS | own, 0.01, Cpu(2), [operand(1000)]) == limits(FACTS, 0.01, Cpu(2), [operand(1000)])


@pytest.mark.parametrize(("nnz", "bound"), [(1000, 1e-3), (2, (404 + 1000 * 4 + 8000 + 160) / 1e9)])
def test_the_ceiling_is_the_slower_of_stream_and_of_reading_in_order(fixed, nnz, bound):
    values = limits(FACTS, 0.01, Cpu(2), [operand(nnz)])
    assert values["attainable_seconds"] == pytest.approx(bound)
    assert values["fraction_of_ceiling"] == pytest.approx(bound / 0.01)


def test_operations_bound_a_call_that_moves_few_bytes(fixed):
    values = limits(FACTS | {"dense_flops": 1e10}, 1.0, Cpu(2), [operand(1000)])
    assert values["fraction_of_limit"] == pytest.approx((40_000 + 1e10) / 1e12)
    fewer = limits(FACTS | {"dense_flops": 1e10}, 1.0, Cpu(2), [operand(1000)], lambda: DenseFloor(0.5, 10**9))
    assert fewer["fraction_of_limit"] == pytest.approx((40_000 + 1e9) / 1e12)
    assert fewer["dense_floor"] == 0.5


def test_a_bound_that_a_call_beats_is_named_with_its_seconds(fixed):
    arguments = (Cpu(2), [operand(1000)], lambda: DenseFloor(0.5, 10**9))
    assert "beaten" not in limits(FACTS, 0.5, *arguments)
    assert limits(FACTS, 0.4, *arguments)["beaten"] == {"dense_floor": 0.5}
    assert set(limits(FACTS, 1e-6, *arguments)["beaten"]) == {"dense_floor", "limit", "ceiling"}


def test_order_seconds_gets_the_bytes_moved_beside_the_gathers(fixed, monkeypatch):
    calls = []
    monkeypatch.setattr(Cpu, "order_seconds", lambda machine, *arguments: calls.append(arguments[1:]) or 1.0)
    moved = limits(FACTS, 0.01, Cpu(2), [operand(1000)])["bytes_least"]
    assert calls == [(80, 20, moved - 80 * 80)]


def test_a_time_twice_as_long_is_half_as_close(fixed):
    one, two = (limits(FACTS, seconds, Cpu(2), [operand(1000)]) for seconds in (0.01, 0.02))
    for key in ("xnr", "fraction_of_limit", "fraction_of_gather", "fraction_of_ceiling"):
        assert one[key] == pytest.approx(2 * two[key])


def test_products_without_columns_count_nothing(fixed):
    narrow = FACTS["spmm"][0] | {"name": "empty", "width": 0}
    assert limits({"spmm": [narrow]}, 0.01, Cpu(1)) == {}
    answers = [
        limits({"spmm": spmms}, 0.01, Cpu(1), [operand(1000)]) for spmms in (FACTS["spmm"], [narrow, *FACTS["spmm"]])
    ]
    assert answers[0]["bytes_worst"] == answers[1]["bytes_worst"] > 0


def test_without_an_spmm_there_are_no_limits():
    assert limits({"spmm": []}, 1.0, Cpu(2)) == {}
    assert limits({}, 1.0, Cpu(2)) == {}


@pytest.fixture
def small(monkeypatch):
    """Small arrays, and no value of another test."""
    monkeypatch.setattr(ceilings, "STREAM_BYTES", 1 << 22)
    monkeypatch.setattr(ceilings, "last_level_bytes", lambda cores: 0)
    monkeypatch.setattr(ceilings, "SIZES", (1 << 18, 1 << 20, 1 << 22))
    monkeypatch.setattr(ceilings, "GATHER_BYTES", 1 << 20)
    monkeypatch.setattr(ceilings, "TRIAL_SECONDS", 0.02)
    monkeypatch.setattr(ceilings, "SQUARES", (256,))
    shared_values.clear()
    yield
    shared_values.clear()


@pytest.mark.parametrize("compiled", [True, False], ids=["native", "torch"])
def test_ceilings_of_this_machine_are_measured(monkeypatch, small, compiled):
    if not compiled:
        monkeypatch.setitem(dispatch.IMPLEMENTATIONS, "cpu", plain)
    values = limits(FACTS, 1.0, Cpu(1), [operand(1000)])
    assert all(values["ceilings"][name] > 1e6 for name in ("stream", "read", "triad", "flops", "gather"))
    assert values["ceilings"]["stream"] >= max(values["ceilings"]["read"], values["ceilings"]["triad"])
    assert values["fraction_of_ceiling"] > 0


GRAPHS = st.tuples(st.sampled_from([1, 3, 60, 4000]), st.sampled_from([0, 1, 50, 20_000]), st.sampled_from([1, 5, 64]))


@settings(max_examples=6)
@given(GRAPHS, st.booleans(), st.sampled_from([1, 2]))
def test_no_bound_is_above_the_same_product_timed_here(shape, hub, threads):
    nodes, nnz, width = shape
    random = np.random.default_rng(nnz)
    destinations = np.sort(random.integers(0, nodes, nnz))
    indptr = np.searchsorted(destinations, np.arange(nodes + 1)).astype(np.int32)
    indices = (np.zeros(nnz) if hub else random.integers(0, nodes, nnz)).astype(np.int32)
    csr = Csr(indptr, indices, (nodes, nodes))
    x = torch.rand(nodes, width)
    facts = {"spmm": [{"name": "forward", "nnz": nnz, "rows": nodes, "columns": nodes, "width": width, "count": 1}]}
    torch.set_num_threads(threads)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(best, "LONGEST", 0.2)
        patched.setattr(ceilings, "TRIAL_SECONDS", 0.05)
        seconds = stable_best([lambda: spmm(csr, x)])
        values = limits(facts, seconds, Cpu(threads), [{"name": "forward", "csr": csr}])
    assert 0 < values["fraction_of_limit"] < 1.5
    assert 0 < values["fraction_of_ceiling"] < 1.5


def test_ceilings_measured_by_other_cells_are_not_measured_again(monkeypatch):
    shared_values.clear()
    facts = {"spmm": [FACTS["spmm"][0] | {"rows": 10, "columns": 80}]}
    answers = []
    for process in range(shared_values.PROCESSES + 2):
        for name in ("best_of", "stable_best"):
            monkeypatch.setattr(ceilings, name, lambda call, *rest, process=process, **named: 0.5 / (1 + process))
        answers.append(limits(facts, 1.0, Cpu(1), [operand(1000)])["fraction_of_ceiling"])
        values = json.loads(json.dumps(shared_values.snapshot()))
        shared_values.clear()
        shared_values.adopt(values)
    assert answers == sorted(answers, reverse=True)
    assert len(set(answers)) == shared_values.PROCESSES
    shared_values.clear()
