"""Measured and modelled speed-ups."""

from pathlib import Path
from typing import Any

import pytest

from harness.report.content import NOTHING
from tests.harness.report.suite_cells import all_lines, assert_pictured, cell, number, page


def served(workers: int) -> dict[str, Any]:
    """Facts of one or two workers at a parameter server."""
    alone = {"pull": 0.0, "push": 0.1, "wait": 0.0, "seconds": 1.0, "spread": [0.1, 0.1]}
    alone |= {"compute": 0.9, "targets": 1000, "steps": 10, "bytes_pulled": 4e5, "bytes_pushed": 4e5}
    beside = alone | {"push": 0.06, "seconds": 0.6, "compute": 0.54, "targets": 500, "steps": 5}
    return {
        "workers": [alone if workers == 1 else beside] * workers,
        "servers": [{"seconds": 0.05, "updates_in_all": 100}],
        "steps": 10,
    }


def test_modelled_speed_ups_are_labelled_as_a_model(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for workers, seconds in ((1, 1.0), (2, 0.6)):
        values = {"strategy": "async", "workers": workers}
        cell(
            results, "agl", seconds, "agl_speedup", backend=values, facts=served(workers), training={"batch_size": 1000}
        )
    text = page(results, "agl_speedup")
    rows = all_lines(text, "Speed-up by number")
    kinds = [f"model, {network}" for network in ("no network", "10 Gbit/s, 50 µs", "1 Gbit/s, 100 µs")]
    assert list(dict.fromkeys(row[3] for row in rows)) == ["measured", *kinds, "published, slope 0.8"]
    most = [number(row[2]) for row in rows if row[0] == "100" and row[3] in kinds]
    assert 100 > most[0] > most[1] > most[2] > 1 and f"async {most[0]:g} (no network, slope" in text
    assert number(rows[1][2]) == pytest.approx(1 / 0.6, rel=0.1)
    assert number(rows[1][4].rstrip("%")) == pytest.approx((0.5 / 0.6 - 1) * 100, abs=5)
    assert all(row[4] == NOTHING for row in rows[2:])
    assert_pictured(results, "agl_speedup", text, ["async, measured", "async, model, 1 Gbit/s, 100 µs", "linear"])
    assert (rows[1][5], rows[1][6]) == ("1.20x", "1.20x")
    assert abs(number(rows[1][7].rstrip("%"))) < 5


def test_workers_without_servers_stand_beside_the_fastest_single_one(tmp_path: Path) -> None:
    for workers, seconds, pipeline in ((1, 1.0, True), (1, 9.0, False), (2, 0.5, True)):
        backend = {"strategy": "sync", "workers": workers, "pipeline": pipeline}
        cell(tmp_path / "results", "agl", seconds, "agl_speedup", backend=backend, training={"batch_size": 1000})
    rows = all_lines(page(tmp_path / "results", "agl_speedup"), "Speed-up by number")
    assert number(next(row[2] for row in rows if row[0] == "2")) == pytest.approx(2, rel=0.1)


def test_workers_that_share_a_core_measure_no_speed_up(tmp_path: Path) -> None:
    for workers, seconds in ((1, 1.0), (2, 0.6)):
        crowd = {"oversubscribed": 1} if workers > 1 else {}
        for strategy, facts in (("sync", crowd), ("async", served(workers) | crowd)):
            backend = {"strategy": strategy, "workers": workers}
            cell(tmp_path / "results", "agl", seconds, "agl_speedup", backend=backend, facts=facts)
    text = page(tmp_path / "results", "agl_speedup")
    measured = [row for row in all_lines(text, "Speed-up by number") if row[3] == "measured"]
    assert [row[0] for row in measured] == ["1", "1"]
    assert "1 with 1 workers, 2 left out as doubtful" in text
