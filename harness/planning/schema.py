"""Types of a cell's configuration; plain dataclasses, so that a measured process can read them without Hydra."""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from backends.registry import BackendConfig, config_class

T = TypeVar("T")


@dataclass
class DatasetConfig:
    """A data set by name; ``options`` go to its loader (scale, seed, paths of user tables)."""

    name: str = "???"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class OrderConfig:
    """A renumbering of the vertices by name; ``options`` go to it."""

    name: str = "none"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class ModelConfig:
    """A model's shape; its input width and classes come from the data set."""

    name: str = "???"
    layers: int = 2
    hidden: int = 64
    heads: int = 1
    output_heads: int = 1
    slope: float = 0.2
    head: str = "none"
    fanouts: list[int] = field(default_factory=list)


@dataclass
class TrainingConfig:
    """How to train; ``batch_size=null`` is full batch, ``batch_limit`` keeps the first batches of an epoch."""

    optimizer: str = "adam"
    rate: float = 0.01
    decay: float = 0.0
    decay_on: str = "all"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    epochs: int = 200
    patience: int = 0
    evaluate_every: int = 1
    batch_size: int | None = None
    batch_limit: int | None = None
    dtype: str = "float32"


@dataclass
class ScenarioConfig:
    """What is measured; ``train_to_end`` adds the accuracy pass to ``train``.

    ``target`` is the validation score whose first epoch is reported. ``state`` names a file of trained parameters to
    start from; ``save_state`` where the accuracy pass puts its best ones (``.npz`` or ``.safetensors``).
    """

    name: str = "train"
    train_to_end: bool = True
    target: float | None = None
    state: str | None = None
    save_state: str | None = None


@dataclass
class MeasureConfig:
    """How much is measured: counts, and seconds where the name says so."""

    warmup: int = 2
    min_samples: int = 5
    max_samples: int = 30
    max_seconds: float = 60.0
    repeat_seconds: float = 0.05
    deadline_seconds: float = 3600.0
    cache: str = "simulate"
    cache_accesses: int = 20_000_000
    memory: bool = True
    limits: bool = True
    parity: bool = True


@dataclass
class LauncherConfig:
    """Where a cell runs: ``process`` (a child) or ``inline`` (this process, for tests)."""

    name: str = "process"
    allocator: str = "tuned"
    python: str | None = None
    memory_limit_gib: float | None = None


@dataclass
class TrackerConfig:
    """Where records are shown beside the results folder."""

    name: str = "none"
    mode: str = "offline"
    project: str = "gnn-harness"


@dataclass
class RunConfig:
    """One cell and how to run it."""

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    order: OrderConfig = field(default_factory=OrderConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    backend: BackendConfig = field(default_factory=BackendConfig)
    scenario: ScenarioConfig = field(default_factory=ScenarioConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    launcher: LauncherConfig = field(default_factory=LauncherConfig)
    tracker: TrackerConfig = field(default_factory=TrackerConfig)
    ablations: dict[str, bool] = field(default_factory=dict)
    seed: int = 0
    device: str = "cpu"
    threads: int = 2
    results: str = "results"
    dry_run: bool = False
    wait: bool = True
    retry: str = "failed"
    suite: str | None = None
    tier: str = "quick"


def from_dict(kind: type[T], values: dict[str, Any]) -> T:
    """Build a dataclass from plain values, nested ones too; a backend's class is found by its name."""
    hints = get_type_hints(kind)
    unknown = set(values) - {item.name for item in fields(kind)}  # type: ignore[arg-type]
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
    built = {name: _value(hints[name], value) for name, value in values.items()}
    return kind(**built)


def _value(hint: Any, value: Any) -> Any:
    if hint is BackendConfig:
        return from_dict(config_class(value["name"]), value)
    if is_dataclass(hint) and isinstance(hint, type):
        return from_dict(hint, value)
    if isinstance(value, list) and tuple in (getattr(arg, "__origin__", arg) for arg in (hint, *get_args(hint))):
        return tuple(value)
    return value
