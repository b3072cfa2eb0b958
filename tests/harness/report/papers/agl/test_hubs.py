"""Balance of the reducers' loads on hubs."""

from pathlib import Path

from tests.harness.report.suite_cells import all_lines, flat_cell, page


def test_hubs_show_how_even_the_reducers_loads_are(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for threshold, loads in ((10**9, [100, 200, 300]), (50, [190, 200, 210])):
        facts = {"records": 10, "reducer_loads": loads}
        flat_cell(results, 0.1, {"hub_threshold": threshold, "sink": "disk", "run_on": "ray"}, facts)
    text = page(results, "agl_flat")
    spread, plain = all_lines(text, "Balance on hubs")
    assert spread[:6] == ["above 50", "3", "600", "200", "210", "1.050"]
    assert plain[:6] == ["none", "3", "600", "200", "300", "1.500"]
    assert "largest load / mean: 1.50 without, 1.05 with" in text
    assert "![Balance on hubs](figures/agl_flat-hubs.svg)" in text
    drawn = (tmp_path / "reports" / "figures" / "agl_flat-hubs.svg").read_text()
    assert "gnn-harness report" in drawn and "hubs: above 50" in drawn and "hubs: none" in drawn
    page(results, "agl_flat")
    assert (tmp_path / "reports" / "figures" / "agl_flat-hubs.svg").read_text() == drawn
