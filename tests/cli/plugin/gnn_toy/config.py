"""Options of the toy engine; imports no framework, so that listing and validating stay quick."""

from dataclasses import dataclass
from typing import ClassVar

from backends.registry import BackendConfig
from backends.settings import setting


@dataclass
class ToyConfig(BackendConfig):
    """gcn over a dense matrix, in ``form`` of one product or of one per row; ``scale`` other than 1 is wrong."""

    name: str = "toy"
    form: str = setting("product", choices=("product", "rows"))
    scale: float = setting(1.0, least=0)

    runtimes: ClassVar[dict[str, str]] = {"train": "gnn_toy.engine:ToyTrainer", "infer": "gnn_toy.engine:ToyInferrer"}
    models: ClassVar[tuple[str, ...]] = ("gcn",)
    kind: ClassVar[str] = "native"

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Also refuse mini batches."""
        if scenario == "train" and not full_batch:
            return "backend toy trains full batches only: set training.batch_size=null"
        return super().unsupported(scenario, model, device, full_batch)
