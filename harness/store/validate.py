"""Validation of records; each problem names the key that breaks a rule."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.store.completion import not_finite
from harness.store.files import environment_of, read_record, record_paths
from harness.store.naming import dataset_name
from harness.store.record import KEYS, MEASURED, REQUIRED, STATUSES, Record, RecordError

SCORES = ("train", "validation", "test")
LEVELS = ("machine", "dataset", "model", "backend", "scenario", "config hash")


def problems_in(results: Path) -> Iterator[tuple[Path, str]]:
    """Yield (file, sentence) for everything that is wrong with the records below ``results``."""
    for path in record_paths(results):
        try:
            record = read_record(path)
            environment_of(results, str(record.get("environment")))
        except RecordError as error:
            yield path, str(error)
            continue
        for problem in [*problems(record), *_misplaced(path.relative_to(results), record)]:
            yield path, problem


def problems(record: Record) -> Iterator[str]:
    """Yield one sentence for every rule that a record breaks; none for a good record."""
    yield from (f"key {key} is unknown: allowed are {', '.join(KEYS)}" for key in record if key not in KEYS)
    missing = [key for key in REQUIRED if key not in record]
    yield from (f"key {key} is missing" for key in missing)
    if missing:
        return
    yield from _status_problems(record)
    yield from _date_problems(record)
    yield from (f"{place} is not finite" for place in not_finite(record))
    yield from _number_problems(record)


def _status_problems(record: Record) -> Iterator[str]:
    status = record["status"]
    if status not in STATUSES:
        yield f"status {status!r} is unknown: allowed are {', '.join(STATUSES)}"
    if status != "ok":
        yield from (f"{key} is present although the status is {status}" for key in MEASURED if key in record)
        if not record.get("message"):
            yield f"the status is {status} but no message says why"
        return
    if "log_tail" in record:
        yield "log_tail is present although the status is ok"
    if not record.get("epochs", {}).get("seconds"):
        yield "the status is ok but epochs.seconds holds no sample"
    if not record.get("dataset"):
        yield "the status is ok but dataset is missing"


def _date_problems(record: Record) -> Iterator[str]:
    text = record.get("written", "")
    try:
        written = datetime.fromisoformat(text)
    except ValueError:
        yield f"written is {text!r}: allowed is ISO 8601 in UTC, like 2026-01-31T12:00:00Z"
        return
    if written.tzinfo is None:
        yield f"written is {text!r}, without a time zone: append Z"
    elif written > datetime.now(UTC) + timedelta(days=1):
        yield f"written is {text!r}, which is in the future: set the clock of that machine and measure again"


def _number_problems(record: Record) -> Iterator[str]:
    epochs: Mapping[str, Any] = record.get("epochs", {})
    series = {f"epochs.{key}": epochs[key] for key in ("seconds", "cpu_seconds", "loss") if key in epochs}
    series |= {f"epochs.phases.{name}": values for name, values in epochs.get("phases", {}).items()}
    samples = len(epochs.get("seconds", []))
    for name, values in series.items():
        if len(values) > samples:
            yield f"{name} holds {len(values)} values for {samples} samples"
    durations = {name: values for name, values in series.items() if name != "epochs.loss"}
    durations |= {"warmup": record.get("warmup", []), "rounds": record.get("rounds", [])}
    durations |= {f"prepare.{name}": [value] for name, value in record.get("prepare", {}).items()}
    durations |= {f"memory.{name}": [value] for name, value in record.get("memory", {}).items()}
    yield from (f"{name} holds a negative value" for name, values in durations.items() if _below_zero(values))
    if any(value <= 0 for value in epochs.get("seconds", []) if value is not None):
        yield "epochs.seconds holds a sample of no duration"
    for name in SCORES:
        value = record.get("metrics", {}).get(name)
        if isinstance(value, int | float) and not 0 <= value <= 1:
            yield f"metrics.{name} is {value}: allowed are 0 to 1"


def _below_zero(values: list[Any]) -> bool:
    return any(isinstance(value, int | float) and value < 0 for value in values)


def _misplaced(relative: Path, record: Record) -> Iterator[str]:
    """Compare the names in a record's path with those in its config."""
    if len(relative.parts) != len(LEVELS) + 1:
        yield f"lies at {relative}: allowed is {'/'.join(f'<{level}>' for level in LEVELS)}/seed=<n>.<...>.json"
        return
    config = record.get("config", {})
    for level, folder in list(zip(LEVELS, relative.parts, strict=False))[1:5]:
        section = config.get(level, {})
        name = dataset_name(section) if level == "dataset" and "name" in section else section.get("name")
        if name != folder:
            yield f"lies in the folder {folder}, but its {level} is {name!r}"
    seed = relative.name.split(".")[0].removeprefix("seed=")
    if seed != str(config.get("seed")):
        yield f"is named seed={seed}, but its seed is {config.get('seed')!r}"
