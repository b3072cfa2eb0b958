"""Options of PyTorch Geometric."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from backends.model_names import MODELS, PROPAGATIONS
from backends.registry import BackendConfig
from backends.settings import input_setting, loss_setting

VARIANTS = ("best", "edge_index", "csr", "scatter", "torch_sparse", "compile")
WORKERS = (0, 1, 2)
INFER = ("full", "layerwise")
SAMPLERS = ("pyg_lib", "torch_sparse")  # NeighborLoader needs one of them; neither has a wheel on PyPI
LOADERS = ("auto", "neighbor_loader", "khop")
# Variants that cannot run scenario spmm: for gcn and sage, for gat.
NO_AGGREGATION = (("compile",), ("compile", "csr", "torch_sparse"))


@dataclass
class PygConfig(BackendConfig):
    """PyG's convolutions in the forms that a user may choose.

    ``scatter`` is PyG's default path, messages gathered over a plain edge list; ``edge_index`` an ``EdgeIndex``,
    ``csr`` a ``torch.sparse`` matrix, ``torch_sparse`` a SparseTensor, ``compile`` the default by ``torch.compile``.
    ``best`` was the fastest here: ``csr`` for gcn and sage, ``edge_index`` for gat and for products without a layer,
    ``scatter`` in gat's mini batches. NeighborLoader makes mini batches in ``workers`` loader processes, with all
    neighbours or as many as the model's fanouts: the fanout of a node is that of its distance from the target, in every
    layer.
    ``trim`` applies ``trim_to_layer``. With ``loader=khop``,
    and with ``auto`` where NeighborLoader's sampler is not installed, this project's kernels make the same batches: the
    time to load is then ours and not PyG's. ``infer`` is one pass over the whole graph, or each layer in batches of
    one-hop blocks. ``input=sparse`` gives the first layer torch's CSR tensor, with dropout on its values.
    ``loss=fused`` is the kernel of agl and blocksparse in place of torch's loss.
    """

    name: str = "pyg"
    variant: str = "best"
    input: str = input_setting("sparse")
    trim: bool = True
    workers: int = 0
    loader: str = "auto"
    infer: str = "full"
    loss: str = loss_setting("torch")

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.pyg.backend:PygTrainer",
        "infer": "backends.pyg.layerwise:inferrer",
        "sample": "backends.pyg.sampler:PygSampler",
        "spmm": "backends.pyg.multiplier:PygMultiplier",
    }
    models: ClassVar[tuple[str, ...]] = MODELS
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    packages: ClassVar[tuple[str, ...]] = ("torch_geometric",)

    def __post_init__(self) -> None:
        """Raise ValueError for a value that its field does not allow."""
        options = [("variant", self.variant, VARIANTS), ("workers", self.workers, WORKERS)]
        for name, value, allowed in [*options, ("loader", self.loader, LOADERS), ("infer", self.infer, INFER)]:
            if value not in allowed:
                raise ValueError(f"backend.{name}={value!r} is not allowed: one of {', '.join(map(str, allowed))}")

    def variant_for(self, model: str, mini_batches: bool = False, product: bool = False) -> str:
        """Return the variant that runs a model or its ``product`` alone: as configured, for ``best`` the fastest."""
        if self.variant != "best":
            return self.variant
        if model != "gat":
            return "edge_index" if product or model in PROPAGATIONS else "csr"
        return "scatter" if mini_batches else "edge_index"

    @property
    def draws(self) -> tuple[str, ...]:  # type: ignore[override]
        """The scenarios that draw the definition's edges: ``train``, where ``khop`` makes the batches."""
        return ("train",) if self.batches_by == "khop" else ()

    def seed_of_epoch(self, seed: int, epoch: int) -> int:
        """Each epoch draws anew."""
        return seed + epoch

    def unsupported(self, scenario: str, model: str, device: str, full_batch: bool) -> str | None:
        """Also refuse variants that a scenario or mini batches cannot run; compiled code needs one shape."""
        if self.input == "sparse" and (model == "sage" or not full_batch or self.infer == "layerwise"):
            return "backend pyg takes sparse features for full batches of gcn and gat only: set backend.input=dense"
        if scenario == "spmm" and self.variant in NO_AGGREGATION[model == "gat"]:
            return f"backend pyg has no {self.variant} form of one aggregation of {model}: set backend.variant=best"
        if device != "cpu" and (scenario == "sample" or not full_batch or self.infer == "layerwise"):
            return "backend pyg samples and cuts batches on the CPU: on a GPU set training.batch_size=null"
        if self.variant == "compile" and scenario == "infer" and self.infer == "layerwise":
            return "backend pyg compiles whole passes only: set backend.infer=full or backend.variant=best"
        if self.workers and scenario == "sample":
            return "backend pyg has no loader processes in scenario sample: set backend.workers=0"
        if self.variant in ("compile", "torch_sparse") and scenario == "train" and not full_batch:
            allowed = "set backend.variant=best or training.batch_size=null"
            return f"backend pyg runs {self.variant} on full batches only: {allowed}"
        return super().unsupported(scenario, model, device, full_batch)

    def packages_used(self, scenario: str, full_batch: bool) -> tuple[str, ...]:
        """Also the samplers of PyG's own mini batches and of scenario ``sample``, and the package of its variant."""
        samples = scenario == "sample" or (scenario == "train" and not full_batch and self.loader != "khop")
        return (*self.packages, *SAMPLERS * samples, *("torch_sparse",) * (self.variant == "torch_sparse"))

    def unsupported_here(self, scenario: str, full_batch: bool) -> str | None:
        """Refuse loader processes where ``khop`` makes the mini batches, as it does where PyG's samplers are absent."""
        if self.workers and self.batches_by == "khop" and scenario == "train" and not full_batch:
            return "backend pyg has no loader processes where khop makes the batches: set backend.workers=0"
        return super().unsupported_here(scenario, full_batch)

    @property
    def batches_by(self) -> str:
        """The source of mini batches: ``neighbor_loader`` or ``khop``."""
        if self.loader != "auto":
            return self.loader
        return "neighbor_loader" if any(map(find_spec, SAMPLERS)) else "khop"

    def missing(self, full_batch: bool = True) -> str | None:
        """Also name the sampler that NeighborLoader needs for mini batches."""
        if self.variant == "torch_sparse" and find_spec("torch_sparse") is None:
            return "backend pyg needs the package torch_sparse for backend.variant=torch_sparse: PyPI has its sources"
        if full_batch or self.batches_by == "khop" or any(map(find_spec, SAMPLERS)):
            return super().missing(full_batch)
        return (
            f"backend pyg trains mini batches with NeighborLoader, which needs {' or '.join(SAMPLERS)}: make peers "
            "builds one into an interpreter of its own for launcher.python; or set backend.loader=khop"
        )
