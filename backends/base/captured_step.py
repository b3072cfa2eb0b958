"""A full-batch step that is recorded once and repeated: small graphs spend more time in Python than in kernels."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from backends.base.network import Network
from backends.kernels.recording import recorded

OTHER = -0.5  # times the parameters; below 0, as ReLU lets the same values pass for any factor above it


class CapturedStep:
    """The forward and the backward pass of one batch, as lists of kernels over memory that stays where it is."""

    def __init__(self, model: Network, loss_of_batch: Callable[[], Tensor]) -> None:
        self.model = model
        model.zero_grad(set_to_none=True)  # else gradients would be added to those there are
        with recorded() as self._forward:
            self.loss = loss_of_batch()
        with recorded() as self._backward:
            self.loss.backward()  # with a gradient of its own torch would import sympy: 40 MiB
        self.loss = self.loss.detach()
        self.gradients = [(one, one.grad) for one in model.parameters() if one.grad is not None]

    @torch.no_grad()
    def forward(self) -> None:
        """Compute the loss in the model's epoch."""
        self._forward.replay(self.model.epoch)

    @torch.no_grad()
    def backward(self) -> None:
        """Compute the gradients, and give each parameter its own."""
        self._backward.replay(self.model.epoch)
        for parameter, gradient in self.gradients:
            parameter.grad = gradient


def captured(model: Network, loss_of_batch: Callable[[], Tensor]) -> CapturedStep | None:
    """Record the step that computes ``loss_of_batch``, forward and backward; changes no parameter.

    A repeated step must equal a computed one to the bit, in another epoch and with other parameters than the recorded
    one. ``None`` where it does not: something in it is drawn anew each time, or is not computed by kernels and
    operations of torch.
    """
    epoch, drawn = model.epoch, torch.get_rng_state()
    values = [parameter.detach().clone() for parameter in model.parameters()]
    try:
        model.epoch = epoch + 1
        step = CapturedStep(model, loss_of_batch)
        model.epoch = epoch + 2
        _set(model, [OTHER * value for value in values])
        computed = _results(model, loss_of_batch, Tensor.backward)
        repeated = _results(model, lambda: _forward_of(step), lambda _: step.backward())
        return step if computed == repeated else None
    finally:
        model.epoch = epoch
        _set(model, values)
        torch.set_rng_state(drawn)
        model.zero_grad(set_to_none=True)


@torch.no_grad()
def _set(model: Network, values: Sequence[Tensor]) -> None:
    """Write parameters to the memory where they are."""
    for parameter, value in zip(model.parameters(), values, strict=True):
        parameter.copy_(value)


def _forward_of(step: CapturedStep) -> Tensor:
    step.forward()
    return step.loss


def _results(model: Network, forward: Callable[[], Tensor], backward: Callable[[Tensor], Any]) -> list[bytes]:
    """The bits of the loss and of all gradients of one step."""
    model.zero_grad(set_to_none=True)
    loss = forward()
    backward(loss)
    tensors = [loss, *(parameter.grad for parameter in model.parameters())]
    return [b"" if tensor is None else tensor.detach().numpy().tobytes() for tensor in tensors]
