"""Types of a cell's configuration: plain dataclasses, so that a measured process can read them without Hydra.

A field's ``setting`` declares its allowed values, and whether cells that differ in it are different cells.
"""

from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from backends.registry import BackendConfig, config_class
from backends.settings import FROM_THE_START, Setting, setting, settings_in
from harness.launcher.allocators import ALLOCATORS

T = TypeVar("T")
TRACKERS = ("none", "wandb")
BALANCED = ("nodes", "edges", "split", "types", "edges_by_type")


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
    layers: int = setting(2, least=1)
    hidden: int = setting(64, least=1)
    heads: int = setting(1, least=1)
    output_heads: int = setting(1, least=1)
    slope: float = 0.2
    head: str = setting("none", choices=("none", "linear"))
    fanouts: list[int] = field(default_factory=list)


@dataclass
class TrainingConfig:
    """How to train; ``batch_size=null`` is full batch, ``batch_limit`` keeps the first batches of an epoch."""

    optimizer: str = setting("adam", choices=("adam", "sgd"))
    rate: float = setting(0.01, least=0)
    decay: float = setting(0.0, least=0)
    decay_on: str = setting("all", choices=("all", "first"))
    dropout: float = setting(0.0, least=0)
    attention_dropout: float = setting(0.0, least=0)
    epochs: int = setting(200, least=1)
    patience: int = setting(0, least=0)
    evaluate_every: int = setting(1, least=1, for_engine=False)
    batch_size: int | None = setting(None, least=1, for_engine=False)
    batch_limit: int | None = setting(None, least=1, for_engine=False)
    dtype: str = setting("float32", choices=("float32", "float64", "tf32", "bf16"))


@dataclass
class ScenarioConfig:
    """What is measured; ``train_to_end`` adds the accuracy pass to ``train``.

    ``target`` is the validation score whose first epoch is reported. ``state`` names a file of trained parameters to
    start from, and ``state_sha256``, which is filled in, its content; ``save_state`` where the accuracy pass puts its
    best ones (``.npz`` or ``.safetensors``). ``partition`` has the others: ``parts``, whose loads of each name in
    ``balance`` are at most ``imbalance`` times the mean, and the ``objective``.
    """

    name: str = "train"
    train_to_end: bool = True
    target: float | None = None
    state: str | None = None
    state_sha256: str | None = setting(None, before=None)
    save_state: str | None = setting(None, executed=False)
    parts: int = setting(8, least=1, before=8)
    imbalance: float = setting(1.03, least=1, before=1.03)
    balance: list[str] = setting(factory=lambda: ["nodes"], before=["nodes"])
    objective: str = setting("cut", choices=("cut", "volume"), before="cut")

    def __post_init__(self) -> None:
        """Raise ValueError for loads that are not known."""
        if not self.balance or set(self.balance) - set(BALANCED):
            raise ValueError(f"scenario.balance={self.balance} is not allowed: some of {', '.join(BALANCED)}")

    @property
    def saved_state(self) -> str | None:
        """File of the parameters that the accuracy pass will write, or ``None``."""
        return self.save_state if self.name == "train" and self.train_to_end else None


@dataclass
class MeasureConfig:
    """How much is measured: counts, and seconds where the name says so; samples are those of all processes together."""

    processes: int = setting(5, least=1)
    warmup: int = setting(2, least=0)
    min_samples: int = setting(5, least=1)
    max_samples: int = setting(30, least=1)
    max_seconds: float = setting(60.0, least=0)
    repeat_seconds: float = setting(0.05, least=0)
    turn_seconds: float = setting(2.0, least=0)
    deadline_seconds: float = setting(3600.0, least=0, executed=False)
    group_seconds: float = setting(9000.0, least=0, executed=False)
    cache: str = setting("simulate", choices=("simulate", "none"))
    cache_accesses: int = setting(20_000_000, least=0)
    memory: bool = True
    limits: bool = True
    parity: bool = True


@dataclass
class LauncherConfig:
    """Where a cell runs: ``process`` (a child) or ``inline`` (this process, for tests: no speed)."""

    # labels name these two already
    name: str = setting("process", choices=("process", "inline"), before="process", labels=False)
    allocator: str = setting("tuned", choices=tuple(ALLOCATORS), labels=False)
    python: str | None = setting(None, executed=False, labels=True)
    memory_limit_gib: float | None = setting(None, least=0, executed=False)


@dataclass
class TrackerConfig:
    """The tracker to which records are sent, beside the results folder."""

    name: str = setting("none", choices=TRACKERS)
    mode: str = setting("offline", choices=("offline", "online"))
    project: str = "gnn-harness"


@dataclass
class RunConfig:
    """One cell and how to run it."""

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    order: OrderConfig = field(default_factory=OrderConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    backend: BackendConfig = setting(factory=BackendConfig, shared=False)
    scenario: ScenarioConfig = field(default_factory=ScenarioConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    launcher: LauncherConfig = setting(factory=LauncherConfig, shared=False)
    tracker: TrackerConfig = setting(factory=TrackerConfig, executed=False)
    ablations: dict[str, bool] = setting(factory=dict, executed=False)
    seed: int = setting(0, executed=False, shared=True)
    device: str = "cpu"
    threads: int = setting(2, least=1)
    results: str = setting("results", executed=False)
    dry_run: bool = setting(False, executed=False)
    wait: bool = setting(True, executed=False)
    retry: str = setting("failed", choices=("failed", "all", "none"), executed=False)
    suite: str | None = setting(None, executed=False)
    tier: str = setting("quick", choices=("quick", "full"), executed=False)

    @property
    def trains_no_mini_batches(self) -> bool:
        """Whether the engine needs nothing that draws mini batches."""
        return self.training.batch_size is None or self.scenario.name != "train"


@cache
def _settings() -> dict[str, Setting]:
    return {key: declared for key, declared, _ in settings_in(RunConfig())}


def _settings_above(key: str) -> list[Setting]:
    """Return the settings of a dotted key and of the sections that it lies in; an engine's own keys have none."""
    parts = key.split(".")
    names = (".".join(parts[: length + 1]) for length in range(len(parts)))
    return [_settings()[name] for name in names if name in _settings()]


def is_executed(key: str) -> bool:
    """Whether cells that differ in a dotted key are different cells."""
    return all(declared.executed for declared in _settings_above(key))


def was_implied(key: str, value: Any) -> bool:
    """Whether records from before a dotted key existed mean this value of it."""
    declared = _settings().get(key, Setting())
    return declared.before is not FROM_THE_START and bool(value == declared.before)


def is_label(key: str) -> bool:
    """Whether the value of a dotted key may distinguish rows of the same name."""
    return all(declared.labels for declared in _settings_above(key))


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
