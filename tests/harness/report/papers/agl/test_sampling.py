"""Sampled edges beside the fastest peer's."""

import re
from pathlib import Path

import pytest

from tests.harness.report.suite_cells import cell, lines_of, number, page


def test_sampled_edges_stand_beside_the_fastest_peers(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for engine, seconds, edges in (("agl", 0.1, 1000), ("dgl", 0.2, 1200), ("pyg", 0.9, 1000)):
        facts = {"targets": 10, "nodes": 500, "edges": edges, "edges_per_second": 1.0, "targets_per_second": 1.0}
        cell(results, engine, seconds, "agl_flat", facts=facts, scenario={"name": "sample"}, threads=2)
    text = page(results, "agl_flat")
    rows = lines_of(text, "Sampling alone")
    assert [number(rows["agl"][place]) for place in (3, 4)] == pytest.approx([2 / 1.2, 2], rel=0.1)
    assert (rows["dgl"][3], rows["agl"][5], rows["agl"][6]) == ("1.00", "100.0", "50.0")
    assert re.search(r"\| not said \| — \| 1\.[5-8]\d* \|", text)


def test_a_peer_whose_epoch_was_cut_shorter_has_the_same_ratio(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for engine, seconds, edges, part in (("agl", 3.0, 4000, {}), ("dgl", 1.6, 800, {"extrapolated": 5.0})):
        facts = {"targets": edges / 10, "nodes": 500, "edges": edges}
        cell(results, engine, seconds, "agl_flat", facts=facts, scenario={"name": "sample"}, **part)
    assert number(lines_of(page(results, "agl_flat"), "Sampling alone")["agl"][3]) == pytest.approx(8 / 3, rel=0.1)
