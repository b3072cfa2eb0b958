"""Pages of the full-batch engine's suites: ranks, their phases, scale, losses, orders, thresholds."""

from pathlib import Path

import pytest

from tests import factory
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
        products = [{"rows": 20, "columns": 20, "width": 8, "nnz": 100}]  # of the training view; the data set has 2,708
        cell(
            results, "blocksparse", 0.1, "blocksparse_blocks", backend=options, facts={"ranks": ranks, "spmm": products}
        )
    lines = all_lines(page(results, "blocksparse_blocks"), "What each rank holds")
    assert sorted(line[:3] for line in lines[:2]) == [["26", "1.040", "0.100"], ["60", "2.400", "0.250"]]
    assert all(line[4] == "halo" for line in lines[:2])
    assert any("2.26" in line for line in lines[2:])  # the paper's


def test_ranks_that_failed_stand_there_with_their_status(tmp_path: Path) -> None:
    results, options = tmp_path / "results", {"ranks": 4, "replication": 1, "bounds": "edges", "exchange": "halo"}
    facts = {"ranks": {"edges": [1, 1], "imbalance": 1.0, "bytes": [1, 1], "received_rows": [1, 1]}}
    cell(results, "blocksparse", 0.1, "blocksparse_blocks", backend=options | {"ranks": 2}, facts=facts)
    values = factory.config("blocksparse", 0, backend=options, suite="blocksparse_blocks")
    factory.write(results, factory.record("blocksparse", 0, status="oom", config=values), folder="failed")
    lines = lines_of(page(results, "blocksparse_blocks"), "What each rank holds")
    (status,) = (cells[0] for name, cells in lines.items() if "p=4" in name)
    assert "it ended as oom" in status and any("p=2" in name for name in lines)


@pytest.mark.parametrize(("ours", "distance"), [(1.001, "1.0e-03"), (1.0, "1.0e-05")], ids=["other", "equal"])
def test_losses_are_compared_with_plain_torch(tmp_path: Path, ours: float, distance: str) -> None:
    results = tmp_path / "results"
    for engine, factor in (("reference", 1.0), ("blocksparse", ours)):
        metrics = {"name": "accuracy", "test": 0.8, "validation": 0.8, "epochs_run": 3}
        curve = [[epoch, factor / epoch, 0.5] for epoch in (1, 2, 3)]
        cell(results, engine, 0.1, "blocksparse_convergence", metrics=metrics, validation=curve)
    text = page(results, "blocksparse_convergence")
    gaps = {name.rpartition(": ")[2]: values[3] for name, values in lines_of(text, "Losses by epoch").items()}
    assert (gaps["plain PyTorch"], gaps["blocksparse"]) == ("—", distance)
    assert f"| the same | within {distance} |" in text
    assert_pictured(results, "blocksparse_convergence", text, ["plain PyTorch", "blocksparse", "validation loss"])


@pytest.mark.parametrize("scenario", ["train", "spmm"])
def test_the_gain_of_an_order_is_that_of_the_best(tmp_path: Path, scenario: str) -> None:
    results = tmp_path / "results"
    for order, seconds in (("none", 0.2), ("random", 0.4), ("metis", 0.1)):
        keys = {"order": {"name": order, "options": {}}, "scenario": {"name": scenario}}
        for engine, factor in (("blocksparse", 1), ("dgl", 3)):
            cell(results, engine, seconds * factor, "blocksparse_order", **keys)
    text = page(results, "blocksparse_order")
    assert "2 times (order none), 4 times (order random)" in text


