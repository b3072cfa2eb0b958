"""Types of a record's open sections: known keys have a type, engines and scenarios may add others."""

from collections.abc import Mapping
from typing import Annotated, Any, Required, TypedDict

from msgspec import Meta

from harness.store.record import Amount, Count, Number, Positive, Seconds, Share

Name = Annotated[str, Meta(min_length=1)]
Sha256 = Annotated[str, Meta(pattern="^([0-9a-f]{64})?$", max_length=64)]
Scalar = str | int | float | bool | None


class NamedSection(TypedDict, total=False):
    """A section of the config that has a name and may have options."""

    name: Required[Name]
    options: dict[str, Any] | None


class RecordedBackend(TypedDict, total=False):
    """The engine; other options are its own."""

    name: Required[Name]
    variant: str | None
    infer: Scalar
    strategy: Scalar
    workers: Scalar


class ModelSection(TypedDict, total=False):
    """The model's shape."""

    name: Required[Name]
    layers: Positive
    hidden: Required[Positive]
    heads: Required[Positive]
    output_heads: Positive
    slope: Number
    head: str
    fanouts: list[int]


class TrainingSection(TypedDict, total=False):
    """How the model was trained."""

    optimizer: str
    rate: Amount
    decay: Amount
    decay_on: str
    dropout: Amount
    attention_dropout: Amount
    epochs: Positive
    patience: Count
    evaluate_every: Positive
    batch_size: Positive | None
    batch_limit: Positive | None
    dtype: str


class RecordedScenario(TypedDict, total=False):
    """What was measured."""

    name: Required[Name]
    train_to_end: bool
    target: Number | None
    state: str | None
    save_state: str | None


class RecordedMeasure(TypedDict, total=False):
    """How much was measured."""

    warmup: Count
    processes: Positive
    min_samples: Positive
    max_samples: Positive
    max_seconds: Seconds
    turn_seconds: Seconds
    repeat_seconds: Seconds
    group_seconds: Seconds
    deadline_seconds: Seconds
    cache: str
    cache_accesses: Count
    memory: bool
    limits: bool
    parity: bool


class RecordedLauncher(TypedDict, total=False):
    """Where the cell ran."""

    name: str
    allocator: str
    python: str | None
    memory_limit_gib: Amount | None


class RecordedConfig(TypedDict, total=False):
    """The resolved config of a cell."""

    dataset: Required[NamedSection]
    order: NamedSection
    model: Required[ModelSection]
    training: Required[TrainingSection]
    backend: Required[RecordedBackend]
    scenario: Required[RecordedScenario]
    measure: Required[RecordedMeasure]
    launcher: RecordedLauncher
    tracker: dict[str, Any]
    ablations: dict[str, bool]
    seed: Required[int]
    device: Required[str]
    threads: Required[Positive]
    results: str
    dry_run: bool
    wait: bool
    retry: str
    suite: str | None
    tier: str


class GraphStructure(TypedDict, total=False):
    """Density, tiles and degrees of the ordered graph, and bytes by which memory grew while it was prepared."""

    density: Amount  # above 1 with parallel edges
    tiles: dict[str, Share]
    degrees: dict[str, Amount]
    peak_memory: dict[str, Count]


class DatasetFacts(TypedDict, total=False):
    """What was loaded: its name, its hash, counts as loaded and as published."""

    name: Required[Name]
    sha256: Sha256
    trust: str
    synthetic: bool
    inductive: bool
    task: str
    published: dict[str, Amount]
    counts: dict[str, Count]
    notes: list[str]
    structure: GraphStructure


class Metrics(TypedDict, total=False):
    """Scores of the accuracy pass."""

    name: Required[Name]
    train: Share | None
    validation: Share | None
    test: Share | None
    also: dict[str, dict[str, Share | None]]
    best_epoch: Count
    epochs_run: Count
    target: Number
    epochs_to_target: Count | None


class CacheLevel(TypedDict, total=False):
    """One level of the modelled caches."""

    name: str
    bytes: Count
    ways: Count
    line: Count
    accesses: Count
    hits: Count
    hit_rate: Share | None


class GatherHits(TypedDict, total=False):
    """Hits of the gathers of one SpMM."""

    name: str
    accesses: Count
    hit_rate: Share | None


class CacheModel(TypedDict, total=False):
    """Hit rates of the modelled caches."""

    model: str
    caches: str
    levels: list[CacheLevel]
    hit_rate: Share | None
    per_spmm: list[GatherHits]
    sampled: Share
    status: str


class SpmmFacts(TypedDict, total=False):
    """The size of one SpMM, and how often a timed call runs it."""

    name: str
    nnz: Required[Count]
    rows: Required[Count]
    columns: Required[Count]
    width: Required[Count]
    count: Count


class EngineFacts(TypedDict, total=False):
    """Facts of the engine's run; these keys are read by pages, engines add their own."""

    spmm: list[SpmmFacts]
    dense_flops: Amount
    parts: dict[str, Seconds]
    torch_calls: Amount
    variant: str
    batches_by: str
    overlaps: bool
    clock: str
    reducer_loads: list[Amount]
    servers: list[dict[str, Any]] | Scalar
    workers: list[dict[str, Any]] | Scalar


class Ceilings(TypedDict, total=False):
    """Rates of the machine: bytes and operations per second."""

    stream: Amount
    read: Amount
    triad: Amount
    flops: Amount
    gather: Amount
    kernel: str


class LimitFacts(TypedDict, total=False):
    """Ceilings of the machine, and the call's fractions of them."""

    ceilings: Ceilings
    flops: Amount
    bytes_best: Amount
    bytes_least: Amount
    bytes_worst: Amount
    dense_flops: Amount
    dense_seconds: Seconds
    dense_floor: Seconds
    attainable_seconds: Seconds
    xnr: Amount
    fraction_of_limit: Amount
    fraction_of_gather: Amount
    fraction_of_ceiling: Amount
    beaten: dict[str, Seconds]
    status: str  # why nothing was measured


SECTIONS: Mapping[str, type] = {
    "config": RecordedConfig,
    "dataset": DatasetFacts,
    "metrics": Metrics,
    "cache": CacheModel,
    "facts": EngineFacts,
    "limits": LimitFacts,
}
