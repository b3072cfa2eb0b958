"""All records as one table for pandas: a row per record, a column per dotted key."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store.naming import flatten, label
from harness.store.record import Record
from harness.store.samples import median_seconds
from harness.store.statistics import median

if TYPE_CHECKING:
    import pandas


def row(path: Path, record: Record) -> dict[str, Any]:
    """Flatten one record: dotted keys, lists as JSON text, medians beside them (seconds; of whole epochs)."""
    flat: dict[str, Any] = {"path": str(path), "label": label(record)}
    flat |= {key: _cell(value) for key, value in flatten(record).items()}
    epochs = record.get("epochs")
    if epochs:
        flat["epochs.median_seconds"] = median_seconds(record)
        flat |= {f"epochs.median_{name}": median(values) for name, values in epochs["phases"].items() if values}
    return flat


def frame(records: Iterable[tuple[Path, Record]]) -> "pandas.DataFrame":
    """Build the table; columns are sorted after path, label and status, a key that a record lacks is missing."""
    import pandas

    rows = [row(path, record) for path, record in records]
    first = ["path", "label", "status"]
    others = sorted({key for values in rows for key in values} - set(first))
    return pandas.DataFrame(rows, columns=[*first, *others])


def write(table: "pandas.DataFrame", out: Path) -> None:
    """Write the table as CSV or Parquet, by the ending of ``out``; columns of mixed types become text in Parquet."""
    if out.suffix == ".csv":
        table.to_csv(out, index=False)
        return
    mixed = [name for name in table.columns if table[name].dropna().map(type).nunique() > 1]
    table.assign(**{name: table[name].map(_text) for name in mixed}).to_parquet(out, index=False)


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _text(value: Any) -> Any:
    return None if value is None or value != value else str(value)
