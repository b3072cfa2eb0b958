"""A model's layers on torch, with parameters of canonical names; engines define the convolutions."""

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from backends.base.propagation import propagated
from backends.base.sparse_tensor import drop
from backends.model import ModelSpec, State, TrainingSpec


class Network(nn.Module):
    """A model's layers in order, with canonical parameters; subclasses define ``convolve``.

    Those whose parameters belong to modules of another framework override ``make_parameters`` and ``canonical``.
    """

    def __init__(self, spec: ModelSpec, training: TrainingSpec) -> None:
        super().__init__()
        self.spec, self.settings = spec, training
        self.epoch = 0  # that masks of dropout belong to, where they are a hash
        self.generator: torch.Generator | None = None  # of random numbers that are drawn in training; None: torch's own
        self.activation = functional.elu if spec.activation() == "elu" else functional.relu
        self.make_parameters()

    def make_parameters(self) -> None:
        """Create the parameters, empty; ``load`` fills them."""
        shapes = self.spec.parameters().items()
        self.tensors = nn.ParameterDict(
            {name.replace(".", "/"): nn.Parameter(torch.empty(shape)) for name, shape in shapes}
        )

    def canonical(self) -> dict[str, tuple[nn.Parameter, bool]]:
        """Map each canonical name to its parameter and whether that is stored transposed."""
        return {name: (self.tensors[name.replace(".", "/")], False) for name in self.spec.parameters()}

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """Apply one convolution without its activation."""
        raise TypeError(f"{type(self).__name__} must define convolve")

    def layer(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """Apply one convolution and, unless it is the last, its activation; engines that fuse them override this."""
        hidden = self.convolve(layer, hidden, structure)
        return hidden if self.spec.is_last(layer) else self.activation(hidden)

    def propagate(self, x: Tensor, structure: Any) -> Tensor:
        """Multiply by the model's matrix, for models of propagations."""
        raise TypeError(f"{type(self).__name__} must define propagate")

    def transform(self, rows: Any, weight: Tensor) -> Tensor:
        """Multiply input rows by a weight, for models of propagations."""
        out: Tensor = rows @ weight
        return out

    def parameter(self, layer: int, name: str) -> Tensor:
        """Return one canonical parameter of a layer."""
        return self.tensors[f"layers/{layer}/{name}"]

    def forward(self, features: Any, structure: Any, nodes: Tensor | None = None) -> Tensor:
        """Compute the logits of all output rows of the last layer; ``nodes`` numbers the input rows."""
        hidden = features
        if self.spec.propagates:
            hidden = self.drop(hidden) if self.training and self.settings.dropout > 0 else hidden
            return self.logits_of(propagated(self, hidden, partial(self.propagate, structure=structure)))
        for layer in range(self.spec.layers):
            if self.training and self.settings.dropout > 0:
                hidden = self.drop(hidden)
            hidden = self.layer(layer, hidden, structure)
        return self.logits_of(hidden)

    def drop(self, hidden: Any) -> Any:
        """Drop entries of a layer's input by torch's random numbers."""
        return drop(hidden, self.settings.dropout)

    def logits_of(self, hidden: Tensor) -> Tensor:
        """Turn the last convolution's output into logits."""
        if self.spec.head == "none":
            return hidden
        (weight, transposed), (bias, _) = (self.canonical()[f"head.{name}"] for name in ("weight", "bias"))
        return hidden @ (weight.T if transposed else weight) + bias

    def load(self, state: State) -> None:
        """Take over canonical parameters."""
        with torch.no_grad():
            for name, (parameter, transposed) in self.canonical().items():
                value = torch.from_numpy(np.array(state[name]))
                parameter.copy_((value.T if transposed else value).reshape(parameter.shape))

    def state(self) -> State:
        """Copy the parameters under their canonical names and shapes."""
        parameters = self.canonical().items()
        return {name: self._export(name, parameter.detach(), flip) for name, (parameter, flip) in parameters}

    def gradients(self) -> State:
        """Copy the gradients under their canonical names and shapes; zero for parameters that have none."""
        gradients = {}
        for name, (parameter, flip) in self.canonical().items():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            gradients[name] = self._export(name, gradient, flip)
        return gradients

    def _export(self, name: str, value: Tensor, transposed: bool) -> NDArray[np.float32]:
        array: NDArray[np.float32] = (value.T if transposed else value).cpu().numpy().copy()
        return array.reshape(self.spec.parameters()[name])
