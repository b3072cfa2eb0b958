"""Options of the partitioners of others."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

from backends.model_names import MODELS
from backends.registry import BackendConfig
from backends.settings import setting

KAMINPAR = ("kaminpar", "kaminpar_strong", "terapart")
PACKAGES = dict.fromkeys(("metis", "recursive"), "pymetis") | dict.fromkeys(KAMINPAR, "kaminpar")


@dataclass
class PartitionersConfig(BackendConfig):
    """Partitioners of others on the undirected graph that ours gets, by ``tool``.

    METIS by pymetis, k-way (``metis``) or by recursive bisection (``recursive``), on one thread. KaMinPar with its
    default, its strong and its memory-saving settings.
    """

    name: str = "partitioners"
    tool: str = setting("metis", choices=tuple(PACKAGES))

    runtimes: ClassVar[dict[str, str]] = {"partition": "backends.partitioners:partitioner"}
    models: ClassVar[tuple[str, ...]] = MODELS

    def __post_init__(self) -> None:
        """Raise ValueError for a tool that is not there."""
        if self.tool not in PACKAGES:
            raise ValueError(f"backend.tool={self.tool!r} is not allowed: one of {', '.join(PACKAGES)}")

    def missing(self, full_batch: bool = True) -> str | None:
        """Name the tool's package where it is not installed."""
        package = PACKAGES[self.tool]
        try:
            version(package)
        except PackageNotFoundError:
            return f"backend.tool={self.tool} needs the package {package}: pip install -e '.[partitioners]'"
        return None
