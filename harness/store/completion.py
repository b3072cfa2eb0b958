"""Completion of a record before it is written: versions, time, rounded floats; a failed cell keeps no measurements."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from harness.store.record import (
    KEYS,
    MEASURED,
    PROTOCOL,
    REQUIRED,
    SCHEMA_VERSION,
    STATUSES,
    RecordError,
    check_version,
)

EXACT = ("config", "config_diff", "overrides")


def complete(record: Mapping[str, Any]) -> dict[str, Any]:
    """Add versions and time, round floats to 6 digits and drop measurements unless the status is ok.

    A measured number that is not finite makes the status ``error``. Raises RecordError for keys or a status that the
    schema lacks.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    completed = {"schema_version": SCHEMA_VERSION, "protocol": PROTOCOL} | dict(record)
    completed = {"written": now} | {key: value for key, value in completed.items() if key != "side"}
    unknown = sorted(set(completed) - set(KEYS))
    missing = [key for key in REQUIRED if key not in completed]
    if unknown or missing:
        wrong = [f"unknown {key}" for key in unknown] + [f"missing {key}" for key in missing]
        raise RecordError(f"not a record: {', '.join(wrong)}; allowed are {', '.join(KEYS)}")
    if completed["status"] not in STATUSES:
        raise RecordError(f"status {completed['status']!r} is unknown: allowed are {', '.join(STATUSES)}")
    check_version(completed["schema_version"], "the record")
    if completed["status"] == "ok" and (bad := sorted(not_finite(completed))):
        completed |= {"status": "error", "message": f"a measured number is not finite: {', '.join(bad[:5])}"}
    if completed["status"] != "ok":
        completed = {key: value for key, value in completed.items() if key not in MEASURED}
    return {key: _plain(completed[key], key not in EXACT) for key in KEYS if key in completed}


def not_finite(value: Any, where: str = "") -> Iterator[str]:
    """Yield the place of every number that is NaN or infinite."""
    if isinstance(value, float) and not math.isfinite(value):
        yield where
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from not_finite(part, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from not_finite(part, f"{where}[{index}]")


def _plain(value: Any, rounded: bool) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{value:.6g}") if rounded else value
    if isinstance(value, Mapping):
        return {str(key): _plain(part, rounded) for key, part in value.items()}
    return [_plain(part, rounded) for part in value] if isinstance(value, list | tuple) else value
