"""Assignments of nodes to parts beside METIS's."""

from pathlib import Path

from tests.harness.report.suite_cells import cell, lines_of, page


def test_cuts_stand_beside_those_of_metis(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for engine, options, cut, balance in (
        ("distpart", {"method": "multilevel"}, 900, [1.01, 1.029]),
        ("partitioners", {"tool": "metis"}, 1000, [1.03]),
        ("dgl", {}, 1100, [1.0]),
    ):
        quality = {"parts": 8, "cut": cut, "cut_share": cut / 10_000, "volume": 2 * cut, "replication": 1.5}
        quality |= {"worst_replication": 1.75, "balance": balance, "bound": 1.03, "empty": 0}
        scenario = {"name": "partition", "parts": 8}
        cell(results, engine, 0.1, "distpart_quality", backend=options, facts={"partition": quality}, scenario=scenario)
    rows = lines_of(page(results, "distpart_quality"), "Assignments of nodes to parts")
    ours = next(row for label, row in rows.items() if label.startswith("distpart"))
    assert ours[1:8] == ["9.00", "0.90", "1,800", "1.50", "1.75", "1.029", "1.030"]
    assert next(row for label, row in rows.items() if label.startswith("dgl"))[2] == "1.10"
