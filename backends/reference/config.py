"""Options of plain PyTorch as a baseline row."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from backends.model_names import MODELS
from backends.registry import BackendConfig
from backends.settings import input_setting, loss_setting

ATTENTION = ("scatter", "cached", "reduce_cached")
ON_CPU = ("reduce", "reduce_cached", "scipy")  # torch's product with reduce= runs on the CPU alone, as SciPy does
VARIANTS = ("usual", "csr", "cached", "reduce", "reduce_cached", "scatter", "scipy")


@dataclass
class ReferenceConfig(BackendConfig):
    """Plain PyTorch, or SciPy, without a graph library.

    ``csr`` is ``torch.sparse.mm`` and ``reduce`` its ``reduce=`` form, both with autograd's own backward; ``cached``
    and ``reduce_cached`` keep the transpose for it, ``scatter`` gathers and ``index_add``s, ``scipy`` multiplies with a
    ``csr_matrix``. gat has the forms ``scatter``, ``cached`` and ``reduce_cached``; the last two are products, sampled
    products and segment sums of torch with a backward pass written by hand. ``usual`` is what a user writes: ``csr``,
    and ``scatter`` for gat. ``input`` is dense, torch's CSR tensor with dropout on its values (``sparse``), or the same
    with a kept transpose (``cached``). ``loss=fused`` is the kernel of agl and blocksparse in place of torch's loss.
    """

    name: str = "reference"
    variant: str = "usual"
    input: str = input_setting("sparse", "cached")
    loss: str = loss_setting("torch")

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.reference.backend:ReferenceTrainer",
        "infer": "backends.reference.backend:ReferenceInferrer",
        "spmm": "backends.reference.backend:ReferenceMultiplier",
    }
    models: ClassVar[tuple[str, ...]] = MODELS
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def __post_init__(self) -> None:
        """Refuse an unknown variant."""
        if self.variant not in VARIANTS:
            raise ValueError(f"backend.variant={self.variant!r} is not allowed: one of {', '.join(VARIANTS)}")

    def variant_for(self, model: str) -> str:
        """Return the variant that runs a model: the configured one, or for ``usual`` the form that users write."""
        if self.variant != "usual":
            return self.variant
        return "scatter" if model == "gat" else "csr"

    def missing(self, full_batch: bool = True) -> str | None:
        """Also name SciPy where the variant needs it."""
        if self.variant == "scipy" and find_spec("scipy") is None:
            return "backend reference needs the package scipy for backend.variant=scipy: pip install scipy"
        return super().missing(full_batch)

    def packages_used(self, scenario: str, full_batch: bool) -> tuple[str, ...]:
        """SciPy where it multiplies."""
        return (*self.packages, *("scipy",) * (self.variant == "scipy"))

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Also refuse mini batches, as there is no neighbour loader, and variants with fixed weights for gat."""
        if model == "gat" and self.variant_for(model) not in ATTENTION:
            return f"backend reference has no {self.variant} form of gat: set backend.variant={', '.join(ATTENTION)}"
        if device != "cpu" and self.variant_for(model) in ON_CPU:
            return f"backend reference has no {self.variant} form on a GPU: set backend.variant=csr, cached or scatter"
        if scenario == "train" and not full_batch:
            return "backend reference trains full batches only: set training.batch_size=null"
        return super().unsupported(scenario, model, device, full_batch)
