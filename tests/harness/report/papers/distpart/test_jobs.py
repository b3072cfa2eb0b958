"""The table of whole jobs: seconds and memory beside DGL's fastest form."""

from pathlib import Path
from typing import Any

import pytest

from harness.report.content import NOTHING
from tests import factory
from tests.harness.report.suite_cells import lines_of, page

SUITE = "distpart_pipeline"


def write(results: Path, engine: str, seconds: float, memory: float, alone: bool = False, **backend: Any) -> None:
    """The record of one job."""
    scenario = {"name": "dispatch", "parts": 8}
    config = factory.config(engine, scenario=scenario, backend=backend, suite=SUITE)
    record = factory.record(engine, 0, seconds, config=config) | ({"alone": True} if alone else {})
    record["memory"]["working_set"] = memory
    record["facts"] = {"partition": {"bytes": 1 << 20, "cut_share": 0.1, "balance": [1.0]}}
    factory.write(results, record, folder="-".join([engine, *backend.values()]))


def test_a_job_stands_beside_the_fastest_form_of_dgl(tmp_path: Path) -> None:
    write(tmp_path / "results", "distpart", 1.0, 1e6, method="multilevel")
    for variant, seconds, memory in (("best", 2.0, 4e6), ("int64", 8.0, 1e6)):
        write(tmp_path / "results", "dgl", seconds, memory, variant=variant)
    lines = lines_of(page(tmp_path / "results", SUITE), "From a graph")
    ours = next(cells for name, cells in lines.items() if "distpart" in name)
    assert float(ours[1].rstrip("x")) == pytest.approx(2, rel=0.05)
    assert ours[3] == "0.25"


def test_a_job_beside_one_that_ran_alone_has_no_ratio_of_seconds(tmp_path: Path) -> None:
    write(tmp_path / "results", "distpart", 1.0, 1e6, method="multilevel")
    write(tmp_path / "results", "dgl", 2.0, 4e6, alone=True)
    lines = lines_of(page(tmp_path / "results", SUITE), "From a graph")
    ours = next(cells for name, cells in lines.items() if "distpart" in name)
    assert (ours[1], ours[3]) == (NOTHING, "0.25")
