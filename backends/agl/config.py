"""Options of the AGL engine."""

from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from backends.registry import BackendConfig
from backends.settings import setting

FORMS = ("tight", "paper")
INFER = ("graphinfer", "neighbourhood", "fullgraph")
SOURCES = ("graph", "graphfeature")
STRATEGIES = ("local", "sync", "async", "bounded", "allreduce")


@dataclass
class AglConfig(BackendConfig):
    """GraphTrainer's three optimisations as switches (section 3.3.2), and the form of pruning.

    The pipeline needs a thread of its own: a cell of fewer than ``pipeline_from`` makes batches between the steps.
    ``source=graph`` feeds batches by k-hop search over the memory-mapped graph, ``graphfeature`` from shards on disk
    that GraphFlat makes first. ``infer`` is how scores are made:
    GraphInfer's rounds over ``partitions`` pieces (0: by size), batches of neighbourhoods, or one full-graph pass;
    with ``unmap`` GraphInfer keeps one partition mapped at a time.

    GraphFlat and training sample by ``sampler`` ("": uniform by the model's fanouts), once per ``scope``, from the
    edges that ``filter`` leaves. GraphFlat draws once for all epochs; from memory ``resample`` draws anew in each, as
    the peers do. GraphFlat puts ``features`` in each record (``embedded``) or once per shard
    (``shared``). It runs in this process or as tasks (``run_on``), where a node of more in-edges than
    ``hub_threshold`` is spread over all reducers.

    ``strategy`` says how the gradients of ``workers`` come together: at parameter servers (``sync``, ``async``,
    ``bounded`` by ``staleness`` steps), by ``allreduce``, or not at all (``local``, one worker). ``servers`` are Ray
    actors; 0 keeps one in this process, and the workers as its threads. ``checkpoint_every`` counts updates.
    """

    name: str = "agl"
    source: str = "graph"
    pruning: str = "auto"
    partition: str = "auto"
    pipeline: str = "auto"
    pipeline_from: int = 3
    form: str = "tight"
    infer: str = "graphinfer"
    partitions: int = 0
    unmap: bool = False
    sampler: str = ""
    scope: str = "node"
    filter: str | None = None
    resample: bool = setting(False, before=False)
    features: str = "embedded"
    sink: str = "disk"
    run_on: str = "local"
    hub_threshold: int = 10_000
    workers: int = 1
    strategy: str = "local"
    servers: int = 1
    staleness: int = 2
    checkpoint_every: int = 100

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.agl.train.trainer:trainer_of",
        "infer": "backends.agl.infer.inferrer:inferrer",
        "flatten": "backends.agl.flat.flattener:AglFlattener",
        "sample": "backends.agl.sampler:AglSampler",
    }
    models: ClassVar[tuple[str, ...]] = ("gcn", "sage", "gat")
    engine: ClassVar[str] = "native"
    draws: ClassVar[tuple[str, ...]] = ("train", "infer")
    ablations: ClassVar[dict[str, tuple[str, ...]]] = {
        "pruning": ("pruning",),
        "partition": ("partition",),
        "pipeline": ("pipeline",),
    }
    predictions: ClassVar[dict[str, str]] = {"speedup": "backends.agl.train.curve:rows_of"}
    base: ClassVar[dict[str, Any]] = {"pruning": "false", "partition": "false", "pipeline": "false"}

    def __post_init__(self) -> None:
        """Refuse values that no field allows."""
        for name, value, allowed in (
            ("source", self.source, SOURCES),
            ("form", self.form, FORMS),
            ("infer", self.infer, INFER),
            ("scope", self.scope, ("node", "target")),
            ("features", self.features, ("embedded", "shared")),
            ("sink", self.sink, ("disk", "none")),
            ("run_on", self.run_on, ("local", "ray")),
            ("strategy", self.strategy, STRATEGIES),
            *((switch, getattr(self, switch), ("auto", "true", "false")) for switch in self.ablations),
        ):
            if str(value).lower() not in allowed:
                raise ValueError(f"backend.{name}={value!r} is not allowed: one of {', '.join(allowed)}")
        if self.partitions < 0:
            raise ValueError(f"backend.partitions={self.partitions} is not allowed: at least 1, or 0 to cut by size")
        for switch in self.ablations:
            setattr(self, switch, str(getattr(self, switch)).lower())
        self._check_numbers()

    def _check_numbers(self) -> None:
        least_of = {"workers": 1, "servers": 0, "staleness": 0, "checkpoint_every": 0, "pipeline_from": 1}
        for name, least in least_of.items():
            if getattr(self, name) < least:
                raise ValueError(f"backend.{name}={getattr(self, name)} is not allowed: at least {least}")
        if self.resample and self.source != "graph":
            raise ValueError(f"backend.resample=true cannot redraw what backend.source={self.source} stores: set false")
        if self.strategy != "local" and self.source != "graph":
            raise ValueError(f"backend.source={self.source} trains one worker: set backend.strategy=local")
        if self.strategy == "local" and self.workers > 1:
            others = ", ".join(STRATEGIES[1:])
            raise ValueError(f"backend.workers={self.workers} needs a backend.strategy: one of {others}")

    def checked(self) -> "AglConfig":
        """See ``BackendConfig``: uniform samples, one of each node."""
        return replace(self, sampler="", scope="node", filter=None)

    def missing(self, full_batch: bool = True) -> str | None:
        """See ``BackendConfig``: Ray runs tasks, and carries the servers unless they stay in this process."""
        needed = []
        if self.run_on == "ray":
            needed.append(("run_on=ray", "run_on=local"))
        if self.strategy not in ("local", "allreduce") and self.servers:
            needed.append((f"strategy={self.strategy}", "servers=0"))
        try:
            version("ray")
        except PackageNotFoundError:
            for given, instead in needed:
                return f"backend.{given} needs the package ray: pip install -e '.[ray]', or backend.{instead}"
        return None
