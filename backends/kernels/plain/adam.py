"""Adam in plain torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def adam_step(parameter: Tensor, mean: Tensor, square: Tensor) -> Callable[[Tensor, Any], None]:
    """Return the step of a parameter."""

    @torch.no_grad()
    def step(gradient: Tensor, rates: Any) -> None:
        gradient = gradient + rates.decay * parameter
        mean.lerp_(gradient, 1.0 - rates.beta1)
        square.mul_(rates.beta2).addcmul_(gradient, gradient, value=1.0 - rates.beta2)
        parameter.addcdiv_(mean, square.sqrt() / rates.root + rates.epsilon, value=-rates.corrected_rate)

    return step
