"""Options of the full-batch engine."""

from dataclasses import dataclass
from typing import Any, ClassVar

from backends.registry import BackendConfig
from backends.settings import loss_setting, setting


@dataclass
class BlocksparseConfig(BackendConfig):
    """Our kernels over whole graphs in one process; ``loss=torch`` compares with the peers at equal losses."""

    name: str = "blocksparse"
    sparse: str = setting("auto", before="true")
    loss: str = loss_setting("fused")

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.blocksparse.backend:BlocksparseTrainer",
        "infer": "backends.blocksparse.backend:BlocksparseInferrer",
        "spmm": "backends.blocksparse.backend:BlocksparseMultiplier",
    }
    models: ClassVar[tuple[str, ...]] = ("gcn", "sage", "gat")
    kind: ClassVar[str] = "native"
    ablations: ClassVar[dict[str, tuple[str, ...]]] = {"sparse": ("sparse",)}
    base: ClassVar[dict[str, Any]] = {"sparse": "false"}

    def __post_init__(self) -> None:
        """Raise ValueError for a switch that is neither on nor off nor ``auto``."""
        self.sparse = str(self.sparse).lower()
        if self.sparse not in ("auto", "true", "false"):
            raise ValueError(f"backend.sparse={self.sparse!r} is not allowed: one of auto, true, false")

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Also refuse mini batches, which are backend agl's."""
        if scenario == "train" and not full_batch:
            return "backend blocksparse trains full batches only: set training.batch_size=null, or backend=agl"
        return super().unsupported(scenario, model, device, full_batch)
