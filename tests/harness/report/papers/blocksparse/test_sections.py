"""Pages of the full-batch engine's suites: ranks, losses, orders."""

from pathlib import Path

from tests.harness.report.suite_cells import all_lines, assert_pictured, cell, lines_of, page


def test_ranks_show_balance_and_received_rows(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for bounds, edges, received in (
        ("rows", [60, 20, 10, 10], [5, 1, 1, 1]),
        ("edges", [26, 25, 25, 24], [2, 2, 2, 2]),
    ):
        ranks = {
            "edges": edges,
            "imbalance": max(edges) / 25,
            "bytes": [1 << 20] * 4,
            "received_rows": received,
        }
        options = {"ranks": 4, "replication": 2, "bounds": bounds, "exchange": "halo"}
        cell(results, "blocksparse", 0.1, "blocksparse_blocks", backend=options, facts={"ranks": ranks})
    lines = all_lines(page(results, "blocksparse_blocks"), "What each rank holds")
    assert sorted(line[:2] for line in lines[:2]) == [["26", "1.040"], ["60", "2.400"]]
    assert all(line[4] == "halo" for line in lines[:2])
    assert any("2.26" in line for line in lines[2:])  # the paper's


def test_losses_are_compared_with_plain_torch(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for engine, factor in (("reference", 1.0), ("blocksparse", 1.001)):
        metrics = {"name": "accuracy", "test": 0.8, "validation": 0.8, "epochs_run": 3}
        curve = [[epoch, factor / epoch, 0.5] for epoch in (1, 2, 3)]
        cell(results, engine, 0.1, "blocksparse_convergence", metrics=metrics, validation=curve)
    text = page(results, "blocksparse_convergence")
    gaps = {name.rpartition(": ")[2]: values[3] for name, values in lines_of(text, "Losses by epoch").items()}
    assert gaps["plain PyTorch"] == "0.0e+00" and gaps["blocksparse"] == "1.0e-03"
    assert "| the same | within 1.0e-03 |" in text
    assert_pictured(results, "blocksparse_convergence", text, ["plain PyTorch", "blocksparse", "validation loss"])


def test_the_gain_of_an_order_is_that_of_the_best(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for order, seconds in (("none", 0.2), ("random", 0.4), ("metis", 0.1)):
        for engine, factor in (("blocksparse", 1), ("dgl", 3)):
            cell(results, engine, seconds * factor, "blocksparse_order", order={"name": order, "options": {}})
    text = page(results, "blocksparse_order")
    assert "2 to 2 times (order none), 4 to 4 times (order random)" in text
