"""Figures: every data set is drawn, titles lie inside the picture."""

from pathlib import Path
from typing import Any

from harness.report import figures
from harness.report.comparisons import Comparison
from harness.report.rows import Row
from tests import factory


def test_figures_show_every_data_set(page: tuple[Path, str]) -> None:
    figures = page[0] / "reports" / "figures"
    assert "cora" in (figures / "speedups.svg").read_text()
    drawn = (figures / f"cora-{factory.MACHINE}-kernels.svg").read_text()
    assert "gcn, spmm, 64 wide, cpu" in drawn
    assert "random order" not in drawn


def test_titles_of_panels_begin_inside_the_figure_however_long_the_names_are(tmp_path: Path) -> None:
    name = "an engine with " + "many " * 8 + "options"
    failed: Any = factory.record("dgl", status="oom")
    row = Row(name, [(tmp_path, failed)])
    figure = figures.draw_times([Comparison("gat, train, full batch", [row], None)])
    figure.draw_without_rendering()
    titles = [text for text in figure.axes[0].texts if text.get_text().startswith("gat, train")]
    assert len(titles) == 1 and titles[0].get_window_extent().x0 < 0.05 * figure.bbox.width
