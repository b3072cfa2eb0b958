"""Inference beside the neighbourhood form that it replaced and the fastest form of a peer."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.report.content import NOTHING
from tests import factory
from tests.harness.report.suite_cells import cell, lines_of, number, page


def test_inference_is_compared_with_the_neighbourhood_form_and_the_fastest_form_of_a_peer(tmp_path: Path) -> None:
    results = tmp_path / "results"
    scenario = {"name": "infer"}
    for infer, seconds, peak in (("graphinfer", 0.1, 1e9), ("neighbourhood", 0.4, 4e9)):
        memory = {"resident_after_prepare": 1, "peak": peak, "peak_minus_resident": 1}
        cell(results, "agl", seconds, "agl_inference", backend={"infer": infer}, scenario=scenario, memory=memory)
    for infer, seconds in (("full", 0.2), ("layerwise", 0.3)):
        cell(results, "dgl", seconds, "agl_inference", backend={"infer": infer}, scenario=scenario)
    text = page(results, "agl_inference")
    rows = lines_of(text, "Inference of all")
    ours = rows["agl infer=graphinfer"]
    assert [number(ours[place]) for place in (5, 6)] == pytest.approx([4, 2], rel=0.1)
    assert [number(ours[place]) for place in (7, 8)] == pytest.approx([0.25, 0.25], rel=0.1)
    assert {"agl infer=neighbourhood (a)", "dgl infer=full (b)"} < set(rows)
    assert all("infer=" in name for name in rows if name.startswith(("agl", "dgl")))
    claimed = re.search(r"\| about 0.25 \| (\S+) \| (\S+) \|", text)
    assert claimed
    assert [float(value) for value in claimed.groups()] == pytest.approx([0.25, 0.5], abs=0.03)


@pytest.mark.parametrize("keys", [{"alone": True}, {"facts": {"oversubscribed": 1}}], ids=str)
def test_a_peer_that_was_not_measured_in_turns_has_no_ratio(tmp_path: Path, keys: dict[str, Any]) -> None:
    results, scenario = tmp_path / "results", {"name": "infer"}
    cell(results, "agl", 0.1, "agl_inference", backend={"infer": "graphinfer"}, scenario=scenario)
    cell(results, "dgl", 0.2, "agl_inference", backend={"infer": "full"}, scenario=scenario, **keys)
    text = page(results, "agl_inference")
    assert lines_of(text, "Inference of all")["agl infer=graphinfer"][6] == NOTHING
    assert re.search(r"\| about 0.25 \| — \| 1 not comparable \|", text)


def test_a_claim_beside_a_peer_that_may_not_be_the_fastest_is_left_out(tmp_path: Path) -> None:
    results, scenario = tmp_path / "results", {"name": "infer"}
    cell(results, "agl", 0.1, "agl_inference", backend={"infer": "graphinfer"}, scenario=scenario)
    cell(results, "dgl", 0.2, "agl_inference", backend={"infer": "full"}, scenario=scenario)
    epochs = factory.in_fresh_processes(factory.record("pyg", 0, 0.3))["epochs"]
    epochs["seconds"][2] = 0.12
    cell(results, "pyg", 0.3, "agl_inference", scenario=scenario, epochs=epochs)
    assert re.search(r"\| about 0.25 \| — \| 1 left out as doubtful \(⚠\) \|", page(results, "agl_inference"))


def test_claims_of_memory_and_cpu_leave_out_doubtful_figures(tmp_path: Path) -> None:
    results, scenario = tmp_path / "results", {"name": "infer"}
    process = {"prepare": {}, "warmup": [0.1], "first_call": 0.1, "load": 1.0, "tolerated_load": 0.1}
    for infer, seconds, keys in (("graphinfer", 0.1, {}), ("neighbourhood", 0.4, {"processes": [process] * 6})):
        cell(results, "agl", seconds, "agl_inference", backend={"infer": infer}, scenario=scenario, **keys)
    assert re.search(r"CPU beside it \|.*\| 1 left out as doubtful \(⚠\) \|", page(results, "agl_inference"))
