"""Rules of a valid record: its types, and what ties several keys together; each problem names the key."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.store.naming import dataset_name
from harness.store.record import MEASURED, Commit, Environment, Epochs, FaultCounts, FreshProcess, Record
from harness.store.sections import SECTIONS
from harness.store.versions import PROTOCOL
from harness.store.violations import abridged, unsound, violations

CLOSED: frozenset[Any] = frozenset((Record, Commit, Epochs, FreshProcess, FaultCounts))
NEEDED = ("dataset", "prepare", "warmup", "rounds", "epochs", "facts")  # by a record whose status is ok
ONE_PER_SAMPLE = ("cpu_seconds", "calls", "process", "first")
WITH_PROCESSES = 3  # the first protocol that names the process of each sample
RUN = re.compile(r"[0-9a-f]{12}")
FILE = re.compile(rf"seed=(-?\d+)\.([0-9a-f]{{12}})\.([0-9A-Za-z_-]+)(?:\.({RUN.pattern}))?\.json")
LEVELS = ("dataset", "model", "backend", "scenario")
FOLDERS = ("machine", *LEVELS, "config hash")  # of a record, in a results folder


def problems(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for every rule that a record breaks; none for a good record."""
    if wrong := unsound(record) or _type_problems(record):
        yield from wrong
    else:
        yield from _protocol_problems(record)
        yield from _status_problems(record)
        yield from _date_problems(record["written"])
        yield from _length_problems(record)


def _type_problems(record: Mapping[str, Any]) -> list[str]:
    if wrong := violations(record, Record, closed=CLOSED):
        return wrong
    sections = ((name, kind) for name, kind in SECTIONS.items() if name in record)
    return [problem for name, kind in sections for problem in violations(record[name], kind, name)]


def environment_problems(environment: Mapping[str, Any]) -> list[str]:
    """List one sentence for every place in an environment that breaks its type."""
    return unsound(environment) or violations(environment, Environment)


def place_problems(path: Path, record: Mapping[str, Any]) -> Iterator[str]:
    """Compare the names in a record's path with those in the record."""
    config, name = record["config"], FILE.fullmatch(path.name)
    if name is None:
        yield "is named otherwise than seed=<n>.<environment>.<group>.json or seed=<n>.<environment>.<group>.<run>.json"
        return
    keys = ("seed", "environment", "group", "run")
    inside = (str(config["seed"]), record["environment"], record["group"], record.get("run"))
    for key, in_name, value in zip(keys, name.groups(), inside, strict=True):
        if in_name is not None and in_name != value:  # the run stands in the name of a superseded record alone
            yield f"is named {key}={in_name}, but its {key} is {abridged(value)}"
    folders = path.absolute().parent.parent.parts[-len(LEVELS) :]
    for level, folder in zip(LEVELS, folders, strict=False):
        name_inside = dataset_name(config[level]) if level == "dataset" else config[level]["name"]
        if name_inside != folder:
            yield f"lies in the folder {folder}, but its {level} is {abridged(name_inside)}"


def depth_problems(place: Path) -> Iterator[str]:
    """Say where a record must lie in its results folder, unless ``place``, relative to that, is as deep."""
    if len(place.parts) != len(FOLDERS) + 1:
        allowed = "/".join(f"<{level}>" for level in FOLDERS)
        yield f"lies at {place}: allowed is {allowed}/seed=<n>.<...>.json"


def _protocol_problems(record: Mapping[str, Any]) -> Iterator[str]:
    protocol = record["protocol"]
    if protocol > PROTOCOL:
        yield f"protocol is {protocol}, this harness knows {PROTOCOL}: update the harness (git pull)"
    if protocol >= WITH_PROCESSES and record["status"] == "ok":
        yield from (f"epochs.{key} is missing" for key in ("process", "first") if key not in record.get("epochs", {}))
        yield from (f"{key} is missing" for key in ("processes",) if key not in record)


def _status_problems(record: Mapping[str, Any]) -> Iterator[str]:
    status = record["status"]
    if status != "ok":
        yield from (f"{key} is present although the status is {status}" for key in MEASURED if key in record)
        if not record.get("message"):
            yield f"message is missing: the status is {status} but no message says why"
        return
    if "log_tail" in record:
        yield "log_tail is present although the status is ok"
    yield from (f"{key} is missing although the status is ok" for key in NEEDED if key not in record)


def _date_problems(text: str) -> Iterator[str]:
    try:
        written = datetime.fromisoformat(text)
    except ValueError:
        yield f"written is {abridged(text)}: allowed is ISO 8601 in UTC, like 2026-01-31T12:00:00Z"
        return
    if written.tzinfo is None:
        yield f"written is {text!r}, without a time zone: append Z"
    elif written > datetime.now(UTC) + timedelta(days=1):
        yield f"written is {text!r}, which is in the future: set the clock of that machine and measure again"


def _length_problems(record: Mapping[str, Any]) -> Iterator[str]:
    """Compare the lengths of lists that have an entry for each sample."""
    if not (epochs := record.get("epochs")):
        return
    samples = len(epochs["seconds"])
    series = {f"epochs.{key}": epochs[key] for key in ONE_PER_SAMPLE if key in epochs}
    series |= {f"epochs.phases.{name}": values for name, values in epochs["phases"].items()}
    series |= {"epochs.loss": epochs["loss"]} if epochs["loss"] else {}
    series |= {"rounds": record["rounds"]} if "rounds" in record else {}
    for name, values in series.items():
        if len(values) != samples:
            yield f"{name} holds {len(values)} values for {samples} samples"
    processes, numbers = len(record.get("processes", ())), epochs.get("process", ())
    if processes and numbers and max(numbers) >= processes:
        yield f"epochs.process names process {max(numbers)}: processes holds {processes}, counted from 0"
