"""The JSON objects that a plan holds and that cross the pipe between a run and its measured processes."""

from typing import Any, NotRequired, TypedDict

Event = dict[str, Any]  # sent by a run to its listener: ``event``, ``cell``, and more keys by kind of event
Modules = dict[str, str]  # loaded module -> the file or folder that holds its code


class ScenarioSection(TypedDict):
    """Section ``scenario`` of a cell's configuration."""

    name: str
    train_to_end: bool
    target: float | None
    state: str | None
    save_state: str | None


class MeasureSection(TypedDict):
    """Section ``measure`` of a cell's configuration."""

    processes: int
    warmup: int
    min_samples: int
    max_samples: int
    max_seconds: float
    repeat_seconds: float
    turn_seconds: float
    deadline_seconds: float
    group_seconds: float
    cache: str
    cache_accesses: int
    memory: bool
    limits: bool
    parity: bool


class LauncherSection(TypedDict):
    """Section ``launcher`` of a cell's configuration."""

    name: str
    allocator: str
    python: str | None
    memory_limit_gib: float | None


class CellConfig(TypedDict):
    """A cell's resolved configuration; sections that only engines and scenarios read are open."""

    dataset: dict[str, Any]
    order: dict[str, Any]
    model: dict[str, Any]
    training: dict[str, Any]
    backend: dict[str, Any]
    scenario: ScenarioSection
    measure: MeasureSection
    launcher: LauncherSection
    tracker: dict[str, Any]
    ablations: dict[str, bool]
    seed: int
    device: str
    threads: int
    results: str
    dry_run: bool
    wait: bool
    retry: str
    suite: str | None
    tier: str


class PlannedCell(TypedDict):
    """One cell of a plan; ``status`` is set where the outcome is known without starting the cell.

    ``path`` is the record's, with ``{environment}`` to be filled in; ``graph`` the folder of the prepared graph,
    ``prepare`` the seconds that it took by phase.
    """

    config: CellConfig
    hash: str
    path: str
    config_diff: dict[str, list[Any]]
    labels: list[list[str]]
    overrides: NotRequired[list[str]]
    graph: str | None
    prepare: dict[str, float]
    status: str | None
    message: str


class PlannedGroup(TypedDict):
    """Cells that are measured in turns; ``key`` holds the settings that they share."""

    id: str
    key: dict[str, Any]
    cells: list[PlannedCell]


class Opened(TypedDict, total=False):
    """Answer of a cell that is ready to be timed; bytes and seconds.

    ``first_call`` is the first timed call of the process, ``warm_call`` one that finds it warm, None without warm-ups;
    ``batch_limit`` the number of batches to which an epoch was cut, None for whole epochs.
    """

    dataset: dict[str, Any]
    prepare: dict[str, float]
    parity: dict[str, Any] | None
    resident: int
    warmup: list[float]
    first_call: float | None
    warm_call: float | None
    batch_limit: int | None
    extrapolated: float | None
    device_share: float


class CountedFaults(TypedDict):
    """Page faults of the counted calls of a sample, without a disk (minor) and with one (major)."""

    minor: int
    major: int


class TimedSample(TypedDict):
    """One sample: the mean of ``calls`` timed calls out of ``ran``, seconds; ``first`` is the one that is discarded."""

    seconds: float
    cpu_seconds: float
    phases: dict[str, float]
    loss: float | None
    first: float
    calls: int
    ran: int
    page_faults: CountedFaults
    device_peak: NotRequired[int]


class MemoryPass(TypedDict):
    """Bytes resident just before one call, and at their peak during it; on huge pages at their peak, where told.

    ``retained`` are those that the calls before it left resident.
    """

    resident: int
    retained: int
    peak: int
    huge_pages: NotRequired[int]
    device_peak: NotRequired[int]
