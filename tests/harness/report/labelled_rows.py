"""Rows of records by their labels."""

from pathlib import Path

from harness.report.rows import Row, rows
from harness.store.files import environment_of, find_records


def rows_by_label(results: Path) -> dict[str, Row]:
    """Rows of all records as one table, by label."""
    records = list(find_records(results))
    environments = {record["environment"]: environment_of(results, record["environment"]) for _, record in records}
    return {row.label: row for row in rows(records, environments)}
