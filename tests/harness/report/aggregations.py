"""Records of aggregations and a training epoch, and the cells of their pages."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.report.write import write_reports
from tests import factory

LIMITS = {"xnr": 1.5, "fraction_of_ceiling": 0.5, "fraction_of_limit": 0.2, "bytes_worst": 1e9, "dense_floor": 0.008}


def aggregation(folder: Path, backend: str, seconds: float, *, nnz: int = 2_000_000, **sections: Any) -> None:
    """Write the record of one aggregation."""
    given = {"model": {"name": "gcn", "layers": 2, "hidden": 64, "heads": 1}, "scenario": {"name": "spmm"}} | sections
    values = factory.config(backend, 0, **given)
    held = factory.record(backend, 0, seconds, config=values, group=f"{sections}".encode().hex()[:8] or "g")
    held |= {"limits": LIMITS, "facts": {"spmm": [{"nnz": nnz}, {"nnz": 5}]}, "metrics": {}}
    del held["metrics"], held["validation"]
    factory.write(folder, held, folder=f"{backend}-{sections}".encode().hex()[:60])


@pytest.fixture
def page(tmp_path: Path) -> tuple[Path, str]:
    """Ours 2x as fast as DGL in one table, half as fast in a small one, 8x for gat, and a training epoch."""
    results = tmp_path / "results"
    for backend, seconds in (("blocksparse", 0.01), ("dgl", 0.02), ("reference", 0.05)):
        aggregation(results, backend, seconds)
    random: dict[str, Any] = {"order": {"name": "random"}}
    for backend, seconds in (("blocksparse", 0.04), ("dgl", 0.02)):
        aggregation(results, backend, seconds, nnz=100, **random)
    attention: dict[str, Any] = {"model": {"name": "gat", "hidden": 16, "heads": 8}}
    for backend, seconds in (("blocksparse", 0.01), ("dgl", 0.08)):
        aggregation(results, backend, seconds, **attention)
    for backend, seconds in (("agl", 0.01), ("dgl", 0.03)):
        factory.write(results, factory.record(backend, 0, seconds) | {"limits": LIMITS})
    write_reports(results, tmp_path / "reports")
    return tmp_path, (tmp_path / "reports" / "kernels.md").read_text()


def numbers(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def line_with(page: str, start: str) -> list[str]:
    return numbers(next(line for line in page.splitlines() if line.startswith(f"| {start}")))
