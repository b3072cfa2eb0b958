"""Writing of reports: the same bytes for the same records, links that lead to records, no stale figures."""

import re
import resource
import shutil
from pathlib import Path

import pytest

from harness.report.write import MARK, write_reports
from harness.store.files import find_records
from harness.store.record import RecordError
from tests import factory
from tests.harness.report.aggregations import comparison_text


def test_twice_the_same_bytes_wherever_the_folder_lies(results: Path, tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_reports(results, tmp_path / "reports")}
    again = {path.name: path.read_bytes() for path in write_reports(results, tmp_path / "reports")}
    shutil.copytree(results, tmp_path / "elsewhere" / "results")
    moved = write_reports(tmp_path / "elsewhere" / "results", tmp_path / "elsewhere" / "reports")
    assert first == again == {path.name: path.read_bytes() for path in moved}
    assert {"README.md", "comparison.md", f"comparison-cora-{factory.MACHINE}.md"} < set(first)
    assert any(name.endswith(".svg") for name in first)
    assert b"o not edit" in first["comparison.md"]


def test_the_folder_of_a_machine_is_reported_like_the_results_folder_that_holds_it(
    results: Path, tmp_path: Path
) -> None:
    written = {path.name: path for path in write_reports(results / factory.MACHINE, tmp_path / "reports")}
    assert f"comparison-cora-{factory.MACHINE}.md" in written


def test_every_record_that_counts_is_linked(results: Path, tmp_path: Path) -> None:
    write_reports(results, tmp_path / "reports")
    links = re.findall(r"\]\((\S+seed=\S+?\.json)\)", comparison_text(tmp_path / "reports"))
    linked = {(tmp_path / "reports" / link).resolve() for link in links}
    assert linked == {path.resolve() for path, _ in find_records(results)}


def test_stale_figures_go_and_other_files_stay(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "reports"
    figure = next(path for path in write_reports(results, out) if path.suffix == ".svg")
    stale = figure.with_name("gone.svg")
    stale.write_bytes(figure.read_bytes())
    (out / "mine.md").write_text("my own words")
    write_reports(results, out)
    assert not stale.exists()
    assert (out / "mine.md").read_text() == "my own words"


def test_a_disk_that_is_full_leaves_the_pages_as_they_were(results: Path, tmp_path: Path) -> None:
    pages = write_reports(results, tmp_path / "reports")
    largest = max(path.stat().st_size for path in pages)
    for path in pages:
        path.write_text(f"earlier, {MARK}")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            write_reports(results, tmp_path / "reports")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    left = [path for path in (tmp_path / "reports").rglob("*") if path.is_file()]
    assert sorted(left) == sorted(pages) and {path.read_text() for path in left} == {f"earlier, {MARK}"}


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no records"):
        write_reports(tmp_path, tmp_path / "reports")


@pytest.mark.parametrize("name", ["README.md", "figures"], ids=["page", "figure"])
def test_a_file_of_somebody_else_is_not_written_over(results: Path, tmp_path: Path, name: str) -> None:
    pages = write_reports(results, tmp_path / "before")
    written = next(path for path in pages if name in path.parts).relative_to(tmp_path / "before")
    mine = tmp_path / "mine" / written
    mine.parent.mkdir(parents=True)
    mine.write_text("my own words")
    with pytest.raises(RecordError, match=rf"{mine} would be overwritten and is of no report: .* --out"):
        write_reports(results, tmp_path / "mine")
    assert mine.read_text() == "my own words"
    assert [path for path in (tmp_path / "mine").rglob("*") if path.is_file()] == [mine]
