"""Records of two machines and two protocols: no number of a page comes from more than one of them."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.report.comparisons import dataset_comparisons, of_scenarios
from harness.report.scopes import by_scope
from harness.report.speedups import speedups
from harness.report.write import write_reports
from harness.store.files import environment_of, find_records
from tests import factory
from tests.harness.report.aggregations import aggregation, line_with

# How many times as fast ours is in each scope; a mean over two of them is none of these.
FACTORS = {("first", 2): 2.0, ("first", 3): 3.0, ("second", 2): 5.0, ("second", 3): 7.0}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of the same cells, one of them of a suite, on two machines under two protocols."""
    folder = tmp_path_factory.mktemp("scopes")
    for (machine, protocol), factor in FACTORS.items():
        for backend, seconds in (("agl", 0.01), ("dgl", 0.01 * factor)):
            for suite in (None, "agl_efficiency"):
                training = {"rate": 0.1 if suite else 0.2}
                values = factory.config(backend, suite=suite, training=training)
                record = factory.record(backend, 0, seconds, config=values, protocol=protocol, facts={})
                record = factory.in_fresh_processes(record)
                factory.write(folder / "results", record, folder=f"{backend}{suite}{protocol}", machine=machine)
    write_reports(folder / "results", folder / "reports")
    return folder


def page(reports: Path, name: str) -> str:
    return (reports / "reports" / f"{name}.md").read_text()


def factor_in(cells: list[str]) -> float:
    return next(float(cell.rstrip("x")) for cell in cells if re.fullmatch(r"[\d.]+x", cell))


@pytest.mark.parametrize("name", ["README", "epochs", "comparison", "agl_efficiency"])
def test_pages_show_the_newest_protocol_with_a_part_for_each_machine(reports: Path, name: str) -> None:
    text = page(reports, name).partition("## Environments")[0]
    assert "protocol-2" not in text or name == "README"
    for machine in ("first", "second"):
        heading = next(title for title in re.findall(r"^#+ (.+)$", text, flags=re.M) if machine in title)
        below = text.rpartition(f"# {heading}\n")[2]
        assert factor_in(line_with(below, "cora")) == pytest.approx(FACTORS[machine, 3], rel=0.05)


def test_no_page_contains_a_factor_that_no_scope_measured(reports: Path) -> None:
    for path in (reports / "reports").glob("*.md"):
        for text in re.findall(r"\| ([\d.]+)x(?= \|)", path.read_text()):
            assert min(abs(float(text) / factor - 1) for factor in FACTORS.values()) < 0.05, (path, text)


def test_the_front_page_names_its_protocol_and_where_the_older_one_is(reports: Path) -> None:
    text = page(reports, "README")
    assert "Protocol 3 is the newest with good records. It was measured on first and second;" in text
    assert "[protocol-2.md](protocol-2.md)" in text and "[history.md](history.md)" in text


def test_records_of_the_older_protocol_stay_on_a_page_of_their_own(reports: Path) -> None:
    text = page(reports, "protocol-2").partition("## Environments")[0]
    for machine in ("first", "second"):
        below = text.partition(f"### On {machine}\n")[2]
        assert factor_in(line_with(below, "cora")) == pytest.approx(FACTORS[machine, 2], rel=0.05)
    assert "python -m harness backend" not in page(reports, "protocol-2-cora-first")


def test_every_record_is_linked_by_a_page(reports: Path) -> None:
    folder = reports / "reports"
    links = {
        link for path in folder.glob("*.md") for link in re.findall(r"\]\((\S+seed=\S+?\.json)\)", path.read_text())
    }
    linked = {(folder / link).resolve() for link in links}
    assert linked == {path.resolve() for path, _ in find_records(reports / "results")}


def test_a_mean_over_several_scopes_is_refused(reports: Path) -> None:
    results = reports / "results"
    records = list(find_records(results))
    environments = {record["environment"]: environment_of(results, record["environment"]) for _, record in records}
    datasets = of_scenarios(dataset_comparisons(results, records, environments), lambda scenario: True)
    assert len(by_scope(datasets)) == 4
    with pytest.raises(ValueError, match="first, protocol 2; first, protocol 3"):
        list(speedups(datasets))


def test_figures_of_two_machines_have_names_of_their_own(tmp_path: Path) -> None:
    for machine in ("first", "second"):
        for backend, seconds in (("blocksparse", 0.01), ("dgl", 0.02)):
            aggregation(tmp_path / machine, backend, seconds)
        copy: Any = tmp_path / machine / factory.MACHINE
        copy.rename(tmp_path / machine / machine)
        for path in (tmp_path / machine).rglob("*.json"):
            target = tmp_path / "results" / path.relative_to(tmp_path / machine)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    write_reports(tmp_path / "results", tmp_path / "reports")
    names = {path.name for path in (tmp_path / "reports" / "figures").glob("speedups*.svg")}
    assert names == {"speedups-first.svg", "speedups-second.svg"}
