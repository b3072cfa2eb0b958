"""Page of trainings: a row shows the values of its records, and a dash for values that were not measured."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.report.content import NOTHING
from harness.report.write import write_reports
from tests import factory
from tests.harness.report.aggregations import comparison_text
from tests.harness.report.labelled_rows import rows_by_label


def line_of(page: str, label: str) -> list[str]:
    """Cells of the first table line of an engine in the main table."""
    line = next(line for line in page.splitlines() if line.startswith(f"| {label} ") and ("ms" not in line))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def main_table(page: str) -> str:
    """The first table with times."""
    return page[page.index("| engine | epoch time") :]


def test_a_failed_row_shows_its_status_and_never_a_number(results: Path, tmp_path: Path) -> None:
    write_reports(results, tmp_path / "reports")
    page = comparison_text(tmp_path / "reports")
    cells = line_of(main_table(page), "pyg compile")
    assert cells[1].startswith("✗ oom: it ended as oom \\| on purpose")
    assert cells[2] == "0 of 3"
    assert set(cells[3:-1]) == {NOTHING}
    assert all(cell not in ("0", "0.0", "nan", "0.000") for cell in cells)
    assert "oom" in next((tmp_path / "reports" / "figures").iterdir()).read_text()


def test_a_row_shows_what_its_records_hold(results: Path, tmp_path: Path) -> None:
    write_reports(results, tmp_path / "reports")
    cells = line_of(main_table(comparison_text(tmp_path / "reports")), "agl")
    time, n, ratio, limit, reuse, hit_rate, score, published, until, memory, first_call = cells[1:]
    assert (limit, reuse) == (NOTHING, NOTHING)
    low, high = map(float, re.findall(r"\[([\d.]+), ([\d.]+); 75 %\]", time)[0])
    assert low <= float(time.split()[0]) <= high
    assert 9.8 <= low <= high <= 10.2
    assert n == "3" and float(first_call) == pytest.approx(11, rel=0.03)
    assert float(ratio.split()[0]) == pytest.approx(0.5, rel=0.03)
    assert hit_rate == "87.0%"
    assert re.fullmatch(r"0\.8\d\d ± 0\.0\d\d", score)
    assert published.startswith("0.830 (")
    assert float(until.split()[0]) == pytest.approx(50 * 0.01, rel=0.03)
    assert memory == "114 MiB + 277 MiB"


def test_time_to_accuracy_has_a_column_only_where_a_target_was_reached(tmp_path: Path) -> None:
    reached, missed = factory.record("dgl"), factory.record("agl")
    for folder, records in (("both", [reached, missed]), ("none", [missed])):
        missed["metrics"]["epochs_to_target"] = None
        for values in records:
            factory.write(tmp_path / folder, values)
        write_reports(tmp_path / folder, tmp_path / "reports" / folder)
    page, bare = (comparison_text(tmp_path / "reports" / folder) for folder in ("both", "none"))
    assert line_of(main_table(page), "agl")[9] == NOTHING and line_of(main_table(page), "dgl")[9].endswith(" s")
    assert "time to accuracy" not in main_table(bare) and len(line_of(main_table(bare), "agl")) == 11


def test_limits_and_structure_are_shown_where_they_are_known(tmp_path: Path) -> None:
    values = factory.record("agl") | {"limits": {"fraction_of_limit": 0.42, "xnr": 1.75}}
    degrees = {"median": 3.0, "mean": 3.9, "max": 168.0, "top_1_percent": 0.12}
    structure = {"density": 0.00144, "tiles": {"<1": 0.9, ">10": 0.1}, "degrees": degrees}
    for lost in (None, "density", "tiles", "degrees"):  # a record of the first schema has no digest that tells
        known = {name: value for name, value in structure.items() if name != lost}
        factory.write(tmp_path / "results", values | {"dataset": values["dataset"] | {"structure": known}})
        write_reports(tmp_path / "results", tmp_path / "reports")
        page = comparison_text(tmp_path / "reports")
        assert line_of(main_table(page), "agl")[4:6] == ["42%", "1.75"]
        assert ("Density 1.44e-03; in-degree median 3, mean 3.9, largest 168" in page) == (lost is None)


def test_what_an_epochs_seconds_are_for_is_drawn_and_listed_where_it_is_known(tmp_path: Path) -> None:
    values = factory.record("agl", 0, 0.1)
    parts = {"dropout": 0.011, "aggregation": 0.0625, "rest": 0.02}
    factory.write(tmp_path / "results", values | {"facts": values["facts"] | {"parts": parts, "torch_calls": 63}})
    factory.write(tmp_path / "results", factory.record("dgl", 0, 0.2))
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = comparison_text(tmp_path / "reports")
    table = page[page.index("What an epoch's seconds are for</summary>") :]
    assert line_of(table.replace("ms", ""), "agl")[1:] == ["11", "62.5", "20", "63"]
    assert "| dgl" not in table[: table.index("</details>")]
    (picture,) = (tmp_path / "reports" / "figures").glob("*-parts.svg")
    assert all(name in picture.read_text() for name in parts)
    front = (tmp_path / "reports" / "README.md").read_text()
    assert "What an epoch's seconds are for" in front and "(comparison-cora-" in front[front.index("seconds are for") :]


def test_extrapolated_epochs_are_scaled_and_marked(tmp_path: Path) -> None:
    values = factory.record("agl", 0, 0.01, extrapolated=12.5)
    factory.write(tmp_path / "results", values)
    row = rows_by_label(tmp_path / "results")["agl"]
    assert row.time is not None
    assert row.time.median == pytest.approx(0.125, rel=0.03)
    assert sum(row.phases().values()) == pytest.approx(row.time.median, rel=0.03)
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = comparison_text(tmp_path / "reports")
    assert "extrapolated from 0.08 of its targets" in page
    assert "≈" in line_of(main_table(page), "agl")[1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"synthetic": True}, "**synthetic**: a generated graph"),
        ({"trust": "first use"}, "trusted on first use"),
        ({"notes": ["15 isolated test nodes"]}, "- 15 isolated test nodes"),
        ({"counts": {"nodes": 1234567}}, "1,234,567"),
    ],
)
def test_notes_on_the_data_stand_on_the_page(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    for results, extra in (("with", change), ("without", {})):
        values = factory.record("agl")
        values["dataset"] |= extra
        factory.write(tmp_path / results, values)
        write_reports(tmp_path / results, tmp_path / f"{results} reports")
        page = comparison_text(tmp_path / f"{results} reports")
        assert (sentence in page) == (results == "with")


def test_recovered_data_stand_beside_no_published_score(tmp_path: Path) -> None:
    values = factory.record("agl", config=factory.config("agl", dataset={"name": "ppi_recovered"}))
    factory.write(tmp_path / "results", values)
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = comparison_text(tmp_path / "reports")
    assert "never with published PPI scores" in page
    assert line_of(main_table(page), "agl")[8] == NOTHING


def test_one_command_for_rows_that_differ_in_the_backend_only(results: Path, tmp_path: Path) -> None:
    write_reports(results, tmp_path / "reports")
    page = comparison_text(tmp_path / "reports")
    commands = [line for line in page.splitlines() if line.startswith("python -m harness -m")]
    assert any(line.endswith("seed=0,1,2") and "backend=agl,dgl,pyg " in line for line in commands)


def test_missing_values_are_dashes_not_zeros(tmp_path: Path) -> None:
    values = factory.record("agl")
    for key in ("cache", "metrics", "memory"):
        del values[key]
    factory.write(tmp_path / "results", values)
    write_reports(tmp_path / "results", tmp_path / "reports")
    cells = line_of(main_table(comparison_text(tmp_path / "reports")), "agl")
    assert set(cells[3:-1]) == {NOTHING}


def test_seconds_of_assignments_make_no_speedup_and_no_headline(tmp_path: Path) -> None:
    scenario = {"name": "partition", "parts": 8, "balance": ["nodes"], "imbalance": 1.03, "objective": "cut"}
    for backend, seconds in (("distpart", 0.001), ("dgl", 0.3)):
        config = factory.config(backend, 0, scenario=scenario)
        factory.write(tmp_path / "results", factory.record(backend, 0, seconds, config=config))
    write_reports(tmp_path / "results", tmp_path / "reports")
    summary, page = comparison_text(tmp_path / "reports").split("## The tables")
    assert "rank nothing" in page and "| distpart |" in page
    history = (tmp_path / "reports" / "history.md").read_text()
    assert "distpart" not in summary and "partition" not in history.partition("## Superseded")[0]


def test_each_graph_of_a_generated_data_set_has_its_counts(tmp_path: Path) -> None:
    for nodes in (1000, 20_000):
        config = factory.config("agl", dataset={"name": "uug", "options": {"nodes": nodes, "features": 64}})
        graph = factory.DATASET | {"name": "uug", "sha256": f"{nodes:064d}", "counts": {"nodes": nodes, "edges": 9}}
        values = factory.record("agl", config=config) | {"dataset": graph}
        factory.write(tmp_path / "results", values, folder=f"{nodes}")
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = comparison_text(tmp_path / "reports")
    assert "| as loaded, nodes=1000 | 1,000 |" in page and "| as loaded, nodes=20000 | 20,000 |" in page


def test_a_machine_without_a_peer_has_a_sentence_and_no_empty_table(tmp_path: Path) -> None:
    factory.write(tmp_path / "results", factory.record("agl"))
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = (tmp_path / "reports" / "comparison.md").read_text()
    assert "No engine of ours was measured in turns with a peer on this machine." in page
    assert "|  | ours |" not in page


def test_options_that_the_gate_did_not_look_at_are_named(tmp_path: Path) -> None:
    values = factory.record("agl") | {"parity": {"small graph": {}, "not verified": {"sampler": "topk(5)"}}}
    factory.write(tmp_path / "results", values)
    write_reports(tmp_path / "results", tmp_path / "reports")
    assert "the gate did not look at sampler=topk(5)" in comparison_text(tmp_path / "reports")
