"""Adam in plain torch."""

from typing import Any

import torch
from torch import Tensor


@torch.no_grad()
def adam(parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, rates: Any) -> None:
    """Write the step over the parameter and both means."""
    gradient = gradient + rates.decay * parameter
    mean.lerp_(gradient, 1.0 - rates.beta1)
    square.mul_(rates.beta2).addcmul_(gradient, gradient, value=1.0 - rates.beta2)
    parameter.addcdiv_(mean, square.sqrt() / rates.root + rates.epsilon, value=-rates.corrected_rate)
