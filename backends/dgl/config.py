"""Options of the Deep Graph Library."""

from dataclasses import dataclass
from typing import ClassVar

from backends.registry import BackendConfig

WORKERS = (0, 1, 2)


@dataclass
class DglConfig(BackendConfig):
    """DGL on int32 graphs whose formats are made beforehand; ``workers`` loader processes sample mini batches."""

    name: str = "dgl"
    workers: int = 0

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.dgl.backend:DglTrainer",
        "infer": "backends.dgl.backend:DglInferrer",
        "spmm": "backends.dgl.backend:DglMultiplier",
    }
    models: ClassVar[tuple[str, ...]] = ("gcn", "sage", "gat")
    packages: ClassVar[tuple[str, ...]] = ("dgl",)

    def __post_init__(self) -> None:
        """Refuse values that no field allows."""
        if self.workers not in WORKERS:
            allowed = ", ".join(map(str, WORKERS))
            raise ValueError(f"backend.workers={self.workers!r} is not allowed: one of {allowed}")
