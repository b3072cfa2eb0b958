"""GraphFeatures per second beside the paper's rate and the disk's."""

import math
import re
from pathlib import Path

import pytest

from harness.report.content import NOTHING
from harness.report.growth import Point
from tests.harness.report.suite_cells import all_lines, flat_cell, page


def sizes(growth: float, base: float = 1e-6) -> list[Point]:
    return [Point(nodes, nodes, nodes * (base + growth * math.log(nodes)), 2.0, None) for nodes in (1e3, 1e4, 1e5, 1e6)]


def test_graphfeatures_stand_beside_the_paper_and_the_disk(tmp_path: Path) -> None:
    results = tmp_path / "results"
    sizes = {"records": 1000, "embedded_bytes": 4_000_000, "shared_bytes": 1_000_000, "duplication": 3.0}
    flat_cell(results, 0.1, {"sink": "none", "features": "embedded"}, sizes)
    disk = sizes | {"file_bytes": 5_000_000, "write_rate": 1e8, "synced_write_rate": 5e7}
    flat_cell(results, 0.2, {"sink": "disk", "features": "embedded"}, disk)
    text = page(results, "agl_flat")
    rows = {line[0]: line for line in all_lines(text, "GraphFeatures per second") if "about" not in line[1]}
    nothing, disk_row = rows["none"], rows["disk"]
    assert [float(value.replace(",", "")) for value in nothing[1:6]] == pytest.approx(
        [10_000, 5000, 5000 / 11, 4000, 1000], rel=0.1
    )
    assert nothing[7:] == [*[NOTHING] * 5, "6"]
    assert [float(value.rstrip("%").replace(",", "")) for value in disk_row[6:12]] == pytest.approx(
        [3, 25, 100, 50, 25, 6000], rel=0.1
    )
    assert re.search(r"\| about 11: .* \| [45],\d+ into nothing, 2,\d+ to disk \|", text)


def test_a_claim_leaves_out_rates_of_one_process(tmp_path: Path) -> None:
    results, facts = tmp_path / "results", {"records": 1000}
    flat_cell(results, 0.1, {"sink": "none", "features": "embedded"}, facts)
    flat_cell(results, 0.01, {"sink": "none", "features": "embedded", "run_on": "ray"}, facts, a_look=True)
    text = page(results, "agl_flat")
    assert "1: a look" in text
    assert re.search(r"\| about 11: .* \| [45],\d+ into nothing \|", text)
