"""Figures: every data set is drawn, titles lie inside the picture."""

import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from harness.report import content, figures
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


def test_a_long_label_leaves_room_for_its_bar(tmp_path: Path) -> None:
    record: Any = factory.record("blocksparse")
    row = Row("an engine with " + "many " * 40 + "options", [(tmp_path, record)])
    figure = figures.draw_times([Comparison("gcn, train, full batch", [row], None)])
    figure.draw_without_rendering()
    assert figure.axes[0].get_window_extent().width > 0.3 * figure.bbox.width


def test_the_last_digits_of_coordinates_do_not_change_a_figure() -> None:
    def drawing_of(value: float) -> Figure:
        figure = Figure(figsize=(2.0 + value, 2.0))
        figure.subplots().plot([0.0, 1.0, value], [1 / 3, value, 0.00123456], "o-", label="0.00123456")
        return figure

    drawings = (content.Figure("x", "x.svg", value, drawing_of) for value in (0.7, 0.7 + 1e-7, 0.8))
    one, close, other = map(figures.svg, drawings)
    assert one == close != other
    assert set(re.findall(r"url\(#(.+?)\)", one)) <= set(re.findall(r'id="(.+?)"', one))
