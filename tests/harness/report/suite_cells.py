"""Records of a suite's cells, and the cells of its page's tables."""

import hashlib
import re
from pathlib import Path
from typing import Any

from harness.report.comparisons import dataset_comparisons
from harness.report.suites.records import SuiteRecords, suite_records
from harness.report.write import write_reports
from harness.store.files import environment_of, find_records
from tests import factory


def cell(folder: Path, engine: str, seconds: float, suite: str, /, names: tuple[str, ...] = (), **keys: Any) -> None:
    """Write the record of one cell of a suite; keys that a config has go into it, others into the record."""
    sections = {name: value for name, value in keys.items() if name in (*factory.CONFIG, "backend")}
    values = factory.config(engine, 0, **sections, suite=suite)
    record = factory.in_fresh_processes(factory.record(engine, 0, seconds, config=values, ablations=list(names)))
    record |= {"facts": {}}
    record |= {name: value for name, value in keys.items() if name not in sections}
    factory.write(folder, record, folder=hashlib.sha256(f"{engine}{names}{keys}".encode()).hexdigest()[:12])


def page(folder: Path, suite: str) -> str:
    """The page of a suite."""
    write_reports(folder, folder.parent / "reports")
    return (folder.parent / "reports" / f"{suite}.md").read_text()


def parts_of(folder: Path) -> list[SuiteRecords]:
    """The suites that have records."""
    records = list(find_records(folder))
    environments = {record["environment"]: environment_of(folder, record["environment"]) for _, record in records}
    return suite_records(folder, records, environments, dataset_comparisons(folder, records, environments))


def lines_of(text: str, heading: str) -> dict[str, list[str]]:
    """Cells by first cell of the tables below a heading."""
    parts = re.split(r"^## ", text, flags=re.M)
    section = next(part for part in parts if part.startswith(heading))
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| ")]
    return {row[0].strip(): [value.strip() for value in row[1:]] for row in rows}


def number(text: str) -> float:
    return float(text.rstrip("x"))


def all_lines(text: str, heading: str) -> list[list[str]]:
    """All lines of a heading's table without their first cell, which they share."""
    section = next(part for part in re.split(r"^## ", text, flags=re.M) if part.startswith(heading))
    rows = [re.split(r"(?<!\\)\|", line)[2:-1] for line in section.splitlines() if line.startswith("| ")]
    return [[value.strip() for value in row] for row in rows[2:]]


def assert_pictured(results: Path, suite: str, text: str, words: list[str]) -> None:
    """Assert that the page shows a figure of the suite, and that the figure contains these words."""
    (name,) = re.findall(rf"\]\(figures/({suite}-\w+\.svg)\)", text)
    figure = (results.parent / "reports" / "figures" / name).read_text()
    assert all(word in figure for word in words)


def flat_cell(
    results: Path, seconds: float, backend: dict[str, Any], facts: dict[str, Any], a_look: bool = False
) -> None:
    """A cell of scenario flatten on a tenth of the targets, 2 threads, in one process where it is ``a_look``."""
    values = factory.config("agl", 0, backend=backend, scenario={"name": "flatten"}, suite="agl_flat") | {"threads": 2}
    record = factory.record("agl", 0, seconds, config=values) | {"facts": facts, "extrapolated": 10.0}
    record = record if a_look else factory.in_fresh_processes(record)
    factory.write(results, record, folder=hashlib.sha256(f"{backend}".encode()).hexdigest()[:12])
