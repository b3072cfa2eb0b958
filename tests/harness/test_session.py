"""Samples: the mean of counted calls after a discarded one; the code that a session tells to have run."""

import os
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.ablation import resolve
from backends.parallel.ranks import RankFailed
from backends.registry import config_class
from harness.measure.clock import PageFaults
from harness.session import BATCH_LIMIT, Session, mean_of
from tests.cells import cell, saved_graph

calls = st.lists(st.tuples(st.floats(0.001, 10.0), st.floats(0.0, 10.0), st.booleans()), min_size=1, max_size=9)


@given(calls)
def test_a_sample_of_several_calls_is_their_mean(drawn):
    measured_calls = [
        {"seconds": wall, "cpu_seconds": cpu, "phases": {"forward": wall} if has_phase else {}, "loss": float(number)}
        for number, (wall, cpu, has_phase) in enumerate(drawn)
    ]
    sample = mean_of(7.0, measured_calls, PageFaults(3, 1))
    assert np.isclose(sample["seconds"], np.mean([wall for wall, _, _ in drawn]))
    assert np.isclose(
        sample["phases"].get("forward", 0.0), np.sum([w for w, _, has_phase in drawn if has_phase]) / len(drawn)
    )
    assert (sample["calls"], sample["ran"], sample["loss"]) == (len(drawn), len(drawn) + 1, len(drawn) - 1.0)
    assert (sample["first"], sample["page_faults"]) == (7.0, {"minor": 3, "major": 1})


def session(tmp_path, tell=lambda message: None, **measure):
    planned = cell(saved_graph(tmp_path / "graph"), launcher="inline", measure=measure)
    planned["config"]["backend"] = vars(config_class("reference")())
    return Session(planned, tell)


def test_a_sample_discards_one_call_and_counts_as_many_as_asked_for(tmp_path):
    opened = session(tmp_path)
    opened.open()
    for calls in (1, 4):
        before = opened.index
        sample = opened.sample(calls)
        assert opened.index - before == sample["ran"] == calls + 1
        assert sample["calls"] == calls and sample["first"] > 0
        assert sample["page_faults"]["minor"] >= 0


def test_a_short_warm_call_is_a_median_and_a_long_one_the_last_warm_up(tmp_path):
    short = session(tmp_path / "short", warmup=2, turn_seconds=60.0)
    answer = short.open()
    assert len(answer["warmup"]) == 2 < short.index
    assert answer["first_call"] == answer["warmup"][0] and answer["warm_call"] > 0
    long = session(tmp_path / "long", warmup=2, turn_seconds=0.0)
    answer = long.open()
    assert long.index == 2 and answer["warm_call"] == answer["warmup"][-1]
    without = session(tmp_path / "without", warmup=0)
    answer = without.open()
    assert without.index == 0 and answer["warm_call"] is answer["first_call"] is None


def test_only_the_first_process_of_a_cell_verifies_and_the_others_take_its_batch_limit(tmp_path):
    opened = session(tmp_path, parity=True)
    answer = opened.open(first=False, batch_limit=2)
    assert answer["parity"] is None and answer["batch_limit"] == opened.scenario.limit == 2
    assert session(tmp_path / "again", parity=True).open()["parity"] is not None


def test_whole_epochs_are_prepared_anew_after_a_few_batches_were_tried(tmp_path, monkeypatch):
    # What the first engine derived from the graph, such as its transpose, would stay with it.
    prepared, prepare = [], Session._prepare
    monkeypatch.setattr(
        Session, "_prepare", lambda one, limit: (prepared.append((one.graph, limit)), prepare(one, limit))[-1]
    )
    opened = session(tmp_path)
    training = replace(opened.config.training, batch_size=4)
    opened.config = replace(opened.config, training=training, backend=resolve(config_class("agl")(), []))
    assert opened.open()["batch_limit"] is None
    (first, tried), (second, whole) = prepared
    assert (tried, whole) == (BATCH_LIMIT, None) and first is not second
    assert opened.scenario.graph is opened.graph is second


