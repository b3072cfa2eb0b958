"""Overview of ours beside the fastest peer."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.report import speedups
from harness.report.comparisons import dataset_comparisons
from harness.report.content import NOTHING
from harness.store.files import find_records
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


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_suites_the_one_with_the_fastest_peer_counts(monkeypatch: pytest.MonkeyPatch, order: int) -> None:
    factors = {
        "cora: gcn, full batch, suite=scores": 60.0,
        "cora: gcn, full batch, suite=epochs": 3.0,
        "cora: gat": 5.0,
    }
    titles = list(factors)[::order]
    rows = {title: [SimpleNamespace(label="peer", title=title)] for title in titles}
    comparisons = [SimpleNamespace(title=title, rows=rows[title], ranks=True) for title in titles]
    monkeypatch.setattr(speedups, "one_scope", lambda datasets: datasets)
    monkeypatch.setattr(speedups, "fastest_of_ours", lambda rows: SimpleNamespace(ratio_to="peer", title=rows[0].title))
    monkeypatch.setattr(speedups.Speedup, "factor", property(lambda self: factors[self.comparison.title]))
    strictest = speedups.speedups([SimpleNamespace(name="cora", comparisons=comparisons)])  # type: ignore[list-item]
    assert sorted(speedup.factor for speedup in strictest) == [3.0, 5.0]


def test_a_ratio_that_may_be_1_is_marked_and_no_engine_is_slower_by_it(tmp_path: Path) -> None:
    for backend, seconds in (("agl", [0.2, 0.21, 0.2, 0.22, 0.2]), ("dgl", [0.19, 0.22, 0.19, 0.2, 0.21])):
        factory.write(tmp_path / "results", in_processes(backend, seconds))
    records = list(find_records(tmp_path / "results"))
    environments = {record["environment"]: factory.ENVIRONMENT for _, record in records}
    (speedup,) = speedups.speedups(dataset_comparisons(tmp_path / "results", records, environments))
    assert 0.9 < speedup.factor < 1
    assert speedup.beside(speedup.fastest_library)[-1] == "0.95x ~"
    (row,) = speedups.mean_speedups({"all": [speedup]}, slower=True).rows
    assert row[-2:] == ["0", NOTHING]
