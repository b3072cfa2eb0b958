"""Page of full-batch epochs: the compared records, the dense floor, memory."""

from pathlib import Path

import pytest

from harness.report.write import write_reports
from tests import factory
from tests.harness.report.aggregations import comparison_text, line_with


def test_training_stays_on_the_pages_of_training(page: tuple[Path, str]) -> None:
    folder = page[0] / "reports"
    comparison, epochs = comparison_text(folder), (folder / "epochs.md").read_text()
    assert "spmm" not in comparison.partition("## Environments")[0].partition("## Summary")[2]
    cells = line_with(epochs, "gat, 2 layers (agl)")
    assert float(cells[4].rstrip("x")) == pytest.approx(3, rel=0.1)
    assert cells[5:8] == ["—"] * 3
    assert cells[8] == "8"
    assert float(cells[9]) == pytest.approx(10 / 8, rel=0.1)
    assert cells[11:] == ["114 MiB", "114 MiB", "1.00"]


def test_runs_for_scores_make_no_row_of_epochs(tmp_path: Path) -> None:
    for backend, seconds in (("agl", 0.01), ("dgl", 0.03)):
        config = factory.config(backend, 0, measure={"warmup": 1, "min_samples": 1, "max_samples": 1})
        factory.write(tmp_path, factory.record(backend, 0, seconds, config=config))
    write_reports(tmp_path, tmp_path / "reports")
    assert not (tmp_path / "reports" / "epochs.md").exists()
    summary = comparison_text(tmp_path / "reports").partition("## Summary")[2]
    assert "3x" not in summary.partition("## cora")[0]


def test_memory_of_old_records_is_not_compared(tmp_path: Path) -> None:
    for backend, seconds in (("agl", 0.01), ("dgl", 0.03)):
        record = factory.record(backend, 0, seconds)
        del record["memory"]["working_set"]
        factory.write(tmp_path / "results", record)
    write_reports(tmp_path / "results", tmp_path / "reports")
    epochs = (tmp_path / "reports" / "epochs.md").read_text()
    assert line_with(epochs, "gat, 2 layers (agl)")[11:] == ["—", "—", "—"]
