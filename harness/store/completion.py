"""Completion of a record before it is written: versions, time, rounded floats; a failed cell keeps no measurements."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from harness.store.record import KEYS, MEASURED, REQUIRED, RecordError
from harness.store.rules import problems
from harness.store.versions import PROTOCOL, SCHEMA_VERSION

EXACT = ("config", "config_diff", "overrides")
SET_BY_FILES = ("side", "digest")
OF_THE_ENGINE = (*MEASURED, "prepare", "dataset", "facts", "parity")


def complete(record: Mapping[str, Any]) -> dict[str, Any]:
    """Add versions and time, round floats to 6 digits and drop measurements unless the status is ok.

    A measured value that is not finite, or that breaks another rule of a record, makes the status ``error``. Raises
    RecordError for unknown or missing keys, and where what the harness itself wrote breaks a rule.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    completed = {"schema_version": SCHEMA_VERSION, "protocol": PROTOCOL, "written": now} | dict(record)
    completed = {key: value for key, value in completed.items() if key not in SET_BY_FILES}
    unknown = sorted(set(completed) - set(KEYS))
    missing = [key for key in REQUIRED if key not in completed]
    if unknown or missing:
        wrong = [f"unknown {key}" for key in unknown] + [f"missing {key}" for key in missing]
        raise RecordError(f"not a record: {', '.join(wrong)}; allowed are {', '.join(KEYS)}")
    if completed["status"] == "ok" and (bad := sorted(not_finite(completed))):
        completed |= {"status": "error", "message": f"a measured number is not finite: {', '.join(bad[:5])}"}
    values = _ordered(completed)
    if wrong := list(problems(values)):
        values = _ordered(_without_answers(completed, wrong))
        wrong = list(problems(values))
    if wrong:
        raise RecordError(f"not a record: {'; '.join(wrong)}")
    return values


def _without_answers(record: Mapping[str, Any], wrong: list[str]) -> dict[str, Any]:
    """Drop what came from the measured process, some of which is wrong, and say so in the message."""
    own = {key: value for key, value in record.items() if key not in OF_THE_ENGINE}
    message = f"the record is not valid: {'; '.join(wrong[:5])}"
    if record["status"] == "ok":
        return own | {"status": "error", "message": message}
    return own | {"message": f"{record.get('message', '')} ({message})".strip()}


def _ordered(record: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values in the order of the schema's keys, measured ones only where the status is ok."""
    dropped = () if record["status"] == "ok" else MEASURED
    return {key: _plain(record[key], key not in EXACT) for key in KEYS if key in record and key not in dropped}


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
    if isinstance(value, str):
        # Half of a surrogate pair, as a log may hold one, is no character that a file can hold.
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_plain(str(key), rounded): _plain(part, rounded) for key, part in value.items()}
    return [_plain(part, rounded) for part in value] if isinstance(value, list | tuple) else value
