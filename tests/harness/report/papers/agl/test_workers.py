"""Scores of several workers beside one worker's."""

from pathlib import Path

from harness.report.content import NOTHING
from tests.harness.report.suite_cells import all_lines, assert_pictured, cell, page


def test_convergence_shows_the_distance_to_one_worker(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for workers, score in ((1, 0.9), (4, 0.87)):
        metrics = {"name": "auc", "test": score, "validation": score, "epochs_run": 9}
        curve = [[epoch, 0.1, score - 0.05 + 0.01 * epoch] for epoch in range(1, 6)]
        values = {"strategy": "sync", "workers": workers}
        cell(results, "agl", 0.1, "agl_convergence", backend=values, metrics=metrics, validation=curve)
    text = page(results, "agl_convergence")
    one, many = all_lines(text, "Scores by number")
    assert (one[1], one[2], one[3]) == ("0.900", "+0.0000", "5")
    assert (many[1], many[2], many[3]) == ("0.870", "-0.0300", NOTHING)
    assert (one[5], many[5]) == ("0.900", "0.870")
    assert_pictured(results, "agl_convergence", text, ["workers=1", "workers=4", "validation auc"])
    assert "| the same level | 0.0300 |" in text


def test_an_engines_workers_that_are_no_number_are_no_training_workers(tmp_path: Path) -> None:
    values = {"strategy": "sync", "workers": "spawned"}
    cell(tmp_path / "results", "agl", 0.1, "agl_convergence", backend=values)
    assert "agl" in page(tmp_path / "results", "agl_convergence")


def test_several_workers_stand_beside_the_fastest_single_one(tmp_path: Path) -> None:
    for workers, seconds, score, pipeline in ((1, 0.1, 0.9, True), (1, 0.3, 0.5, False), (4, 0.1, 0.87, True)):
        metrics = {"name": "auc", "test": score, "validation": score, "epochs_run": 9}
        values = {"strategy": "sync", "workers": workers, "pipeline": pipeline}
        cell(tmp_path / "results", "agl", seconds, "agl_convergence", backend=values, metrics=metrics)
    lines = all_lines(page(tmp_path / "results", "agl_convergence"), "Scores by number")
    assert [line[2] for line in lines if line[0] == "4"] == ["-0.0300"]
