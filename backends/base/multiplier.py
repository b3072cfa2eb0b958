"""The multiplier of every engine on torch, for scenario ``spmm``: one aggregation, forward and backward."""

from typing import Any

import torch
from torch import Tensor

from backends.base.operands import draw_operands
from backends.base.refusals import refuse_columns
from backends.contract import Clock, Floats, Unsupported
from backends.model import ModelSpec, TrainingSpec
from backends.registry import BackendConfig
from datasets.adjacency import Adjacency, adjacency_of
from datasets.graph import Graph


class TorchMultiplier:
    """A ``contract.Multiplier``: a weighted sum for gcn, a mean for sage, attention from given scores for gat.

    To define: ``structure(adjacency)``, ``aggregate(structure, x)`` and, for gat, ``attend(structure, operands)``.
    The timed region holds one forward and one backward pass through torch's autograd, operands and structure ready.
    """

    def __init__(self, config: BackendConfig) -> None:
        self.config: Any = config

    def structure(self, adjacency: Adjacency) -> Any:
        """Build the matrix or the edges in the form that the engine multiplies with."""
        raise TypeError(f"{type(self).__name__} must define structure")

    def aggregate(self, structure: Any, x: Tensor) -> Tensor:
        """Weighted sum (gcn) or mean (sage) of ``x`` over in-edges."""
        raise TypeError(f"{type(self).__name__} must define aggregate")

    def attend(self, structure: Any, operands: dict[str, Tensor]) -> Tensor:
        """Softmax of the leaky scores over in-edges, then the weighted sum of ``x``."""
        raise TypeError(f"{type(self).__name__} must define attend")

    def prepare(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, clock: Clock) -> None:
        """Build the structure and draw the operands; phases ``structure``, ``operands``.

        Raises Unsupported for weights or features of edges that the product does not read.
        """
        if graph.edge_features is not None:
            raise Unsupported("one aggregation reads no features of edges: leave out dataset.options.edge_features")
        refuse_columns(graph, spec)
        torch.set_num_threads(training.threads)
        self.spec, self.device, self.dtype = spec, torch.device(training.device), getattr(torch, training.dtype)
        with clock.phase("structure"):
            adjacency = adjacency_of(graph, spec.name, training.dtype)
            self.csr = adjacency.csr
            self.matrix = self.structure(adjacency)
        with clock.phase("operands"):
            drawn = draw_operands(*self.csr.shape, spec, training.seed)
            self.gradient = torch.from_numpy(drawn.pop("gradient")).to(self.device, self.dtype)
            tensors = {name: torch.from_numpy(value).to(self.device, self.dtype) for name, value in drawn.items()}
            self.operands = {name: value.requires_grad_() for name, value in tensors.items()}

    def multiply(self, clock: Clock) -> None:
        """Run one forward and one backward pass; phases ``forward``, ``backward``."""
        self._free_gradients()
        with clock.phase("forward"):
            if self.spec.name == "gat":
                self.out = self.attend(self.matrix, self.operands)
            else:
                self.out = self.aggregate(self.matrix, self.operands["x"])
        with clock.phase("backward"):
            self.out.backward(self.gradient)
            self.out = self.out.detach()

    def _free_gradients(self) -> None:
        for operand in self.operands.values():
            operand.grad = None

    def release(self) -> None:
        """Free the output and the gradients of the last ``multiply``."""
        self._free_gradients()
        self.out = self.gradient.new_empty(0)

    def products(self) -> tuple[Floats, dict[str, Floats]]:
        """The output of the last ``multiply``, and the gradient of each operand."""
        gradients = {name: value.grad for name, value in self.operands.items()}
        arrays = {name: value.cpu().numpy() for name, value in gradients.items() if value is not None}
        return self.out.cpu().numpy(), arrays

    def spmm_operands(self) -> list[dict[str, Any]]:
        """The two products: over in-edges, and back over out-edges."""
        shared = {"width": self.width, "itemsize": self.dtype.itemsize, "count": 1}
        back = self.csr.transpose[0]
        return [{"name": "forward", "csr": self.csr, **shared}, {"name": "backward", "csr": back, **shared}]

    @property
    def width(self) -> int:
        """Columns of what is aggregated."""
        return self.spec.hidden * (self.spec.heads if self.spec.name == "gat" else 1)

    def facts(self) -> dict[str, Any]:
        """Sizes of the two products, those of the forward matrix for both."""
        csr = self.csr
        sizes = {"nnz": csr.nnz, "rows": csr.shape[0], "columns": csr.shape[1], "width": self.width, "count": 1}
        return {"spmm": [{"name": name} | sizes for name in ("forward", "backward")]}

    def close(self) -> None:
        """Nothing runs between the calls."""
