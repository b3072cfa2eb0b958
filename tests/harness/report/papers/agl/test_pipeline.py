"""Epochs with the pipeline beside those without it."""

from pathlib import Path

import pytest

from tests.harness.report.suite_cells import all_lines, cell, number, page


def test_of_several_rows_with_as_many_loaders_the_fastest_counts(tmp_path: Path) -> None:
    results = tmp_path / "results"
    backend = {"source": "graphfeature", "page_cache": "warm"}
    cell(results, "agl", 1.5, "agl_efficiency", backend=backend)
    for begin, seconds in ((1, 1.0), (2, 2.0)):
        options = backend | {"loaders": 1, "pipeline_from": begin}
        cell(results, "agl", seconds, "agl_efficiency", backend=options, facts={"overlaps": True})
    text = page(results, "agl_efficiency")
    (line,) = all_lines(text, "The pipeline")
    assert number(line[-1]) == pytest.approx(1.5, rel=0.01)
    assert "it pays from 2 threads on (at best 1.5x with 2 threads)" in text


def test_a_gain_whose_interval_contains_one_does_not_pay(tmp_path: Path) -> None:
    results = tmp_path / "results"
    backend = {"source": "graphfeature", "page_cache": "cold"}
    cell(results, "agl", 1.0, "agl_efficiency", backend=backend)
    cell(results, "agl", 1.0, "agl_efficiency", backend=backend | {"loaders": 1}, facts={"overlaps": True})
    text = page(results, "agl_efficiency")
    assert "With batches from cold shards it does not pay (at best 1x ~ with 2 threads)" in text
