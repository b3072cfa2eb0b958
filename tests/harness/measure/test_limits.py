"""Limits: the formulas by hand, and ceilings that are of the right kind."""

import json
from itertools import product

import numpy as np
import pytest
import torch

from backends.kernels import ceiling, dispatch, plain
from backends.kernels.extension import extension
from backends.model import ModelSpec, initial_state
from datasets.csr import Csr
from harness.measure import ceilings, shared_values
from harness.measure.dense import dense_floor
from harness.measure.limits import limits
from tests.graphs import awkward_graph

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


def test_what_passes_before_a_call_is_not_timed(monkeypatch):
    now, order = [0.0], []

    def step(name, seconds):
        order.append(name)
        now[0] += seconds

    monkeypatch.setattr(ceilings.time, "perf_counter", lambda: now[0])
    assert ceilings.best_of(lambda: step("call", 1), 2, before=lambda: step("before", 8)) == 1
    assert order == ["call", "before", "call", "before", "call"]


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


@pytest.mark.parametrize("width", [1, 5, 8, 16, 23, 64, 65, 200])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_gather_reads_every_value_of_its_rows(width, threads):
    if extension is None:
        return
    draw = np.random.default_rng(width)
    table = torch.from_numpy(draw.integers(0, 9, (50, width)).astype(np.float32))
    indices = torch.from_numpy(draw.integers(0, 50, 10_000).astype(np.int32))
    rows = table.numpy()[indices.numpy()]
    lanes = next(lanes for lanes in (extension.lanes, 8, 4, 2, 1) if lanes <= width)
    twice = rows[:, width - lanes : width - width % lanes].sum() if width % lanes else 0  # a tail is a whole vector
    for ahead, block in product((0, 16, 20_000), (1, 64, 1 << 15)):
        assert ceiling.gathering(table, indices)(ahead, block, threads) == rows.sum() + twice
    column = table[:48, 0].contiguous()
    assert ceiling.read_stream(column, threads) == column.sum()


def test_rows_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="rows 0 to 3 of 3"):
        ceiling.gathering(torch.ones(3, 4), torch.tensor([0, 3], dtype=torch.int32))


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


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_every_model_has_a_dense_floor(model, multilabel, monkeypatch):
    graph = awkward_graph(1, multilabel=multilabel)
    spec = ModelSpec(model, 3, graph.width, 5, graph.classes, heads=2, output_heads=2, head="linear")
    called = []
    monkeypatch.setattr("harness.measure.dense.best_of", lambda call: called.append(call()) or 0.25)
    assert dense_floor(spec, graph, initial_state(spec, 0), 1) == 0.25
    assert len(called) == 1
