"""Options of plain PyTorch as a baseline row."""

from dataclasses import dataclass
from typing import ClassVar

from backends.registry import BackendConfig

VARIANTS = ("csr", "scatter")


@dataclass
class ReferenceConfig(BackendConfig):
    """Plain PyTorch as a user writes it: ``csr`` multiplies a sparse tensor, ``scatter`` gathers and ``index_add``s."""

    name: str = "reference"
    variant: str = "csr"

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.reference.backend:ReferenceTrainer",
        "infer": "backends.reference.backend:ReferenceInferrer",
        "spmm": "backends.reference.backend:ReferenceMultiplier",
    }
    models: ClassVar[tuple[str, ...]] = ("gcn", "sage", "gat")

    def __post_init__(self) -> None:
        """Refuse an unknown variant."""
        if self.variant not in VARIANTS:
            raise ValueError(f"backend.variant={self.variant!r} is not allowed: one of {', '.join(VARIANTS)}")

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Also refuse mini batches: plain PyTorch has no neighbour loader."""
        if scenario == "train" and not full_batch:
            return "backend reference trains full batches only: set training.batch_size=null"
        return super().unsupported(scenario, model, device, full_batch)
