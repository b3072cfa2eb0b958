"""Records sorted into comparisons whose titles are unique."""

from pathlib import Path

import pytest

from harness.report.write import write_reports
from tests import factory
from tests.harness.report.aggregations import comparison_text


def test_equal_titles_get_the_values_that_differ(tmp_path: Path) -> None:
    for backend in ("agl", "dgl"):
        for hidden in (8, 16):
            config = factory.config(backend, 0, model={"hidden": hidden})
            factory.write(tmp_path / "results", factory.record(backend, config=config), folder=f"{backend}{hidden}")
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = comparison_text(tmp_path / "reports")
    titles = [line for line in page.splitlines() if line.startswith("## cora: ")]
    start = "## cora: gat, train, full batch, 2 layers"
    assert sorted(titles) == [f"{start}, hidden={hidden}, cpu, 2 threads" for hidden in (16, 8)]


@pytest.mark.parametrize("limit", ["group_seconds", "deadline_seconds"])
def test_a_limit_that_is_raised_for_one_engine_parts_no_table(tmp_path: Path, limit: str) -> None:
    for backend, seconds in (("agl", 60.0), ("dgl", 600.0)):
        config = factory.config(backend, 0, measure={limit: seconds})
        factory.write(tmp_path / "results", factory.record(backend, config=config))
    write_reports(tmp_path / "results", tmp_path / "reports")
    assert comparison_text(tmp_path / "reports").count("\n## cora: ") == 1
