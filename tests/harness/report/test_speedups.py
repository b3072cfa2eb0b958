"""Overview of ours beside the fastest peer."""

from pathlib import Path

import pytest

from tests.harness.report.aggregations import line_with


def test_the_summary_has_a_line_per_table_with_both_times_and_scores(page: tuple[Path, str]) -> None:
    text = (page[0] / "reports" / "comparison.md").read_text()
    ours, time, of_peer, peer, factor, *plain, our_score, score = line_with(
        text[text.index("## Summary") :], "cora: gat, "
    )[1:]
    assert (ours, peer) == ("agl", "dgl")
    assert float(of_peer) / float(time) == pytest.approx(3, rel=0.1)
    assert float(factor.rstrip("x")) == pytest.approx(3, rel=0.1)
    assert plain == ["—"] * 3
    assert our_score.startswith("0.8") and score.startswith("0.8")
