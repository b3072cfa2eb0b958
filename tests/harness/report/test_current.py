"""Which records of a cell count: a failure, an interrupted run and other code beside good records."""

from pathlib import Path
from typing import Any

import pytest

from harness.report import formats
from harness.report.rows import Row
from tests import factory
from tests.harness.report.labelled_rows import rows_by_label

MODULES = {"backends.dgl.backend": "aa", "datasets.graph": "bb"}


def place(modules: dict[str, str], **checked: Any) -> dict[str, Any]:
    """An environment with the modules that a process had loaded."""
    values = factory.ENVIRONMENT["checked"] | checked | {"sources": "".join(modules.values())}
    return {"checked": values, "modules": modules}


def row_of(results: Path, *, newest_fails: bool, status: str = "oom", failed_in: dict[str, Any] | None = None) -> Row:
    """Four good seeds and one that failed after them or before them, in an environment of fewer modules."""
    for seed in range(5):
        failed = seed == 4
        month = seed + (1 if newest_fails else -4 if failed else 2) % 6 + 1
        values = factory.record(
            "dgl", seed, 0.1, status if failed else "ok", written=f"2026-{month:02d}-01T00:00:00Z", group=f"g{month}"
        )
        factory.write(results, values, environment=(failed_in or place({})) if failed else place(MODULES))
    return rows_by_label(results)["dgl"]


@pytest.mark.parametrize("newest_fails", [True, False])
@pytest.mark.parametrize("loaded", [{}, {"datasets.graph": "bb"}], ids=["nothing loaded", "one module"])
def test_a_seed_that_failed_early_is_counted_beside_the_good_ones(
    tmp_path: Path, newest_fails: bool, loaded: dict[str, str]
) -> None:
    before = factory.record("dgl", 0, 9.0, written="2025-01-01T00:00:00Z", group="before")
    factory.write(tmp_path, before, environment=place(MODULES | {"datasets.graph": "old"}))
    row = row_of(tmp_path, newest_fails=newest_fails, failed_in=place(loaded))
    assert (len(row.ok), len(row.cells), row.older) == (4, 5, 1)
    assert row.time is not None and "4 of 5 seeds" in formats.processes(row)


@pytest.mark.parametrize("other", [place({"datasets.graph": "new"}), place({}, torch="2.14.0")], ids=["code", "torch"])
def test_a_later_failure_of_other_code_or_packages_counts_alone(tmp_path: Path, other: dict[str, Any]) -> None:
    row = row_of(tmp_path, newest_fails=True, failed_in=other)
    assert (len(row.ok), len(row.cells), row.older) == (0, 1, 4)


@pytest.mark.parametrize("other", [place({}), place({"datasets.graph": "new"})], ids=["same code", "other code"])
def test_an_interrupted_run_hides_no_good_record(tmp_path: Path, other: dict[str, Any]) -> None:
    factory.write(tmp_path, factory.record("dgl", 0), environment=place(MODULES))
    interrupted = factory.record("dgl", 0, status="interrupted", group="later", written="2026-06-01T00:00:00Z")
    factory.write(tmp_path, interrupted, environment=other)
    row = rows_by_label(tmp_path)["dgl"]
    assert (len(row.ok), len(row.cells), row.older) == (1, 1, 1)


def test_a_failure_of_the_same_seed_and_code_in_a_later_group_is_told(tmp_path: Path) -> None:
    factory.write(tmp_path, factory.record("dgl", 0), environment=place(MODULES))
    failed = factory.record("dgl", 0, status="error", group="later", written="2026-06-01T00:00:00Z")
    factory.write(tmp_path, failed, environment=place({}))
    row = rows_by_label(tmp_path)["dgl"]
    assert not row.ok and row.record["status"] == "error"
