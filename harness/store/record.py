"""The record of one cell: its keys, its schema version, its statuses."""

from pathlib import Path
from typing import Any, TypedDict

SCHEMA_VERSION = 1
PROTOCOL = 2
STATUSES = ("ok", "oom", "timeout", "error", "incorrect", "unsupported", "not_installed", "interrupted")


class Epochs(TypedDict):
    """Samples of the timed call, in order, each the mean of its ``calls``; the ``disturbed`` do not count."""

    seconds: list[float]
    cpu_seconds: list[float]
    phases: dict[str, list[float]]
    loss: list[float]
    disturbed: list[float]
    calls: list[int]  # absent in records of protocol 1, whose samples are single calls


class Record(TypedDict, total=False):
    """JSON of one cell. Everything measured is absent unless ``status`` is ``ok``."""

    schema_version: int
    protocol: int
    status: str
    message: str
    config: dict[str, Any]
    ablations: list[str]
    config_diff: dict[str, list[Any]]  # key -> [value without ablations, value run]
    dataset: dict[str, Any]  # name sha256 trust synthetic inductive task counts published notes structure
    environment: str  # hash, see environments/<hash>.json
    group: str
    run: str  # id shared by the records that one run of a group wrote; absent in older records
    rounds: list[int]  # position of each sample among those of its group
    prepare: dict[str, float]  # phase -> seconds
    warmup: list[float]
    epochs: Epochs
    extrapolated: float  # batches in an epoch / batches timed; absent when whole epochs were timed
    validation: list[list[float]]  # [epoch, loss, score]
    metrics: dict[str, Any]  # name train validation test best_epoch epochs_run epochs_to_target
    memory: dict[str, float]  # bytes: resident_after_prepare, resident before the watched call, peak, their difference
    cache: dict[str, Any]
    facts: dict[str, Any]
    limits: dict[str, Any]
    parity: dict[
        str, Any
    ]  # graph -> worst multiples of the deviation, tensor, tries; of flatten: targets, nodes, edges
    log_tail: str
    overrides: list[str]  # the command-line overrides that led to this cell, as given
    written: str  # time of writing, ISO 8601 in UTC; set by the store
    side: list[str]  # keys that stand in the side file; readers put them back


StoredRecord = tuple[Path, Record]  # a record with the path of its file


class RecordError(ValueError):
    """A record that cannot be read or must not be written; the message names the file and the next step."""


# Keys that a record has only when its status is ok: a run that ended badly says nothing about speed.
MEASURED = ("rounds", "warmup", "epochs", "extrapolated", "validation", "metrics", "memory", "cache", "limits")
REQUIRED = ("schema_version", "protocol", "status", "config", "environment", "group")
KEYS = tuple(Record.__annotations__)


def check_version(version: object, where: object) -> None:
    """Refuse a record of another schema version than this harness writes; raises RecordError with the next step."""
    if not isinstance(version, int):
        raise RecordError(f"{where} has schema_version {version!r}: allowed are 1 to {SCHEMA_VERSION}; is it a record?")
    if version < SCHEMA_VERSION:
        raise RecordError(
            f"{where} has schema version {version}, this harness reads {SCHEMA_VERSION}: run python -m harness upgrade"
        )
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{where} has schema version {version}, this harness reads {SCHEMA_VERSION}: update the harness (git pull)"
        )
