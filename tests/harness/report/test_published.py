"""Published scores come from the suites and stand beside the same metric only."""

from pathlib import Path
from typing import Any

import pytest

from harness.report import published
from harness.report.published import published_for, published_scores
from harness.usage import UsageError
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


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{dataset: cora, model: gcn, metric: accuracy, source: paper}", "row 1 of published is {'dataset': 'cora'"),
        ("{dataset: cora, model: gcn, metric: accuracy, value: high, source: paper}", "of which value is a number"),
        ("{dataset: cora", "while parsing a flow mapping"),
    ],
    ids=["no-value", "no-number", "no-yaml"],
)
def test_a_wrong_row_is_named_by_file_and_row(row: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: mine\ntitle: Mine\ntiers: {{quick: [], full: []}}\npublished:\n  - {row}\n")
    with pytest.raises(UsageError) as error:
        published._suite_in(file)
    assert str(error.value).startswith(f"{file}: ") and words in str(error.value)
