"""Options of the AGL engine."""

from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from backends.registry import BackendConfig
from backends.settings import loss_setting, setting

INFER = ("graphinfer", "neighbourhood", "fullgraph")
MOST_ON_RAY = 1 << 10  # partitions: each round has results by their square, all of which Ray's driver keeps
RUN_ON = ("local", "ray")
SWITCHES = ("pruning", "partition", "pipeline", "sparse")
STRATEGIES = ("local", "sync", "async", "bounded", "allreduce")


@dataclass
class AglConfig(BackendConfig):
    """Options of GraphFlat, GraphTrainer and GraphInfer; the table in the README of this folder explains each."""

    name: str = "agl"
    source: str = setting("graph", choices=("graph", "graphfeature"))
    pruning: str = "auto"
    partition: str = "auto"
    unpartitioned: str = setting("serial", choices=("serial", "scattered"), before="serial")
    pipeline: str = "auto"
    sparse: str = setting("auto", before="true")
    pipeline_from: int = setting(3, least=1)
    loaders: int = setting(1, least=1, before=1)
    page_cache: str = setting("warm", choices=("warm", "cold"), before="warm")
    form: str = setting("tight", choices=("tight", "paper"))
    infer: str = setting("graphinfer", choices=INFER)
    partitions: int = setting(0, least=0)
    unmap: bool = False
    sampler: str = ""
    scope: str = setting("node", choices=("node", "target"))
    filter: str | None = None
    resample: bool = setting(False, before=False)
    features: str = setting("embedded", choices=("embedded", "shared"))
    sink: str = setting("disk", choices=("disk", "none"))
    run_on: str = setting("local", choices=RUN_ON)
    hub_threshold: int = 10_000
    workers: int = setting(1, least=1)
    strategy: str = setting("local", choices=STRATEGIES)
    servers: int = setting(1, least=0)
    staleness: int = setting(2, least=0)
    checkpoint_every: int = setting(100, least=0)
    loss: str = loss_setting("fused")
    capture: bool = setting(True, before=True)

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.agl.train.trainer:trainer_of",
        "infer": "backends.agl.infer.inferrer:inferrer",
        "flatten": "backends.agl.flat.flattener:AglFlattener",
        "sample": "backends.agl.sampled_graph:AglSampler",
    }
    models: ClassVar[tuple[str, ...]] = ("gcn", "sage", "gat")
    kind: ClassVar[str] = "native"
    draws: ClassVar[tuple[str, ...]] = ("train", "infer")
    ablations: ClassVar[dict[str, tuple[str, ...]]] = {switch: (switch,) for switch in SWITCHES}
    predictions: ClassVar[dict[str, str]] = {"speedup": "backends.agl.train.speedup:speedup_rows"}
    base: ClassVar[dict[str, Any]] = dict.fromkeys(SWITCHES, "false")
    lowers_workers = False  # to the number of targets: the gate's graphs have few

    def __post_init__(self) -> None:
        """Raise ValueError for options that do not go together; the settings above name what each may be."""
        if self.resample and self.source != "graph":
            raise ValueError(
                f"backend.resample=true cannot redraw samples stored by backend.source={self.source}: set false"
            )
        if self.page_cache == "cold" and (self.source == "graph" or self.strategy != "local"):
            raise ValueError(
                "backend.page_cache=cold drops the shards of one worker, which has backend.source=graphfeature and "
                f"backend.strategy=local: here they are {self.source} and {self.strategy}"
            )
        if self.strategy == "local" and self.workers > 1:
            others = ", ".join(STRATEGIES[1:])
            raise ValueError(f"workers={self.workers} needs a strategy of many workers: one of {others}")

    def for_parity_gate(self) -> "AglConfig":
        """The configuration for the gate: uniform sampling, one sample per node, no filter, a target per worker."""
        gate = replace(self, sampler="", scope="node", filter=None)
        gate.lowers_workers = True
        return gate

    def for_targets(self, targets: int) -> "AglConfig":
        """The configuration to train so many targets; raises ValueError for more workers, which the gate lowers."""
        if self.workers > targets and not self.lowers_workers:
            raise ValueError(f"workers={self.workers} is more than the {targets} targets to train: lower it")
        return replace(self, workers=max(1, min(self.workers, targets)))

    @property
    def takes_planned_batches(self) -> bool:
        """Not from shards, which are shuffled whole, and not on several workers, each with targets of its own."""
        return self.source == "graph" and self.workers == 1

    def seed_of_epoch(self, seed: int, epoch: int) -> int:
        """With ``resample`` each epoch draws anew."""
        return seed + epoch if self.resample else seed

    @property
    def steps_together(self) -> bool:
        """Not on several workers that push their gradients one by one."""
        return self.workers == 1 or self.strategy in ("sync", "allreduce")

    def missing(self, full_batch: bool = True) -> str | None:
        """Name Ray where it is not installed, if tasks or servers outside this process need it; or ``None``."""
        try:
            version("ray")
        except PackageNotFoundError:
            for option, instead in self.ray_options():
                return f"backend.{option} needs the package ray: pip install -e '.[ray]', or backend.{instead}"
        return None

    def ray_options(self) -> list[tuple[str, str]]:
        """The options that start tasks or servers outside this process, each with one that does not."""
        options = [("run_on=ray", "run_on=local")] if self.run_on == "ray" else []
        if self.strategy not in ("local", "allreduce") and self.servers:
            options.append((f"strategy={self.strategy}", "servers=0"))
        return options

    def packages_used(self, scenario: str, full_batch: bool) -> tuple[str, ...]:
        """Ray where tasks or servers need it, and PyArrow where shards are written or read."""
        shards = self.source == "graphfeature" or (scenario == "flatten" and self.sink == "disk")
        return (*self.packages, *("ray",) * bool(self.ray_options()), *("pyarrow",) * shards)
