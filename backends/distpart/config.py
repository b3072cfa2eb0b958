"""Options of our partitioner."""

from dataclasses import dataclass
from typing import ClassVar

from backends.model_names import MODELS
from backends.registry import BackendConfig
from backends.settings import setting

METHODS = ("multilevel", "fennel", "ldg", "random")


@dataclass
class DistpartConfig(BackendConfig):
    """Assignments of nodes to parts, the same for any number of threads.

    ``multilevel`` clusters and contracts the graph until it is small, cuts that, and refines the cut on every graph on
    the way back, ``cycles`` times. ``fennel`` and ``ldg`` stream the nodes, ``passes`` times. ``random`` hashes them.
    With ``memory``, in GiB, edges lie in files as far as they would exceed it; 0 is no bound.
    """

    name: str = "distpart"
    method: str = setting("multilevel", choices=METHODS)
    cycles: int = setting(1, least=1)
    passes: int = setting(1, least=1)
    memory: float = setting(0.0, least=0.0, before=0.0)

    runtimes: ClassVar[dict[str, str]] = {
        "partition": "backends.distpart.backend:DistPartitioner",
        "dispatch": "backends.distpart.dispatcher:DistDispatcher",
    }
    models: ClassVar[tuple[str, ...]] = MODELS
    kind: ClassVar[str] = "native"

    def __post_init__(self) -> None:
        """Raise ValueError for a method that is not there."""
        if self.method not in METHODS:
            raise ValueError(f"backend.method={self.method!r} is not allowed: one of {', '.join(METHODS)}")

    def packages_used(self, scenario: str, full_batch: bool) -> tuple[str, ...]:
        """METIS, which cuts the smallest graph of ``multilevel``."""
        return (*self.packages, *("pymetis",) * (self.method == "multilevel"))
