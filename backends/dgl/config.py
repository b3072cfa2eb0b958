"""Options of the Deep Graph Library."""

from dataclasses import dataclass
from typing import ClassVar

from backends.model_names import MODELS
from backends.registry import BackendConfig
from backends.settings import input_setting, loss_setting, setting

VARIANTS = ("best", "weighted", "int64")
WORKERS = (0, 1, 2)
INFER = ("full", "layerwise")


@dataclass
class DglConfig(BackendConfig):
    """DGL on int32 graphs, whose formats are created in ``prepare``.

    Mini batches have all neighbours, or those that DGL's sampler draws anew for every batch by the model's fanouts, in
    ``workers`` loader processes; the parity gate trains a batch of the definition's samples. ``best`` runs gcn as
    ``copy_u_sum`` between two scalings of the rows, ``weighted`` as ``u_mul_e_sum`` with gcn's weights on the edges;
    ``int64`` samples on wider ids, for scenario ``sample`` alone. ``infer`` is one pass over the whole graph, or each
    layer in batches of one-hop blocks. ``input=sparse`` gives the first layer torch's CSR tensor, with dropout on its
    values. ``loss=fused`` is the kernel of agl and blocksparse in place of torch's loss.
    ``part_method`` assigns nodes to parts, in scenarios ``partition`` and ``dispatch``.
    """

    name: str = "dgl"
    variant: str = "best"
    input: str = input_setting("sparse")
    workers: int = 0
    infer: str = "full"
    loss: str = loss_setting("torch")
    part_method: str = setting("metis", choices=("metis", "random"), before="metis")

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.dgl.backend:DglTrainer",
        "infer": "backends.dgl.layerwise:inferrer",
        "sample": "backends.dgl.sampler:DglSampler",
        "spmm": "backends.dgl.backend:DglMultiplier",
        "partition": "backends.dgl.partitioner:DglPartitioner",
        "dispatch": "backends.dgl.partitioner:DglDispatcher",
    }
    models: ClassVar[tuple[str, ...]] = MODELS
    packages: ClassVar[tuple[str, ...]] = ("dgl",)
    wheels: ClassVar[str] = ", with Python 3.11, the last one that dgl 1.1.3 has wheels for"
    draws: ClassVar[tuple[str, ...]] = ("train",)
    draws_in_epochs: ClassVar[bool] = False  # they use DGL's own sampler

    def __post_init__(self) -> None:
        """Raise ValueError for a value that its field does not allow."""
        options = ("variant", self.variant, VARIANTS), ("workers", self.workers, WORKERS), ("infer", self.infer, INFER)
        for name, value, allowed in options:
            if value not in allowed:
                raise ValueError(f"backend.{name}={value!r} is not allowed: one of {', '.join(map(str, allowed))}")

    def variant_for(self, model: str, weighted: bool = False) -> str:
        """Name the operation that aggregates, over a graph that has edge weights if ``weighted``."""
        if model == "sage":
            return "copy_u_mean"
        return "u_mul_e_sum" if model == "gat" or weighted or self.variant == "weighted" else "copy_u_sum"

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Also refuse variant ``weighted`` for other models than gcn, and variants that the scenario does not have."""
        if self.input == "sparse" and (not full_batch or self.infer == "layerwise"):
            return "backend dgl takes sparse features for full batches only: set backend.input=dense"
        if self.variant != "best" and (self.variant == "int64") != (scenario == "sample"):
            return f"backend dgl has no {self.variant} form of scenario {scenario}: set backend.variant=best"
        if self.variant == "weighted" and model != "gcn":
            return f"backend dgl has one form of {model}, backend.variant=weighted is of gcn: set backend.variant=best"
        return super().unsupported(scenario, model, device, full_batch)
