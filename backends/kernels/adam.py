"""One step of Adam over one parameter, in place (Kingma and Ba 2015, algorithm 1, with bias correction)."""

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


def adam(parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, rates: AdamRates) -> None:
    """Take a step: ``parameter`` and the running means of gradient and square, all of one shape, are written over."""
    for name, tensor in (("gradient", gradient), ("mean", mean), ("square", square)):
        check_values(name, tensor, like=parameter)
        if tensor.shape != parameter.shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}: the parameter has {tuple(parameter.shape)}")
    implementation("parameter", parameter).adam(parameter, gradient, mean, square, rates)