@pytest.mark.parametrize(("threads", "told"), [(1, False), (2, True)])
def test_more_threads_than_cores_are_told(tmp_path, threads, told):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        opened = session(tmp_path, limits=False)
        opened.config = replace(opened.config, threads=threads)
        opened.open()
        assert opened.finish()["facts"].get("oversubscribed") == (1 if told else None)
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"workers": [{}]}, {}),
        ({"workers": [{}, {}, {}]}, {"oversubscribed": 1}),
        ({"workers": [{}], "ranks": {"edges": [1, 1]}}, {"oversubscribed": 1}),
        ({"workers": "spawn", "ranks": 4}, {}),  # facts of a plug-in's own under these names
    ],
    ids=str,
)
def test_more_workers_or_ranks_than_cores_are_told(tmp_path, facts, told):
    opened = session(tmp_path)
    opened.cores = opened.config.threads = 1
    assert opened._crowded(facts) == told


@pytest.mark.parametrize(
    ("threads", "facts", "cores", "told"),
    [
        (1, {}, 0.5, {"oversubscribed": 0.5}),
        (1, {}, 1.5, {}),
        (2, {}, 1.5, {"oversubscribed": 1.5}),
        (2, {"ranks": {"edges": [1] * 8}}, 64, {"oversubscribed": 2}),
        (8, {"ranks": {"edges": [1] * 8}}, 64, {}),
        (1, {"workers": [{}] * 2}, 2, {}),
        (1, {"workers": [{}] * 3}, 2, {"oversubscribed": 2}),
    ],
    ids=[
        "half-a-core",
        "a-core-and-a-half",
        "two-threads",
        "ranks-beyond-threads",
        "a-thread-a-rank",
        "a-core-a-worker",
        "workers-beyond-cores",
    ],
)
def test_a_quota_and_the_threads_bound_what_processes_may_use(tmp_path, threads, facts, cores, told):
    opened = session(tmp_path)
    opened.cores, opened.config.threads = cores, threads
    assert opened._crowded(facts) == told


@pytest.mark.parametrize(("device", "chosen"), [("cuda:1", ["cuda:1"]), ("cuda", []), ("cpu", [])])
def test_a_numbered_gpu_is_the_one_that_is_used_and_waited_for(tmp_path, monkeypatch, device, chosen):
    used = []
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", used.append)
    started = session(tmp_path)
    started.config = replace(started.config, device=device)
    started.start()
    assert used == chosen


def test_code_that_measures_the_machine_is_not_told_as_code_that_ran(tmp_path, monkeypatch):
    measuring = ModuleType("backends.only_for_limits")
    measuring.__file__ = __file__

    def limits(*_):
        monkeypatch.setitem(sys.modules, measuring.__name__, measuring)

    monkeypatch.setattr(Session, "_limits", limits)
    events = []
    opened = session(tmp_path, events.append)
    opened.open()
    opened.finish()
    modules = [event["modules"] for event in events if event["event"] == "modules"][-1]
    assert "backends.reference.backend" in modules and measuring.__name__ not in modules


@pytest.mark.parametrize(
    "error", [MemoryError("too many edges"), RankFailed(-1, "oom", "too many edges")], ids=["here", "in a rank"]
)
def test_hit_rates_that_memory_does_not_hold_are_left_out_and_limits_are_not(tmp_path, monkeypatch, error):
    def refuse(*_):
        raise error

    monkeypatch.setattr("harness.measure.cache.simulate", refuse)
    monkeypatch.setattr("harness.measure.limits.limits", lambda *_: {"flops": 1})
    opened = session(tmp_path, cache="simulate")
    opened.open()
    monkeypatch.setattr(opened.scenario, "parts", refuse)
    answer = opened.finish(seconds=0.01)
    assert answer["cache"] == {"status": "not measured, oom: too many edges"}
    assert answer["limits"] == {"flops": 1} and "parts" not in answer["facts"]


@pytest.mark.parametrize("scenario", ["train", "infer", "spmm"])
def test_a_cell_in_float64_has_rows_of_eight_bytes_and_no_limits_of_float32(scenario, tmp_path):
    opened = session(tmp_path, limits=True)
    training = replace(opened.config.training, dtype="float64")
    backend = resolve(config_class("blocksparse")(), [])
    opened.config = replace(
        opened.config, training=training, backend=backend, scenario=replace(opened.config.scenario, name=scenario)
    )
    opened.open()
    assert {operand["itemsize"] for operand in opened.scenario.engine.spmm_operands()} == {8}
    limits = opened.finish(seconds=0.01)["limits"]
    assert limits == {"status": "not measured, the ceilings are of float32 and not of float64"}
