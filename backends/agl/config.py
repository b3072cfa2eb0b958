"""Options of the AGL engine."""

from dataclasses import dataclass
from typing import Any, ClassVar

from backends.registry import BackendConfig

FORMS = ("tight", "paper")
INFER = ("graphinfer", "neighbourhood", "fullgraph")


@dataclass
class AglConfig(BackendConfig):
    """GraphTrainer's three optimisations as switches (section 3.3.2), and the form of pruning.

    ``source=graph`` feeds batches by k-hop search over the memory-mapped graph. ``infer`` is how scores are made:
    GraphInfer's rounds over ``partitions`` pieces (0: by size), batches of neighbourhoods, or one full-graph pass.

    GraphFlat samples by ``sampler`` ("": uniform by the model's fanouts), once per ``scope``, from the edges that
    ``filter`` leaves; ``features`` stand in each record (``embedded``) or once per shard (``shared``).
    """

    name: str = "agl"
    source: str = "graph"
    pruning: str = "auto"
    partition: str = "auto"
    pipeline: str = "auto"
    form: str = "tight"
    infer: str = "graphinfer"
    partitions: int = 0
    sampler: str = ""
    scope: str = "node"
    filter: str | None = None
    features: str = "embedded"
    sink: str = "disk"

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.agl.backend:AglTrainer",
        "infer": "backends.agl.infer.inferrer:inferrer",
        "flatten": "backends.agl.flat.flattener:AglFlattener",
    }
    models: ClassVar[tuple[str, ...]] = ("gcn", "sage", "gat")
    engine: ClassVar[str] = "native"
    ablations: ClassVar[dict[str, tuple[str, ...]]] = {
        "pruning": ("pruning",),
        "partition": ("partition",),
        "pipeline": ("pipeline",),
    }
    base: ClassVar[dict[str, Any]] = {"pruning": "false", "partition": "false", "pipeline": "false"}

    def __post_init__(self) -> None:
        """Refuse values that no field allows."""
        for name, value, allowed in (
            ("source", self.source, ("graph",)),
            ("form", self.form, FORMS),
            ("infer", self.infer, INFER),
            ("scope", self.scope, ("node", "target")),
            ("features", self.features, ("embedded", "shared")),
            ("sink", self.sink, ("disk", "null")),
            *((switch, getattr(self, switch), ("auto", "true", "false")) for switch in self.ablations),
        ):
            if str(value).lower() not in allowed:
                raise ValueError(f"backend.{name}={value!r} is not allowed: one of {', '.join(allowed)}")
        if self.partitions < 0:
            raise ValueError(f"backend.partitions={self.partitions} is not allowed: at least 1, or 0 to cut by size")
        for switch in self.ablations:
            setattr(self, switch, str(getattr(self, switch)).lower())
