"""Options of the AGL engine."""

from dataclasses import dataclass
from typing import Any, ClassVar

from backends.registry import BackendConfig

FORMS = ("tight", "paper")


@dataclass
class AglConfig(BackendConfig):
    """GraphTrainer's three optimisations as switches (section 3.3.2), and the form of pruning.

    ``source=graph`` feeds batches by k-hop search over the memory-mapped graph.
    """

    name: str = "agl"
    source: str = "graph"
    pruning: str = "auto"
    partition: str = "auto"
    pipeline: str = "auto"
    form: str = "tight"

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.agl.backend:AglTrainer",
        "infer": "backends.agl.backend:AglInferrer",
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
            *((switch, getattr(self, switch), ("auto", "true", "false")) for switch in self.ablations),
        ):
            if str(value).lower() not in allowed:
                raise ValueError(f"backend.{name}={value!r} is not allowed: one of {', '.join(allowed)}")
        for switch in self.ablations:
            setattr(self, switch, str(getattr(self, switch)).lower())
