"""Options of PyTorch Geometric."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from backends.registry import BackendConfig

VARIANTS = ("best", "edge_index", "csr", "compile")
WORKERS = (0, 1, 2)


@dataclass
class PygConfig(BackendConfig):
    """PyG's convolutions over an ``EdgeIndex``, over ``torch.sparse`` CSR, or compiled by ``torch.compile``.

    ``best`` is what was fastest here: ``csr`` for gcn and sage, ``edge_index`` for gat (README). Mini batches come
    from NeighborLoader with all neighbours, ``workers`` loader processes and, with ``trim``, ``trim_to_layer``.
    """

    name: str = "pyg"
    variant: str = "best"
    trim: bool = True
    workers: int = 0

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.pyg.backend:PygTrainer",
        "infer": "backends.pyg.backend:PygInferrer",
        "spmm": "backends.pyg.multiplier:PygMultiplier",
    }
    models: ClassVar[tuple[str, ...]] = ("gcn", "sage", "gat")
    packages: ClassVar[tuple[str, ...]] = ("torch_geometric",)

    def __post_init__(self) -> None:
        """Refuse values that no field allows."""
        for name, value, allowed in (("variant", self.variant, VARIANTS), ("workers", self.workers, WORKERS)):
            if value not in allowed:
                raise ValueError(f"backend.{name}={value!r} is not allowed: one of {', '.join(map(str, allowed))}")

    def variant_for(self, model: str) -> str:
        """Return the form that runs: ``variant``, or the fastest one of a model."""
        if self.variant != "best":
            return self.variant
        return "edge_index" if model == "gat" else "csr"

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Also refuse to compile mini batches: every batch has another shape."""
        if scenario == "spmm" and (self.variant == "compile" or (self.variant == "csr" and model == "gat")):
            return f"backend pyg has no {self.variant} form of one aggregation of {model}: set backend.variant=best"
        if self.variant == "compile" and scenario == "train" and not full_batch:
            return "backend pyg compiles full batches only: set backend.variant=best or training.batch_size=null"
        return super().unsupported(scenario, model, device, full_batch)

    def missing(self, full_batch: bool = True) -> str | None:
        """Also name the sampler that NeighborLoader needs for mini batches; neither has a wheel on PyPI."""
        samplers = ("pyg_lib",) if self.trim else ("pyg_lib", "torch_sparse")
        if full_batch or any(find_spec(name) for name in samplers):
            return super().missing(full_batch)
        return (
            f"backend pyg trains mini batches with NeighborLoader, which needs {' or '.join(samplers)}"
            f"{' (backend.trim=false also runs on torch_sparse)' if self.trim else ''}: build it, or name an "
            "interpreter that has it by launcher.python"
        )
