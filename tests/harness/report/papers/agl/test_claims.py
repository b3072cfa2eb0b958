"""Claims of cost: the fastest form of any suite at the published width, and none from a law that misses."""

from pathlib import Path
from typing import Any

import pytest

from harness.report.growth import LARGEST_MISS, error
from harness.report.papers.agl.claims import hours_of
from harness.report.papers.agl.cost import peers_elsewhere, series
from tests import factory
from tests.harness.report.suite_cells import page, parts_of

EDGES = 20


def inference(
    results: Path,
    engine: str,
    each: dict[int, float],
    suite: str = "agl_cost",
    features: int = 656,
    sections: dict[str, Any] | None = None,
    **backend: Any,
) -> None:
    """Write the records of one engine's inference, or of the scenario in ``sections``: seconds per edge by nodes."""
    for nodes, seconds in each.items():
        counts = {"nodes": nodes, "edges": EDGES * nodes, "train": nodes // 2, "features": features}
        options = {"nodes": nodes} | ({} if features == 656 else {"features": features})
        settings: dict[str, Any] = {"scenario": {"name": "infer"}, "suite": suite} | (sections or {})
        dataset = {"name": "uug", "options": options}
        config = factory.config(engine, 0, backend=backend, dataset=dataset, **settings)
        record = factory.record(engine, 0, seconds * counts["edges"], config=config) | {"facts": {}}
        folder = f"{suite}-{nodes}-{features}-{backend.get('infer', '')}-{sections or ''}"
        factory.write(results, record | {"dataset": factory.DATASET | {"counts": counts}}, folder=folder)


def claim(results: Path, ours: bool) -> str:
    (records,) = [part for part in parts_of(results) if part.suite.name == "agl_cost"]
    return hours_of(records, "infer", ours)


def hours(each: float) -> float:
    return each * 3.38e11 / 3600 * 1.8


def test_the_fair_baseline_is_the_fastest_form_of_any_suite(tmp_path: Path) -> None:
    sizes = {1000: 4e-6, 10_000: 4e-6}
    inference(tmp_path, "agl", sizes)
    inference(tmp_path, "dgl", sizes, infer="layerwise")
    assert float(claim(tmp_path, False).split()[0].replace(",", "")) == pytest.approx(hours(4e-6), rel=0.1)
    inference(tmp_path, "dgl", {1000: 4e-7, 10_000: 4e-7}, suite="agl_inference", infer="full")
    text = claim(tmp_path, False)
    assert float(text.split()[0].replace(",", "")) == pytest.approx(hours(4e-7), rel=0.1)
    assert "dgl full" in text and "suite agl_inference" in text
    assert "(suite agl_inference)" in page(tmp_path, "agl_cost")


def test_a_peer_of_one_size_is_a_lower_bound_and_other_work_is_none(tmp_path: Path) -> None:
    inference(tmp_path, "agl", {1000: 4e-6, 10_000: 4e-6})
    inference(tmp_path, "dgl", {10_000: 4e-7}, suite="agl_inference", infer="full")
    inference(tmp_path, "pyg", {10_000: 4e-9}, suite="agl_inference", features=8)
    inference(tmp_path, "dgl", {1000: 4e-6, 10_000: 4e-6}, infer="layerwise")  # has a law, and is ten times as slow
    assert claim(tmp_path, False).startswith("at least") and "dgl full" in claim(tmp_path, False)
    (records,) = [part for part in parts_of(tmp_path) if part.suite.name == "agl_cost"]
    assert [curve.ours for curve in peers_elsewhere(records)] == [False]
    assert [curve.ours for curve in series(records)].count(True) == 1


def test_a_setting_that_older_records_lack_parts_no_series(tmp_path: Path) -> None:
    inference(tmp_path, "agl", {1000: 4e-6})
    inference(tmp_path, "agl", {10_000: 4e-6}, sections={"scenario": {"name": "infer", "state_sha256": None}})
    (records,) = parts_of(tmp_path)
    assert [len(curve.points) for curve in series(records)] == [2]


@pytest.mark.parametrize(
    "other",
    [
        {"device": "cuda"},
        {"threads": 16},
        {"training": {"batch_size": 1024, "dtype": "bf16"}},
        {"training": {"batch_size": 64}},
        {"measure": {"max_samples": 1}},
    ],
    ids=str,
)
def test_the_fair_baseline_does_the_same_work_on_the_same_device_and_is_timed(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    training = {"scenario": {"name": "train"}, "training": {"batch_size": 1024}}
    inference(tmp_path, "agl", {1000: 4e-6, 10_000: 4e-6}, sections=training)
    inference(tmp_path, "dgl", {1000: 4e-7, 10_000: 4e-7}, suite="agl_efficiency", sections=training)
    inference(tmp_path, "pyg", {1000: 4e-8, 10_000: 4e-8}, suite="agl_inference", sections=training | other)
    (records,) = [part for part in parts_of(tmp_path) if part.suite.name == "agl_cost"]
    assert [curve.name.split(",")[0] for curve in peers_elsewhere(records)] == ["dgl"]


def test_batches_of_inference_are_an_engines_choice(tmp_path: Path) -> None:
    inference(tmp_path, "agl", {1000: 4e-6, 10_000: 4e-6})
    batches = {"training": {"batch_size": 64}}
    inference(tmp_path, "dgl", {1000: 4e-6, 10_000: 4e-6}, suite="agl_inference", sections=batches, infer="layerwise")
    (records,) = [part for part in parts_of(tmp_path) if part.suite.name == "agl_cost"]
    assert len(peers_elsewhere(records)) == 1


@pytest.mark.parametrize("limit", ["group_seconds", "deadline_seconds"])
def test_a_limit_that_is_raised_for_the_largest_size_parts_no_series(tmp_path: Path, limit: str) -> None:
    for nodes, seconds in ((1000, 60.0), (10_000, 600.0)):
        limits = {"measure": {limit: seconds}, "scenario": {"name": "infer"}}
        inference(tmp_path, "agl", {nodes: 4e-6}, sections=limits)
    assert "extrapolated (agl" in claim(tmp_path, True)


@pytest.mark.parametrize(
    "other",
    [{"order": {"name": "rcm"}}, {"launcher": {"python": "other"}}, {"scenario": {"name": "infer", "state": "x"}}],
    ids=["order", "python", "state"],
)
def test_records_that_differ_in_more_than_their_nodes_are_no_sizes_of_one_series(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    inference(tmp_path, "agl", {10_000: 4e-6})
    inference(tmp_path, "agl", {10_000: 5e-6}, sections={"scenario": {"name": "infer"}} | other)
    (records,) = parts_of(tmp_path)
    curves = series(records)
    assert [len(curve.points) for curve in curves] == [1, 1] and len({curve.name for curve in curves}) == 2
    assert not any(curve.is_claim for curve in curves)


def test_a_single_small_size_of_ours_does_not_replace_a_law(tmp_path: Path) -> None:
    inference(tmp_path, "agl", {1000: 4e-6, 10_000: 4e-6})
    inference(tmp_path, "blocksparse", {1000: 4e-8})
    assert float(claim(tmp_path, True).split()[0].replace(",", "")) == pytest.approx(hours(4e-6), rel=0.1)


def test_a_law_that_misses_its_largest_size_is_no_claim(tmp_path: Path) -> None:
    inference(tmp_path, "agl", {1000: 4e-6, 10_000: 4e-6, 100_000: 6e-6})
    (records,) = parts_of(tmp_path)
    (curve,) = series(records)
    assert abs(error(curve.points) or 0) > LARGEST_MISS
    assert claim(tmp_path, True).startswith("no claim: the law misses the largest size of agl, all neighbours by -3")
    text = page(tmp_path, "agl_cost")
    assert "Not extrapolated, because the law misses the largest size by more than 20%: infer, agl" in text


def test_another_width_than_the_published_one_is_no_claim(tmp_path: Path) -> None:
    inference(tmp_path, "agl", {1000: 4e-6, 10_000: 4e-6}, features=64)
    assert claim(tmp_path, True) == "no claim: not measured with the published 656 features"
    inference(tmp_path, "agl", {1000: 4e-6})
    assert claim(tmp_path, True).endswith("was measured on one size")


def test_what_speaks_against_a_size_stands_behind_the_hours(tmp_path: Path) -> None:
    inference(tmp_path, "agl", {1000: 4e-6, 10_000: 4e-6})
    inference(tmp_path, "dgl", {10_000: 4e-6}, infer="full")
    assert claim(tmp_path, True).endswith(" ⚠ 1 of 5 processes at 1,000 nodes; 1 of 5 processes at 10,000 nodes")
    assert claim(tmp_path, False).endswith(", one size) ⚠ 1 of 5 processes at 10,000 nodes")
