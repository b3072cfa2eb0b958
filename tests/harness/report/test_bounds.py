"""Bounds on pages and in the terminal: no share above 100 %; a beaten bound is told with both times."""

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.planning.plan import Group
from harness.report import bounds
from harness.report.content import NOTHING
from harness.report.pages import provenance
from harness.report.rows import rows
from harness.report.write import write_reports
from harness.terminal import results as terminal
from tests import factory
from tests.harness.report.aggregations import LIMITS, comparison_text


def row_with(**limits: float):
    record = factory.record("agl", 0, 0.01, limits=LIMITS | limits, protocol=1)
    return rows([(Path("machine/cora/gat/agl/train/x/seed=0.json"), record)], {})[0]


@given(st.floats(0, 3), st.floats(0, 0.03))
def test_no_share_above_the_bound_is_shown_and_every_beaten_bound_is_told(fraction: float, floor: float) -> None:
    row = row_with(fraction_of_limit=fraction, fraction_of_ceiling=0.5, dense_floor=floor)
    cell, sentences = str(bounds.share(row, "limit")), bounds.beaten(row, bounds.floor_of([row]))
    assert (cell == bounds.BEATEN) == any("bytes and operations" in sentence for sentence in sentences)
    assert cell == bounds.BEATEN or int(cell.rstrip("%")) <= 100
    beaten = isinstance(bounds.multiple(row.time.median, floor), str)
    assert beaten == any("dense products" in sentence for sentence in sentences)


def test_without_limits_there_is_no_share() -> None:
    record = factory.record("agl", 0, 0.01, protocol=1)
    row = rows([(Path("machine/cora/gat/agl/train/x/seed=0.json"), record)], {})[0]
    assert bounds.beaten(row, bounds.floor_of([row])) == []
    assert str(bounds.share(row, "limit")) == str(bounds.multiple(0.01, None)) == NOTHING


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Records of ours and a peer; ours is below its limit and its dense floor."""
    for backend, seconds, limits in (
        ("agl", 0.01, {"dense_floor": 0.02, "fraction_of_limit": 2.0}),
        ("dgl", 0.03, {"dense_floor": 0.021}),
    ):
        factory.write(tmp_path / "results", factory.record(backend, 0, seconds, limits=LIMITS | limits))
    return tmp_path / "results"


SENTENCE = re.compile(r"agl: bound beaten: measured 1[0-9.]* ms, bound 2[0-9.]* ms \([a-z' ]+\): the bound is wrong")


def test_pages_tell_a_beaten_bound(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "commands", lambda comparison: [])  # composing them takes half of a minute
    write_reports(results, tmp_path / "reports")
    reports = tmp_path / "reports"
    for page, faults in ((comparison_text(reports), 1), ((reports / "epochs.md").read_text(), 2)):
        assert len(SENTENCE.findall(page)) >= faults, page[:200]
        assert re.search(r"\| +bound beaten +\|", page) and "200%" not in page


def test_the_terminal_tells_a_beaten_bound(results: Path, monkeypatch) -> None:
    console = Console(file=io.StringIO(), width=200)
    monkeypatch.setattr(terminal, "_console", lambda: console)
    record = factory.record("agl", 0, 0.01, limits=LIMITS | {"fraction_of_limit": 2.0}, protocol=1)
    stored = [(results / "seed=0.json", record)]
    terminal.print_results([Group("g", {"dataset": "cora"}, [], stored)], {})
    assert SENTENCE.search(console.file.getvalue())
