"""Published scores come from the suites and stand beside the same metric only."""

from typing import Any

from harness.report.published import published_for, published_scores
from tests import factory


def test_published_numbers_come_from_the_suites() -> None:
    scores = {(score.dataset, score.model): score.value for score in published_scores()}
    assert scores[("cora", "gcn")] == 0.815
    assert scores[("citeseer", "gat")] == 0.725
    assert all("20" in score.source for score in published_scores())


def test_another_metric_stands_beside_no_published_score() -> None:
    record: Any = factory.record("agl")
    assert published_for(record, published_scores()) is not None
    record["metrics"]["name"] = "micro_f1"
    assert published_for(record, published_scores()) is None
