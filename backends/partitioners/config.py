"""Options of the partitioners of others."""

from dataclasses import dataclass
from typing import ClassVar

from backends.model_names import MODELS
from backends.registry import BackendConfig
from backends.settings import setting

TOOLS = ("metis", "recursive")


@dataclass
class PartitionersConfig(BackendConfig):
    """METIS by pymetis: k-way (``metis``) or by recursive bisection (``recursive``), on the graph that our own get."""

    name: str = "partitioners"
    tool: str = setting("metis", choices=TOOLS)

    runtimes: ClassVar[dict[str, str]] = {"partition": "backends.partitioners.backend:MetisPartitioner"}
    models: ClassVar[tuple[str, ...]] = MODELS
    packages: ClassVar[tuple[str, ...]] = ("pymetis",)

    def __post_init__(self) -> None:
        """Raise ValueError for a tool that is not there."""
        if self.tool not in TOOLS:
            raise ValueError(f"backend.tool={self.tool!r} is not allowed: one of {', '.join(TOOLS)}")
