"""Samples: one call, or the mean of several short ones; the code that a session tells to have run."""

import sys
from types import ModuleType

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backends.registry import config_class
from harness.session import Session, mean_of
from tests.cells import cell, saved_graph

calls = st.lists(st.tuples(st.floats(0.001, 10.0), st.floats(0.0, 10.0), st.booleans()), min_size=1, max_size=9)


@given(calls)
def test_a_sample_of_several_calls_is_their_mean(drawn):
    measured_calls = [
        {"seconds": wall, "cpu_seconds": cpu, "phases": {"forward": wall} if has_phase else {}, "loss": float(number)}
        for number, (wall, cpu, has_phase) in enumerate(drawn)
    ]
    sample = mean_of(measured_calls)
    assert np.isclose(sample["seconds"], np.mean([wall for wall, _, _ in drawn]))
    assert np.isclose(
        sample["phases"].get("forward", 0.0), np.sum([w for w, _, has_phase in drawn if has_phase]) / len(drawn)
    )
    assert (sample["calls"], sample["ran"], sample["loss"]) == (len(drawn), len(drawn) + 1, len(drawn) - 1.0)


def session(tmp_path, repeat_seconds, tell=lambda message: None):
    planned = cell(saved_graph(tmp_path / "graph"), launcher="inline", measure={"repeat_seconds": repeat_seconds})
    planned["config"]["backend"] = vars(config_class("reference")())
    opened = Session(planned, tell)
    opened.open()
    return opened


def test_short_calls_are_repeated_only_with_repeat_seconds(tmp_path):
    once = session(tmp_path / "once", 0.0)
    assert once.sample()["calls"] == 1
    assert once.index == once.config.measure.warmup + 1
    often = session(tmp_path / "often", 0.2)
    before = often.index
    sample = often.sample()
    assert often.index - before == sample["ran"] == sample["calls"] + 1
    assert sample["calls"] > 1
    assert len(often.seconds) == often.config.measure.warmup + 1


def test_code_that_measures_the_machine_is_not_told_as_code_that_ran(tmp_path, monkeypatch):
    measuring = ModuleType("backends.only_for_limits")
    measuring.__file__ = __file__

    def limits(*_):
        monkeypatch.setitem(sys.modules, measuring.__name__, measuring)

    monkeypatch.setattr(Session, "_limits", limits)
    events = []
    session(tmp_path, 0.0, events.append).finish()
    modules = [event["modules"] for event in events if event["event"] == "modules"][-1]
    assert "backends.reference.backend" in modules and measuring.__name__ not in modules
