"""Options of the partitioners of others."""

import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar, NamedTuple

from backends.model_names import MODELS
from backends.registry import BackendConfig
from backends.settings import setting


class Tool(NamedTuple):
    """Where a partitioner comes from."""

    package: str  # of Python; of Debian where it has programs
    runtime: str  # "module:Class" in this package
    programs: tuple[str, ...] = ()


METIS = Tool("pymetis", "metis:MetisPartitioner")
KAMINPAR = Tool("kaminpar", "kaminpar:KaminparPartitioner")
TOOLS = {
    "metis": METIS,
    "recursive": METIS,
    "kaminpar": KAMINPAR,
    "kaminpar_strong": KAMINPAR,
    "terapart": KAMINPAR,
    "mtkahypar": Tool("mtkahypar", "mtkahypar:MtKahyparPartitioner"),
    "kahip": Tool("kahip", "kahip:KahipPartitioner"),
    "ptscotch": Tool("ptscotch", "ptscotch:PtscotchPartitioner", ("dgpart", "mpirun")),
}


@dataclass
class PartitionersConfig(BackendConfig):
    """Partitioners of others on the undirected graph that ours gets, by ``tool``.

    METIS by pymetis, k-way (``metis``) or by recursive bisection (``recursive``), on one thread. KaMinPar with its
    default, its strong and its memory-saving settings. Mt-KaHyPar with its deterministic settings. KaHIP with its fast
    settings, on one thread. PT-Scotch with its default strategy, a process per thread.
    """

    name: str = "partitioners"
    tool: str = setting("metis", choices=tuple(TOOLS))

    runtimes: ClassVar[dict[str, str]] = {"partition": "backends.partitioners:partitioner"}
    models: ClassVar[tuple[str, ...]] = MODELS

    def __post_init__(self) -> None:
        """Raise ValueError for a tool that is not there."""
        if self.tool not in TOOLS:
            raise ValueError(f"backend.tool={self.tool!r} is not allowed: one of {', '.join(TOOLS)}")

    def missing(self, full_batch: bool = True) -> str | None:
        """Name the tool's package where it is not installed."""
        tool = TOOLS[self.tool]
        absent = [program for program in tool.programs if shutil.which(program) is None]
        if absent:
            return f"backend.tool={self.tool} needs the program {absent[0]}: apt install ptscotch openmpi-bin"
        if tool.programs:
            return None
        try:
            version(tool.package)
        except PackageNotFoundError:
            return f"backend.tool={self.tool} needs the package {tool.package}: pip install -e '.[partitioners]'"
        return None

    def packages_used(self, scenario: str, full_batch: bool) -> tuple[str, ...]:
        """The tool's package, if it is one of Python."""
        tool = TOOLS[self.tool]
        return () if tool.programs else (tool.package,)
