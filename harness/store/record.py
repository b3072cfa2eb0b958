"""The record of one cell: its keys with their types and bounds.

The types are checked when a record is written and when it is read (``harness.store.rules``), and are the JSON Schema
beside the records (``harness.store.schema``). Rules that tie several keys together stand in ``harness.store.rules``.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

from msgspec import Meta

from harness.store.statuses import Status

Number = Annotated[float, Meta(ge=-1e30, le=1e30)]
Amount = Annotated[float, Meta(ge=0, le=1e30)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Duration = Annotated[float, Meta(gt=0, le=1e9)]  # of a sample: no call takes no time
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Positive = Annotated[int, Meta(ge=1, le=2**62)]
Identifier = Annotated[str, Meta(pattern="^[0-9A-Za-z_-]{1,64}$", max_length=64)]  # may stand in the name of a file
EnvironmentHash = Annotated[str, Meta(pattern="^[0-9a-f]{12}$", max_length=12)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{32}$", max_length=32)]
Point = Annotated[list[Number], Meta(min_length=3, max_length=3)]
Plain = str | int | float | bool | None
Change = Annotated[list[Any], Meta(min_length=2, max_length=2)]


class Epochs(TypedDict):
    """Samples of the timed call, in order, each the mean of its counted calls; the ``disturbed`` do not count.

    All lists but ``disturbed`` have an entry for each sample, ``loss`` one for each or none.
    """

    seconds: Annotated[list[Duration], Meta(min_length=1)]
    cpu_seconds: list[Seconds]
    phases: dict[str, list[Seconds]]
    loss: list[Number]
    disturbed: list[Seconds]
    calls: list[Positive]
    process: NotRequired[list[Count]]  # which fresh process took the sample; since protocol 3
    first: NotRequired[list[Seconds]]  # the turn's first, discarded call; since protocol 3


class FaultCounts(TypedDict, total=False):
    """Page faults of a process while it was sampled."""

    minor: Count
    major: Count


class FreshProcess(TypedDict, total=False):
    """One process of a cell; what a machine does not tell is absent."""

    prepare: dict[str, Seconds]
    warmup: list[Seconds]
    first_call: Seconds
    page_faults: FaultCounts
    load: Amount  # cores that other programs kept busy on average
    tolerated_load: Amount  # above it a sample counts as disturbed
    steal: Share  # share of CPU time that the hypervisor gave to other machines


class Commit(TypedDict):
    """Revision of a checkout."""

    revision: str
    dirty: bool


class Record(TypedDict, total=False):
    """JSON of one cell. Everything measured is absent unless ``status`` is ``ok``."""

    schema_version: Required[Literal[2]]
    protocol: Required[Positive]
    status: Required[Status]
    message: str
    config: Required[dict[str, Any]]
    ablations: list[str]
    config_diff: dict[str, Change]  # key -> [value without ablations, value run]
    dataset: dict[str, Any]  # name sha256 trust synthetic inductive task counts published notes structure
    environment: Required[EnvironmentHash]  # see environments/<hash>.json
    commit: Commit  # of the checkout; absent outside git
    group: Required[Identifier]
    alone: bool  # measured after the others of its group, as it ran out of memory beside them; else absent
    run: Identifier  # id shared by the records that one run of a group wrote; absent in older records
    rounds: list[Count]  # position of each sample among those of its group
    prepare: dict[str, Seconds]  # phase -> seconds
    warmup: list[Seconds]
    epochs: Epochs
    processes: Annotated[list[FreshProcess], Meta(min_length=1)]  # since protocol 3
    # Targets of an epoch / targets timed (of older records batches); absent when whole epochs were timed.
    extrapolated: Annotated[float, Meta(ge=1, le=1e12)]
    validation: list[Point]  # [epoch, loss, score]
    metrics: dict[str, Any]  # name train validation test best_epoch epochs_run epochs_to_target
    memory: dict[str, Amount]  # bytes, see docs/measuring.md
    cache: dict[str, Any]
    facts: dict[str, Any]
    limits: dict[str, Any]
    # Graph -> worst multiples of the deviation, tensor, tries; of flatten: targets, nodes, edges.
    parity: dict[str, dict[str, Any]]
    log_tail: str
    overrides: list[str]  # the command-line overrides that led to this cell, as given
    written: Required[str]  # time of writing, ISO 8601 in UTC; set by the store
    side: list[str]  # keys that stand in the side file; readers put them back
    digest: Digest  # of all other keys and the file's name; set by the store, absent in upgraded records


StoredRecord = tuple[Path, Record]  # a record with the path of its file

Described = Plain | list[Plain] | dict[str, Plain | list[Plain] | dict[str, Plain]]


class Environment(TypedDict, total=False):
    """What ``environments/<hash>.json`` holds: the checked values, and further ones about machine and code."""

    checked: Required[dict[str, Described]]
    machine: dict[str, Described]
    modules: dict[str, str]  # loaded module -> digest of its code


class RecordError(ValueError):
    """A record that cannot be read or must not be written; the message names the file and the next step."""


class DamagedFile(RecordError):
    """A file that is no valid record or environment; ``problems`` has a sentence for each fault."""

    def __init__(self, path: Path, problems: tuple[str, ...]) -> None:
        super().__init__(f"{path}: {'; '.join(problems)}")
        self.path, self.problems = path, problems


# Keys that a record has only when its status is ok: a run that ended badly says nothing about speed.
MEASURED = (
    *("rounds", "warmup", "epochs", "processes", "extrapolated", "validation", "metrics", "memory", "cache", "limits"),
)
KEYS = tuple(Record.__annotations__)
REQUIRED = tuple(sorted(Record.__required_keys__, key=KEYS.index))
