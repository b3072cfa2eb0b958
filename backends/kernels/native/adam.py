"""Adam by the compiled extension: one pass over a parameter, its gradient and both means."""

from typing import Any

from torch import Tensor

from backends.kernels import plain
from backends.kernels.extension import arrays, extension, threads


def adam(parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, rates: Any) -> None:
    """Write the step over the parameter and both means."""
    if not (parameter.is_contiguous() and mean.is_contiguous() and square.is_contiguous()):
        plain.adam(parameter, gradient, mean, square, rates)
        return
    extension.adam(
        *arrays(parameter.detach(), gradient.contiguous(), mean, square), rates.decay, 1.0 - rates.beta1,
        1.0 - rates.beta2, rates.corrected_rate, 1.0 / rates.root, rates.epsilon, threads(),
    )  # fmt: skip
