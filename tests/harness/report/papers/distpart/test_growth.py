"""The whole job by size: the law, the graphs that it is carried to, sizes that it misses, and cells that failed."""

from pathlib import Path
from typing import Any

import pytest

from harness.report.content import NOTHING
from tests import factory
from tests.harness.report.suite_cells import all_lines, page

MAG_NODES, MAG_EDGES = 2.44160499e8, 1.728364232e9
UUG_EDGES = 3.38e11


def write(
    results: Path, engine: str, nodes: int, each: float, status: str = "ok", features: int = 64, **backend: Any
) -> None:
    """A job that takes ``each`` seconds per edge, on 10 edges per node; 100 bytes of memory per node."""
    config = factory.config(
        engine,
        dataset={"name": "uug", "options": {"nodes": nodes, "features": features}},
        scenario={"name": "dispatch", "parts": 8},
        backend=backend,
        suite="distpart_scale",
    )
    counts = {"nodes": nodes, "edges": 10 * nodes, "features": features}
    record = factory.record(engine, 0, 1.0, status, config=config, group=f"g{nodes}")
    record |= {"dataset": factory.DATASET | {"name": "uug", "counts": counts}}
    if status == "ok":
        record["epochs"]["seconds"] = [each * 10 * nodes] * 6
        record["memory"]["working_set"] = 100.0 * nodes
        record["facts"] = {"partition": {"bytes": nodes * (features * 4 + 10 * 50)}}
    factory.write(results, record, folder=f"{nodes}-{features}-{'-'.join(map(str, backend.values()))}")


def lines(results: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of the measured sizes and of the laws, without the engine."""
    rows = all_lines(page(results, "distpart_scale"), "The whole job by size")
    heads = next(number for number, row in enumerate(rows) if row[0] == "sizes")
    return rows[:heads], [row for row in rows if row[2:3] in (["MAG240M"], ["UUG as published"])]


def test_hours_memory_and_files_of_a_published_graph_follow_from_the_sizes(tmp_path: Path) -> None:
    for nodes in (1000, 10_000, 100_000):
        write(tmp_path / "results", "distpart", nodes, 1e-6, method="multilevel", cycles=1)
        write(tmp_path / "results", "distpart", nodes, 2e-6, method="multilevel", cycles=2)
    measured, laws = lines(tmp_path / "results")
    assert len(measured) == 6
    assert [row[3] for row in measured] == ["1.000"] * 3 + ["2.000"] * 3
    assert {(row[5], row[6]) for row in measured} == {("100", "50.0")}
    mag = [row for row in laws if row[2] == "MAG240M"]
    assert [row[:2] for row in mag] == [["3", "+0%"]] * 2
    assert [float(row[3]) for row in mag] == pytest.approx([MAG_EDGES * each / 3600 for each in (1e-6, 2e-6)], rel=0.01)
    uug = next(row for row in laws if row[2] == "UUG as published")
    assert uug[4] == f"{10 * UUG_EDGES / 2**30:.2f} GiB"
    assert mag[0][4] == f"{100 * MAG_NODES / 2**30:.2f} GiB"


def test_two_widths_are_two_series(tmp_path: Path) -> None:
    for features, each in ((64, 1e-6), (128, 2e-6)):
        for nodes in (1000, 10_000):
            write(tmp_path / "results", "distpart", nodes, each, features=features)
    _, laws = lines(tmp_path / "results")
    assert [row[:2] for row in laws if row[2] == "MAG240M"] == [["2", "+0%"]] * 2
    text = page(tmp_path / "results", "distpart_scale")
    for features in (64, 128):
        assert f"| distpart features={features} ⚠ 1 of 5 processes | 2 |" in text


def test_a_law_that_misses_the_largest_size_claims_no_hours_and_a_failed_cell_is_a_row(tmp_path: Path) -> None:
    for nodes, each in ((1000, 1e-6), (10_000, 1e-6), (100_000, 2e-6)):
        write(tmp_path / "results", "distpart", nodes, each)
    write(tmp_path / "results", "dgl", 100_000, 0.0, "oom")
    measured, laws = lines(tmp_path / "results")
    assert {(row[1], row[3]) for row in laws} == {("-50%", NOTHING)}
    (failed,) = [row for row in measured if row[1] == NOTHING]
    assert failed[0] == "100,000" and "oom" in failed[2]


def test_a_look_is_marked_where_its_seconds_stand(tmp_path: Path) -> None:
    write(tmp_path / "results", "distpart", 1000, 1e-6)
    measured, _ = lines(tmp_path / "results")
    assert measured[0][2] == "0.01 ⚠ 1 of 5 processes"