def test_phases_are_those_of_the_slowest_rank(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for ranks, panels in ((2, "auto"), (4, "false")):
        phases = [{"aggregate": a, "dense": 0.1, "comm": 0.2, "exposed": 0.05} for a in (0.3, 0.4)]
        forms = [{"panels": {"own rows, width 8, forward": 3} if panels == "auto" else {}, "tiles": {}}] * 2
        options = {"ranks": ranks, "panels": panels, "tiles": panels}
        counted = {"edges": [1, 1], "imbalance": 1.0, "bytes": [1, 1], "received_rows": [1, 1]}
        facts = {"ranks": {"phases": phases, "forms": forms, **counted}} | ({"oversubscribed": 2} if ranks > 2 else {})
        cell(results, "blocksparse", 0.5, "blocksparse_adaptive", backend=options, facts=facts)
    lines = all_lines(page(results, "blocksparse_adaptive"), "Where the ranks' seconds go")
    assert sorted(line[:5] for line in lines) == [
        ["off", "0.4000", "0.1000", "0.2000", "0.0500"],
        ["panels", "0.4000", "0.1000", "0.2000", "0.0500"],
    ]
    assert sum(line[5] == "more ranks than the 2 cores or threads" for line in lines) == 1


def test_forms_gain_what_rows_without_them_take_longer(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for switch, seconds in (("auto", 0.2), ("false", 0.3)):
        backend = {"panels": switch, "tiles": switch}
        cell(results, "blocksparse", seconds, "blocksparse_adaptive", backend=backend)
        single = {"scenario": {"name": "spmm"}, "facts": {"spmm": [{"rows": 9, "columns": 9, "width": 64, "nnz": 5}]}}
        cell(results, "blocksparse", 0.1, "blocksparse_adaptive", backend=backend, **single)
    slower = {"panels": "false", "tiles": "false", "exchange": "broadcast"}
    cell(results, "blocksparse", 1.2, "blocksparse_adaptive", backend=slower)
    assert "| 3.0 times | 1.50 times |" in page(results, "blocksparse_adaptive")


def test_models_stand_beside_one_process_and_beside_real_ranks(tmp_path: Path) -> None:
    results = tmp_path / "results"
    shared = {"link": [1.25e8, 5e-5], "exchange": "halo"}
    model = {"compute": 0.1, "exposed": 0.05, "rows": 1 << 20, "imbalance": 1.1}
    rounds = [[0.3, 0.3], [0.27, 0.3], [0.24, 0.3]]
    check = {"ranks": 2, "seconds": 0.27, "measured": 0.3, "rounds": rounds, **model}
    on_machines = [{"ranks": ranks, "seconds": 0.4 / ranks, **model} for ranks in (2, 8)]
    for options, facts in (
        ({"replay": [2, 8]}, {"replay": on_machines}),
        ({"replay": [2], "replay_on": "cores"}, {"replay": [{"ranks": 2, "seconds": 0.9, **model}]}),
        ({"ranks": 2, "replay": [2]}, {"replay": [check]}),
        ({"ranks": 2, "replay": [2], "tiles": "false"}, {"replay": [check], "oversubscribed": 1}),
    ):
        seconds = 0.3 if "ranks" in options else 0.4
        cell(results, "blocksparse", seconds, "blocksparse_scale", backend=options | shared, facts=facts)
    text = page(results, "blocksparse_scale")
    lines = all_lines(text, "Modelled epochs on more ranks")
    assert [line[:2] for line in lines] == [["2", "0.2000"], ["8", "0.0500"]]
    assert [float(line[2].rstrip("x")) for line in lines] == pytest.approx([2, 8], rel=0.01)
    (line,) = all_lines(text, "The model beside real ranks")
    assert line == ["2", "0.2700", "0.3000", "-10%", "-20% to +0%"]
    assert "within 10% of real ranks" in text and "8 to 8 times, modelled" in text
    assert_pictured(results, "blocksparse_scale", text, ["1 Gbit/s, 50 µs, 1D, halo", "modelled speed-up"])


def test_models_and_phases_that_memory_did_not_hold_leave_the_others(tmp_path: Path) -> None:
    results, refused = tmp_path / "results", {"status": "not measured, oom: too many edges"}
    model = {"seconds": 0.2, "compute": 0.1, "exposed": 0.05, "rows": 1 << 20, "imbalance": 1.1}
    facts = {"replay": [{"ranks": 2} | model, {"ranks": 64} | refused]}
    options = {"replay": [2, 64], "link": [1.25e8, 5e-5], "exchange": "halo"}
    cell(results, "blocksparse", 0.4, "blocksparse_scale", backend=options, facts=facts)
    assert [line[0] for line in all_lines(page(results, "blocksparse_scale"), "Modelled epochs on more ranks")] == ["2"]
    counted = {"edges": [1, 1], "imbalance": 1.0, "bytes": [1, 1], "received_rows": [1, 1]}
    phase = {"aggregate": 0.3, "dense": 0.1, "comm": 0.2, "exposed": 0.05}
    for ranks, more in ((2, {"phases": [phase] * 2}), (4, refused)):
        facts = {"ranks": counted | {"forms": [{}, {}]} | more}
        cell(results, "blocksparse", 0.5, "blocksparse_adaptive", backend={"ranks": ranks}, facts=facts)
    lines = all_lines(page(results, "blocksparse_adaptive"), "Where the ranks' seconds go")
    assert [line[:2] for line in lines] == [["none won", "0.3000"]]


def test_a_networks_curve_is_that_of_its_fastest_row(tmp_path: Path) -> None:
    model = {"ranks": 8, "seconds": 0.1, "compute": 0.1, "exposed": 0.05, "rows": 1 << 20, "imbalance": 1.1}
    for bounds, seconds in (("rows", 0.4), ("edges", 0.8)):
        options = {"link": [1.25e8, 5e-5], "exchange": "halo", "replay": [8], "bounds": bounds}
        facts = {"replay": [model]}
        cell(tmp_path / "results", "blocksparse", seconds, "blocksparse_scale", backend=options, facts=facts)
    assert "4 to 4 times, modelled" in page(tmp_path / "results", "blocksparse_scale")


def test_networks_of_other_latencies_have_a_curve_each(tmp_path: Path) -> None:
    model = {"ranks": 8, "compute": 0.1, "exposed": 0.05, "rows": 1 << 20, "imbalance": 1.1}
    for latency, seconds in ((5e-5, 0.1), (1e-3, 0.2)):
        options = {"link": [1.25e8, latency], "exchange": "halo", "replay": [8]}
        facts = {"replay": [model | {"seconds": seconds}]}
        cell(tmp_path / "results", "blocksparse", 0.4, "blocksparse_scale", backend=options, facts=facts)
    text = page(tmp_path / "results", "blocksparse_scale")
    assert "2 to 4 times, modelled" in text
    names = lines_of(text, "Modelled epochs on more ranks")
    assert all(any(latency in name for name in names) for latency in ("1 Gbit/s, 50 µs", "1 Gbit/s, 1000 µs"))


@pytest.mark.parametrize("scenario", ["train", "spmm"])
def test_orders_are_won_back_by_the_calls_that_they_make_faster(tmp_path: Path, scenario: str) -> None:
    results = tmp_path / "results"
    for order, seconds in (("none", 0.2), ("random", 0.4), ("metis", 0.1)):
        keys = {"order": {"name": order, "options": {}}, "scenario": {"name": scenario}}
        prepare = {"parse": 1.0, "order": 3.0 if order == "metis" else 0.0}
        cell(results, "blocksparse", seconds, "blocksparse_order", prepare=prepare, **keys)
    rows = lines_of(page(results, "blocksparse_order"), "What orders cost")
    by_order = {name.rpartition(": ")[2]: values for name, values in rows.items()}
    assert by_order["metis"][:3] == ["3", "—", "0.1"]
    assert [float(value) for value in by_order["metis"][3:]] == pytest.approx([10, 30], rel=0.01)
    assert by_order["random"][3:] == ["—", "—"]


def test_a_sweep_shows_time_dense_share_and_hits_by_threshold(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for density, tiles, seconds, facts in (
        (0.35, "auto", 0.02, {"tiles": {"forward": 0.2, "backward": 0.3}, "inflation": {"forward": 1.5}}),
        (
            "auto",
            "auto",
            0.01,
            {"tiles": {"forward": 0.1}, "inflation": {"forward": 1.2}, "threshold": {"forward": 0.5}},
        ),
        (0.05, "auto", 0.03, {"tiles": {"forward": 0.8}, "inflation": {"forward": 4.7}}),
        (0.35, "false", 0.04, {"tiles": {}, "inflation": {}}),
    ):
        products = {"spmm": [{"rows": 9, "columns": 9, "width": 64, "nnz": 5}]}
        keys = {"scenario": {"name": "spmm"}, "facts": products | facts}
        backend = {"forms": "tiles", "density_threshold": density, "tiles": tiles}
        cell(results, "blocksparse", seconds, "blocksparse_threshold", backend=backend, **keys)
    text = page(results, "blocksparse_threshold")
    rows = {name.partition(": ")[2]: values for name, values in lines_of(text, "Tiles by threshold").items()}
    measured = {name: values[1:] for name, values in rows.items() if name and values[1] != "—"}
    assert measured == {
        "0.05": ["80.0%", "4.70", "12%", "87.0%"],
        "0.35": ["30.0%", "1.50", "0%", "87.0%"],
        "auto, 0.5 chosen": ["10.0%", "1.20", "0%", "87.0%"],
        "no tiles": ["0.0%", "1.00", "—", "87.0%"],
    }
    assert list(measured) == ["0.05", "0.35", "auto, 0.5 chosen", "no tiles"]
    assert rows["Reddit, an epoch on a GPU, 0.1"][0] == "97"  # the paper's
    assert_pictured(results, "blocksparse_threshold", text, ["0.35", "auto", "no tiles", "dense share of the edges"])
