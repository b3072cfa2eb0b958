"""Overview of ours beside the fastest peer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.report import speedups
from harness.report.comparisons import DatasetComparisons, dataset_comparisons, of_scenarios
from harness.report.content import NOTHING
from harness.report.equal_losses import equal_losses
from harness.report.history import headlines
from harness.report.pages import epochs, kernels
from harness.store.files import environment_of, find_records
from tests import factory
from tests.harness.report.aggregations import comparison_text, line_with
from tests.harness.report.test_rows import in_processes


def test_the_summary_has_a_line_per_table_with_both_times_and_scores(page: tuple[Path, str]) -> None:
    text = comparison_text(page[0] / "reports")
    ours, time, of_peer, peer, factor, *plain, our_score, score = line_with(
        text[text.index("## Summary") :], "cora: gat, "
    )[1:]
    assert (ours, peer) == ("agl", "dgl")
    assert float(of_peer) / float(time) == pytest.approx(3, rel=0.1)
    assert float(factor.rstrip("x")) == pytest.approx(3, rel=0.1)
    assert plain == ["—"] * 3
    assert our_score.startswith("0.8") and score.startswith("0.8")


def _compared(results: Path) -> list[DatasetComparisons]:
    records = list(find_records(results))
    environments = {record["environment"]: factory.ENVIRONMENT for _, record in records}
    return dataset_comparisons(results, records, environments)


def _beside_a_peer(results: Path, factor: float, hidden: int, suite: str | None, **sections: Any) -> None:
    """Ours and a peer that takes ``factor`` times as long."""
    for backend, seconds in (("agl", 0.01), ("dgl", 0.01 * factor)):
        values = factory.config(backend, model={"hidden": hidden}, suite=suite, **sections)
        record = factory.record(backend, 0, seconds, config=values, group=f"{suite}{hidden}")
        factory.write(results, record, folder=f"{suite}{hidden}")


@pytest.mark.parametrize("strict", ["epochs", "scores"])
def test_of_two_suites_with_one_timed_call_the_one_with_the_fastest_peer_counts(tmp_path: Path, strict: str) -> None:
    for suite in ("epochs", "scores"):
        # A limit of repetitions and the length of a training part tables, but not what is timed.
        is_strict = suite == strict
        limits = {"measure": {"max_samples": 20 if is_strict else 30}, "training": {"epochs": 7 if is_strict else 9}}
        _beside_a_peer(tmp_path, 3.0 if suite == strict else 60.0, 64, suite, **limits)
    assert [one.factor for one in speedups.speedups(_compared(tmp_path))] == [pytest.approx(3, rel=0.1)]


@pytest.mark.parametrize("suites", [("ppi_epochs", "ppi_first", None), ("ppi_epochs", None)], ids=len)
def test_other_widths_are_other_calls_however_many_suites_there_are(
    tmp_path: Path, suites: tuple[str | None, ...]
) -> None:
    for number, suite in enumerate(suites):
        _beside_a_peer(tmp_path, 2.0, 64 if suite else 256, suite, measure={"max_samples": 20 + number})
    datasets = of_scenarios(_compared(tmp_path), lambda scenario: True)
    widths = {one.ours.record["config"]["model"]["hidden"] for one in speedups.speedups(datasets)}
    assert widths == {64, 256}


def test_a_ratio_that_may_be_1_is_marked_and_no_engine_is_slower_by_it(tmp_path: Path) -> None:
    for backend, seconds in (("agl", [0.2, 0.21, 0.2, 0.22, 0.2]), ("dgl", [0.19, 0.22, 0.19, 0.2, 0.21])):
        factory.write(tmp_path / "results", in_processes(backend, seconds))
    (speedup,) = speedups.speedups(_compared(tmp_path / "results"))
    assert 0.9 < speedup.factor < 1
    assert speedup.beside(speedup.fastest_library)[-1] == "0.95x ~"
    (row,) = speedups.mean_speedups({"all": [speedup]}, slower=True).rows
    assert row[-2:] == ["0", NOTHING]


def _loaded(record: dict[str, Any]) -> dict[str, Any]:
    process = {"prepare": {}, "warmup": [0.1], "first_call": 0.1, "load": 1.0, "tolerated_load": 0.1}
    return factory.in_fresh_processes(record | {"processes": [process]})


@pytest.mark.parametrize("doubtful", [dict, _loaded], ids=["look", "load"])
def test_a_doubtful_figure_displaces_no_good_one(
    tmp_path: Path, doubtful: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    for samples, factor, change in ((20, 3.0, factory.in_fresh_processes), (3, 2.5, doubtful)):
        for backend, seconds in (("agl", 0.01), ("dgl", 0.01 * factor)):
            values = factory.config(backend, measure={"max_samples": samples})
            record = change(factory.record(backend, 0, seconds, config=values, group=f"{samples}"))
            factory.write(tmp_path, record, folder=f"{samples}")
    (speedup,) = speedups.speedups(_compared(tmp_path))
    assert (round(speedup.factor), speedup.doubts) == (3, "")


def test_a_look_is_marked_and_no_headline(tmp_path: Path) -> None:
    _beside_a_peer(tmp_path, 3.0, 64, None)
    (speedup,) = speedups.speedups(_compared(tmp_path))
    (row,) = speedups.mean_speedups({"all": [speedup]}).rows
    assert row[1] == "0" and row[-1] == "1: cora, gat, full batch, 2 layers (1 of 5 processes)"
    assert str(speedup.beside(speedup.peer)[-1]).endswith("x ⚠ 1 of 5 processes")


def test_what_speaks_against_a_figure_stands_beside_it_in_every_overview(tmp_path: Path) -> None:
    for scenario in ("train", "spmm"):
        for backend, seconds in (("agl", 0.01), ("dgl", 0.03)):
            values = factory.config(backend, scenario={"name": scenario})
            factory.write(tmp_path, _loaded(factory.record(backend, 0, seconds, config=values)))
    trained = of_scenarios(_compared(tmp_path), lambda scenario: scenario == "train")
    multiplied = of_scenarios(_compared(tmp_path), lambda scenario: scenario == "spmm")
    (summary,), (epoch,), (product,) = (
        table.rows for table in (speedups.overview(trained), epochs.table(trained[0]), kernels.overview(multiplied))
    )
    assert (summary[1], summary[4]) == ("agl ⚠ load", "dgl ⚠ load")
    assert (epoch[0], epoch[3]) == ("gat, 2 layers (agl ⚠ load)", "dgl ⚠ load")
    assert (product[0], product[3]) == ("cora, gat, 8 wide, 8 heads (small) ⚠ load", "dgl ⚠ load")


@pytest.mark.parametrize(("fastest", "named"), [(0.018, False), (0.012, True)], ids=["as fast", "faster"])
def test_a_peer_that_was_faster_in_one_process_makes_the_factor_no_headline(
    tmp_path: Path, fastest: float, named: bool
) -> None:
    for backend, seconds in (("agl", 0.01), ("dgl", 0.02), ("pyg", 0.03)):
        record = factory.in_fresh_processes(factory.record(backend, 0, seconds))
        if backend == "pyg":
            record["epochs"]["seconds"][2] = fastest
        factory.write(tmp_path, record)
    (one,) = speedups.speedups(_compared(tmp_path))
    assert one.peer.label == "dgl" and (one.doubts == "pyg may be faster") is named
    assert one.doubts == "" or named
    (losses,) = equal_losses(_compared(tmp_path)).rows
    assert losses[1] == ("agl ⚠ pyg may be faster" if named else "agl")
    records = list(find_records(tmp_path))
    environments = {record["environment"]: environment_of(tmp_path, record["environment"]) for _, record in records}
    (headline,) = headlines(tmp_path, records, environments)
    assert [point.contest for point in headline.points] == ["pyg may be faster" if named else ""]


def test_whole_epochs_beside_extrapolated_ones_make_no_headline(tmp_path: Path) -> None:
    for backend, seconds, part in (("agl", 0.01, {}), ("dgl", 0.003, {"extrapolated": 10.0})):
        factory.write(tmp_path, factory.in_fresh_processes(factory.record(backend, 0, seconds)) | part)
    (one,) = speedups.speedups(_compared(tmp_path))
    assert one.factor == pytest.approx(3, rel=0.1) and one.doubts == "extrapolated beside whole epochs"
    assert one.contest == " ⚠ extrapolated beside whole epochs"
