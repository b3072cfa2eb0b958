"""Front page: means of the speed-ups and their figure."""

from pathlib import Path

import pytest

from tests.harness.report.aggregations import line_with


def test_the_first_page_says_how_many_times_as_fast_and_shows_it(page: tuple[Path, str]) -> None:
    first = (page[0] / "reports" / "README.md").read_text().partition("## The pages")[0]
    assert float(line_with(first, "gat, nnz > 10^6")[2].rstrip("x")) == pytest.approx(8, rel=0.1)
    assert float(line_with(first, "cora, gat")[2].rstrip("x")) == pytest.approx(3, rel=0.1)
    assert "](figures/speedups.svg)" in first
