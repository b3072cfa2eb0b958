"""The split of an epoch's ratio at equal losses."""

from pathlib import Path
from typing import Any

import pytest

from harness.report.write import write_reports
from tests import factory
from tests.harness.report.aggregations import comparison_text, line_with

ROWS = (
    ("blocksparse", "fused", 0.010),
    ("blocksparse", "torch", 0.015),
    ("dgl", "torch", 0.030),
    ("dgl", "fused", 0.008),  # below all others: no peer, as it has our loss
    ("reference", "torch", 0.060),
)


def write(results: Path, task: str, rows: Any = ROWS) -> tuple[str, str]:
    """The pages of full-batch epochs and of all comparisons."""
    for backend, loss, seconds in rows:
        config = factory.config(backend, 0, backend={"name": backend, "loss": loss})
        record = factory.record(backend, 0, seconds, config=config, dataset=factory.DATASET | {"task": task})
        factory.write(results, factory.in_fresh_processes(record), folder=f"{backend}-{loss}")
    write_reports(results, results.parent / "reports")
    reports = results.parent / "reports"
    return (reports / "epochs.md").read_text(), comparison_text(reports)


@pytest.mark.parametrize("task", ["multilabel", "multiclass"])
def test_a_ratio_is_split_into_the_loss_and_what_is_left(tmp_path: Path, task: str) -> None:
    epochs, comparison = write(tmp_path / "results", task)
    section = epochs[epochs.index("## How much of it is the loss") :]
    ours, peer, *factors = line_with(section, "cora: gat")[1:]
    assert (ours, peer) == ("blocksparse", "dgl")
    assert [float(factor.rstrip("x")) for factor in factors] == pytest.approx([3, 2, 0.8, 1.5], rel=0.05)
    assert "| dgl loss=fused |" in comparison and "| blocksparse loss=torch |" in comparison


def test_a_row_with_a_lent_loss_is_neither_ours_nor_a_peer(tmp_path: Path) -> None:
    epochs, _ = write(tmp_path / "results", "multilabel")
    cells = line_with(epochs, "gat, 2 layers (blocksparse)")
    library, which, factor, plain, which_plain, factor_plain = cells[2:8]
    assert (which, which_plain) == ("dgl", "reference")
    assert [float(value) for value in (library, plain)] == pytest.approx([30, 60], rel=0.05)
    assert [float(value.rstrip("x")) for value in (factor, factor_plain)] == pytest.approx([3, 6], rel=0.05)


def test_unmeasured_forms_are_a_dash(tmp_path: Path) -> None:
    own = [row for row in ROWS if (row[1] == "fused") == (row[0] == "blocksparse")]
    epochs, _ = write(tmp_path / "results", "multilabel", own)
    assert line_with(epochs[epochs.index("## How much") :], "cora: gat")[4:] == ["—"] * 3


def test_a_doubt_about_a_row_with_the_other_loss_is_named(tmp_path: Path) -> None:
    results = tmp_path / "results"
    loaded = {"prepare": {}, "warmup": [0.1], "first_call": 0.1, "load": 1.0, "tolerated_load": 0.1}
    config = factory.config("blocksparse", 0, backend={"name": "blocksparse", "loss": "torch"})
    lent = factory.in_fresh_processes(factory.record("blocksparse", 0, 0.015, config=config))
    factory.write(results, lent | {"processes": [loaded] * len(lent["processes"])}, folder="blocksparse-torch")
    own = [row for row in ROWS if row[:2] != ("blocksparse", "torch")]
    epochs, _ = write(results, "multiclass", own)
    cells = line_with(epochs[epochs.index("## How much") :], "cora: gat")
    assert cells[4].endswith("⚠ load") and cells[6].endswith("⚠ load") and "⚠" not in cells[5]


def test_of_suites_that_timed_an_epoch_one_with_both_losses_counts(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for backend, seconds in (("blocksparse", 0.01), ("dgl", 0.02)):  # stricter than the other suite, without its rows
        values = factory.config(backend, training={"epochs": 9}, suite="cora_accuracy")
        record = factory.in_fresh_processes(factory.record(backend, 0, seconds, config=values, group="g9"))
        factory.write(results, record, folder=f"{backend}-accuracy")
    epochs, _ = write(results, "multiclass")
    factors = line_with(epochs[epochs.index("## How much") :], "cora: gat")[3:]
    assert [float(factor.rstrip("x")) for factor in factors] == pytest.approx([3, 2, 0.8, 1.5], rel=0.05)
