"""Records sorted into comparisons whose titles are unique."""

from pathlib import Path

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
    titles = [line for line in page.splitlines() if line.startswith("### ")]
    start = "### cora: gat, train, full batch, 2 layers"
    assert sorted(titles) == [f"{start}, hidden={hidden}, cpu, 2 threads" for hidden in (16, 8)]
