"""Options of the full-batch engine."""

from dataclasses import dataclass
from typing import ClassVar

from backends.registry import BackendConfig
from backends.settings import loss_setting


@dataclass
class BlocksparseConfig(BackendConfig):
    """Our kernels over whole graphs in one process; ``loss=torch`` compares with the peers at equal losses."""

    name: str = "blocksparse"
    loss: str = loss_setting("fused")

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.blocksparse.backend:BlocksparseTrainer",
        "infer": "backends.blocksparse.backend:BlocksparseInferrer",
        "spmm": "backends.blocksparse.backend:BlocksparseMultiplier",
    }
    models: ClassVar[tuple[str, ...]] = ("gcn", "sage", "gat")
    kind: ClassVar[str] = "native"

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Also refuse mini batches, which are backend agl's."""
        if scenario == "train" and not full_batch:
            return "backend blocksparse trains full batches only: set training.batch_size=null, or backend=agl"
        return super().unsupported(scenario, model, device, full_batch)
