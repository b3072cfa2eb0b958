"""Overview of ours beside the fastest peer."""

from pathlib import Path

import pytest

from tests.harness.report.aggregations import line_with


def test_the_summary_has_a_line_per_table_with_both_times_and_scores(page: tuple[Path, str]) -> None:
    text = (page[0] / "reports" / "comparison.md").read_text()
    ours, time, peer, of_peer, factor, *scores = line_with(text[text.index("## Summary") :], "cora: gat, ")[1:]
    assert (ours, peer) == ("agl", "dgl")
    assert float(of_peer) / float(time) == pytest.approx(3, rel=0.1)
    assert float(factor.rstrip("x")) == pytest.approx(3, rel=0.1)
    assert all(score.startswith("0.8") for score in scores) and len(scores) == 2
