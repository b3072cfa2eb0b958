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
    text = page(results, "distpart_quality")
    rows = lines_of(text, "Assignments of nodes to parts")
    ours = next(row for label, row in rows.items() if label.startswith("distpart"))
    assert ours[2:9] == ["9.00", "0.90", "1,800", "1.50", "1.75", "1.029", "1.030"]
    assert next(row for label, row in rows.items() if label.startswith("dgl"))[3] == "1.10"
    rows = lines_of(text, "Over all graphs")
    assert rows["distpart multilevel"][3:] == ["0.90", "0.90", "1.00", "1.00", "0 of 1"]
    assert rows["dgl"][3] == "1.10"


def test_totals_are_of_the_objective_and_of_the_loads_that_are_balanced(tmp_path: Path) -> None:
    results = tmp_path / "results"
    cells = (
        ("distpart", {"method": "multilevel"}, 8, 900, {"objective": "volume"}),
        ("partitioners", {"tool": "metis"}, 8, 600, {"objective": "volume"}),
        ("distpart", {"method": "multilevel"}, 64, 1600, {"objective": "volume"}),
        ("partitioners", {"tool": "metis"}, 64, 1800, {"objective": "volume"}),
        ("distpart", {"method": "multilevel"}, 8, 500, {"balance": ["nodes", "edges"]}),
        ("dgl", {}, 8, 1000, {"balance": ["nodes", "edges"]}),
    )
    for engine, options, parts, volume, task in cells:
        quality = {"parts": parts, "cut": volume, "cut_share": 0.1, "volume": volume, "replication": 1.5}
        quality |= {"worst_replication": 1.75, "balance": [1.02, 1.05], "bound": 1.03, "empty": 0}
        scenario = {"name": "partition", "parts": parts} | task
        cell(results, engine, 0.1, "distpart_quality", backend=options, facts={"partition": quality}, scenario=scenario)
    text = page(results, "distpart_quality")
    by_volume, by_loads = text.index("### volume, nodes balanced"), text.index("### cut, nodes and edges balanced")
    assert by_loads < by_volume
    lines = [line for line in text.splitlines() if line.startswith("| distpart multilevel |")]
    assert [line.split("|")[5].strip() for line in lines] == ["0.50", "1.15"], "sqrt(900 / 600 * 1600 / 1800)"
    assert lines[1].endswith("2 of 2 |")


def test_an_assignment_without_facts_has_its_seconds_alone(tmp_path: Path) -> None:
    quality = {"parts": 8, "cut": 9, "cut_share": 0.1, "volume": 9, "replication": 1.5, "worst_replication": 1.75}
    quality |= {"balance": [1.02], "bound": 1.03, "empty": 0}
    for engine, options, facts in (
        ("distpart", {"method": "multilevel"}, {"status": "not measured, timeout: late"}),
        ("partitioners", {"tool": "metis"}, {"partition": quality}),
    ):
        scenario = {"name": "partition", "parts": 8}
        cell(tmp_path / "results", engine, 0.1, "distpart_quality", backend=options, facts=facts, scenario=scenario)
    text = page(tmp_path / "results", "distpart_quality")
    rows = lines_of(text, "Assignments of nodes to parts")
    assert next(row for label, row in rows.items() if label.startswith("distpart"))[1:] == ["—"] * 10
    assert lines_of(text, "Over all graphs")["distpart multilevel"][-1] == "0 of 1"


def test_an_engine_counts_once_for_a_table_by_its_fastest_form(tmp_path: Path) -> None:
    results = tmp_path / "results"
    quality = {"parts": 8, "cut_share": 0.1, "volume": 9, "replication": 1.5, "worst_replication": 1.75}
    quality |= {"balance": [1.02], "bound": 1.03, "empty": 0}
    for engine, options, seconds, cut, group in (
        ("distpart", {"method": "multilevel", "cycles": 1}, 0.1, 900, "g0"),
        ("distpart", {"method": "multilevel", "cycles": 2}, 0.2, 500, "g0"),
        ("distpart", {"method": "random"}, 0.1, 5000, "other"),
        ("partitioners", {"tool": "metis"}, 0.2, 1000, "g0"),
    ):
        facts, scenario = {"partition": quality | {"cut": cut}}, {"name": "partition", "parts": 8}
        named = {"backend": options, "facts": facts, "scenario": scenario, "group": group}
        cell(results, engine, seconds, "distpart_quality", **named)
    rows = lines_of(page(results, "distpart_quality"), "Over all graphs")
    assert rows["distpart multilevel"][0] == "1" and rows["distpart multilevel"][3] == "0.90"
    assert rows["distpart random"][1] == "—, 1 not comparable"
