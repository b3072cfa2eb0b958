"""One step of Adam over one parameter, in place (Kingma and Ba 2015, algorithm 1, with bias correction)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from backends.kernels.checks import check_values
from backends.kernels.dispatch import implementation


@dataclass(frozen=True)
class AdamRates:
    """Factors of the ``step``-th step, counted from 1; ``decay`` times the parameter is added to its gradient.

    The defaults are those of torch.optim.Adam.
    """

    step: int
    rate: float
    decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    @cached_property
    def corrected_rate(self) -> float:
        """The learning rate over 1 - beta1^step."""
        return self.rate / (1.0 - self.beta1**self.step)

    @cached_property
    def root(self) -> float:
        """The root of 1 - beta2^step, which divides the root of the mean square."""
        return float((1.0 - self.beta2**self.step) ** 0.5)


def adam_step(parameter: Tensor, mean: Tensor, square: Tensor) -> Callable[[Tensor, AdamRates], None]:
    """Return ``step(gradient, rates)`` of a parameter, which writes it and the running means of gradient and square.

    All are of one shape. The three stay where they are between steps: their memory is looked up once. Raises ValueError
    for another shape, type or device, also of a gradient.
    """
    for name, tensor in (("mean", mean), ("square", square)):
        _check(name, tensor, parameter)
    step: Callable[[Tensor, AdamRates], None] = implementation("parameter", parameter).adam_step(
        parameter.detach(), mean, square
    )

    def checked_step(gradient: Tensor, rates: AdamRates) -> None:
        _check("gradient", gradient, parameter)
        step(gradient, rates)

    return checked_step


def adam(parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, rates: AdamRates) -> None:
    """Take one step: ``parameter`` and the running means of gradient and square, all of one shape, are written over."""
    adam_step(parameter, mean, square)(gradient, rates)


def _check(name: str, tensor: Tensor, parameter: Tensor) -> None:
    check_values(name, tensor, like=parameter)
    if tensor.shape != parameter.shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: the parameter has {tuple(parameter.shape)}")
