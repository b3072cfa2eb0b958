"""Records of aggregations, and the cells of their pages."""

import re
from pathlib import Path
from typing import Any

from tests import factory

LIMITS = {"xnr": 1.5, "fraction_of_ceiling": 0.5, "fraction_of_limit": 0.2, "bytes_worst": 1e9, "dense_floor": 0.008}


def aggregation(folder: Path, backend: str, seconds: float, *, nnz: int = 2_000_000, **sections: Any) -> None:
    """Write the record of one aggregation."""
    config = {"model": {"name": "gcn", "layers": 2, "hidden": 64, "heads": 1}, "scenario": {"name": "spmm"}} | sections
    values = factory.config(backend, 0, **config)
    record = factory.in_fresh_processes(
        factory.record(backend, 0, seconds, config=values, group=f"{sections}".encode().hex()[:8] or "g")
    )
    size = {"rows": 9, "columns": 9, "width": 64}
    record |= {"limits": LIMITS, "facts": {"spmm": [size | {"nnz": nnz}, size | {"nnz": 5}]}, "metrics": {}}
    del record["metrics"], record["validation"]
    factory.write(folder, record, folder=f"{backend}-{sections}".encode().hex()[:60])


def numbers(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def line_with(page: str, start: str) -> list[str]:
    return numbers(next(line for line in page.splitlines() if line.startswith(f"| {start}")))


def comparison_text(reports: Path) -> str:
    """The summary, then the tables of all data sets."""
    return text_of(reports, "comparison")


def text_of(reports: Path, name: str) -> str:
    """A page and then all pages of tables to which it is the summary."""
    pages = [reports / f"{name}.md", *sorted(reports.glob(f"{name}-*.md"))]
    return "\n".join(page.read_text() for page in pages)
