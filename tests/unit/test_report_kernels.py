"""The pages of one aggregation and of full-batch epochs: who is compared, what is large, what is far, and why."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.report import figures, kernels
from harness.report.pages import write_reports
from harness.report.parts import Comparison, chosen, dataset_parts
from harness.report.rows import Row
from harness.store.files import environment_of, find_records
from tests import factory

LIMITS = {"xnr": 1.5, "fraction_of_ceiling": 0.5, "fraction_of_limit": 0.2, "bytes_worst": 1e9, "dense_floor": 0.008}


def aggregation(folder: Path, backend: str, seconds: float, *, nnz: int = 2_000_000, **sections: Any) -> None:
    """Write the record of one aggregation."""
    given = {"model": {"name": "gcn", "layers": 2, "hidden": 64, "heads": 1}, "scenario": {"name": "spmm"}} | sections
    values = factory.config(backend, 0, **given)
    held = factory.record(backend, 0, seconds, config=values, group=f"{sections}".encode().hex()[:8] or "g")
    held |= {"limits": LIMITS, "facts": {"spmm": [{"nnz": nnz}, {"nnz": 5}]}, "metrics": {}}
    del held["metrics"], held["validation"]
    factory.write(folder, held, folder=f"{backend}-{sections}".encode().hex()[:60])


@pytest.fixture
def page(tmp_path: Path) -> tuple[Path, str]:
    """Ours 2x as fast as DGL in one table, half as fast in a small one, 8x for gat, and a training epoch."""
    results = tmp_path / "results"
    for backend, seconds in (("blocksparse", 0.01), ("dgl", 0.02), ("reference", 0.05)):
        aggregation(results, backend, seconds)
    random: dict[str, Any] = {"order": {"name": "random"}}
    for backend, seconds in (("blocksparse", 0.04), ("dgl", 0.02)):
        aggregation(results, backend, seconds, nnz=100, **random)
    attention: dict[str, Any] = {"model": {"name": "gat", "hidden": 16, "heads": 8}}
    for backend, seconds in (("blocksparse", 0.01), ("dgl", 0.08)):
        aggregation(results, backend, seconds, **attention)
    for backend, seconds in (("agl", 0.01), ("dgl", 0.03)):
        factory.write(results, factory.record(backend, 0, seconds) | {"limits": LIMITS})
    write_reports(results, tmp_path / "reports")
    return tmp_path, (tmp_path / "reports" / "kernels.md").read_text()


def numbers(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def line_with(page: str, start: str) -> list[str]:
    return numbers(next(line for line in page.splitlines() if line.startswith(f"| {start}")))


def test_means_keep_large_and_small_and_sums_and_attention_apart(page: tuple[Path, str]) -> None:
    large, small, gat = (
        line_with(page[1], start)
        for start in ("spmm (gcn, sage), nnz > 10^6", "spmm (gcn, sage), nnz ≤ 10^6", "gat, nnz > 10^6")
    )
    assert float(large[2].rstrip("x")) == pytest.approx(2, rel=0.1)
    assert float(small[2].rstrip("x")) == pytest.approx(0.5, rel=0.1)
    assert float(gat[2].rstrip("x")) == pytest.approx(8, rel=0.1)
    assert [large[5], small[5], gat[5]] == ["0", "1", "0"]


def test_an_order_is_a_table_of_its_own(page: tuple[Path, str]) -> None:
    titles = [line for line in page[1].splitlines() if line.startswith("### ")]
    assert len(titles) == 3
    assert sum("random order" in title for title in titles) == 1


def test_a_row_shows_phases_bandwidth_ceiling_and_memory(page: tuple[Path, str]) -> None:
    table = page[1][page[1].index("### cora: gcn, spmm, 64 wide, cpu") :]
    cells = line_with(table, "blocksparse")
    assert [float(cells[place]) for place in (2, 3)] == pytest.approx([4, 5], rel=0.05)
    assert float(cells[5]) == pytest.approx(100, rel=0.05)  # 1e9 bytes in 10 ms
    assert cells[6:10] == ["1.5", "50%", "20%", "87.0%"]
    assert cells[10] == "401 MiB"


def test_a_large_table_below_three_quarters_says_why(page: tuple[Path, str]) -> None:
    said = page[1][page[1].index("## Below three quarters") : page[1].index("## How to read it")]
    assert "cora, gcn, 64 wide: 50%. The bound is reading the rows in order; 87% of the accesses hit" in said
    assert "random order" not in said  # a small matrix


def test_training_stays_on_the_pages_of_training(page: tuple[Path, str]) -> None:
    folder = page[0] / "reports"
    comparison, epochs = ((folder / name).read_text() for name in ("comparison.md", "epochs.md"))
    assert "spmm" not in comparison.partition("## Environments")[0].partition("## Summary")[2]
    cells = line_with(epochs, "gat, 2 layers (agl)")
    assert float(cells[4].rstrip("x")) == pytest.approx(3, rel=0.1)
    assert cells[5] == "8"
    assert float(cells[6]) == pytest.approx(10 / 8, rel=0.1)
    assert cells[8:] == ["114 MiB", "114 MiB", "1.00"]


def test_runs_for_scores_are_no_evidence_of_speed(tmp_path: Path) -> None:
    for backend, seconds in (("agl", 0.01), ("dgl", 0.03)):
        given = factory.config(backend, 0, measure={"warmup": 1, "min_samples": 1, "max_samples": 1})
        factory.write(tmp_path, factory.record(backend, 0, seconds, config=given))
    write_reports(tmp_path, tmp_path / "reports")
    assert not (tmp_path / "reports" / "epochs.md").exists()
    summary = (tmp_path / "reports" / "comparison.md").read_text().partition("## Summary")[2]
    assert "3x" not in summary.partition("## cora")[0]


def test_every_record_is_linked_by_a_page(page: tuple[Path, str]) -> None:
    pages = "".join(path.read_text() for path in (page[0] / "reports").glob("*.md"))
    assert all(path.name in pages for path, _ in find_records(page[0] / "results"))


def test_figures_show_every_data_set(page: tuple[Path, str]) -> None:
    figures = page[0] / "reports" / "figures"
    assert "cora" in (figures / "speedups.svg").read_text()
    drawn = (figures / f"cora-{factory.MACHINE}-kernels.svg").read_text()
    assert "gcn, spmm, 64 wide, cpu" in drawn
    assert "random order" not in drawn


def test_a_table_without_ours_is_no_cell(tmp_path: Path) -> None:
    aggregation(tmp_path, "dgl", 0.02)
    found = list(find_records(tmp_path))
    environments = {record["environment"]: environment_of(tmp_path, record["environment"]) for _, record in found}
    parts = chosen(dataset_parts(tmp_path, found, environments), lambda scenario: scenario == "spmm")
    assert [len(part.comparisons) for part in parts] == [1]
    assert kernels.cells(parts) == []
    write_reports(tmp_path, tmp_path / "reports")


def test_the_summary_has_a_line_per_table_with_both_times_and_scores(page: tuple[Path, str]) -> None:
    text = (page[0] / "reports" / "comparison.md").read_text()
    ours, time, peer, of_peer, factor, *scores = line_with(text[text.index("## Summary") :], "cora: gat, ")[1:]
    assert (ours, peer) == ("agl", "dgl")
    assert float(of_peer) / float(time) == pytest.approx(3, rel=0.1)
    assert float(factor.rstrip("x")) == pytest.approx(3, rel=0.1)
    assert all(score.startswith("0.8") for score in scores) and len(scores) == 2


def test_the_first_page_says_how_many_times_as_fast_and_shows_it(page: tuple[Path, str]) -> None:
    first = (page[0] / "reports" / "README.md").read_text().partition("## The pages")[0]
    assert float(line_with(first, "gat, nnz > 10^6")[2].rstrip("x")) == pytest.approx(8, rel=0.1)
    assert float(line_with(first, "cora, gat")[2].rstrip("x")) == pytest.approx(3, rel=0.1)
    assert "](figures/speedups.svg)" in first


def test_equal_titles_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    for backend in ("agl", "dgl"):
        for hidden in (8, 16):
            given = factory.config(backend, 0, model={"hidden": hidden})
            factory.write(tmp_path / "results", factory.record(backend, config=given), folder=f"{backend}{hidden}")
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = (tmp_path / "reports" / "comparison.md").read_text()
    titles = [line for line in page.splitlines() if line.startswith("### ")]
    start = "### cora: gat, train, full batch, 2 layers"
    assert sorted(titles) == [f"{start}, hidden {hidden}, cpu, 2 threads" for hidden in (16, 8)]


def test_memory_of_old_records_is_not_compared(tmp_path: Path) -> None:
    for backend, seconds in (("agl", 0.01), ("dgl", 0.03)):
        held = factory.record(backend, 0, seconds)
        held["memory"] |= {"peak_minus_resident": 0}
        del held["memory"]["resident"]
        factory.write(tmp_path / "results", held)
    write_reports(tmp_path / "results", tmp_path / "reports")
    epochs = (tmp_path / "reports" / "epochs.md").read_text()
    assert line_with(epochs, "gat, 2 layers (agl)")[8:] == ["—", "—", "—"]


def test_titles_of_panels_begin_inside_the_figure_however_long_the_names_are(tmp_path: Path) -> None:
    name = "an engine with " + "many " * 8 + "options"
    failed: Any = factory.record("dgl", status="oom")
    held = Row(name, [(tmp_path, failed)])
    figure = figures.draw([Comparison("gat, train, full batch", [held], None)])
    figure.draw_without_rendering()
    titles = [text for text in figure.axes[0].texts if text.get_text().startswith("gat, train")]
    assert len(titles) == 1 and titles[0].get_window_extent().x0 < 0.05 * figure.bbox.width
