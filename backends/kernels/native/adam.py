"""Adam by the compiled extension: one pass over a parameter, its gradient and both means."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd.graph import increment_version

from backends.kernels import plain
from backends.kernels.extension import arrays, extension, threads


def adam_step(parameter: Tensor, mean: Tensor, square: Tensor) -> Callable[[Tensor, Any], None]:
    """Return the step of a parameter; the views of its memory are those of all steps."""
    if not (parameter.is_contiguous() and mean.is_contiguous() and square.is_contiguous()):
        return plain.adam_step(parameter, mean, square)
    own, *means = arrays(parameter, mean, square)

    def step(gradient: Tensor, rates: Any) -> None:
        extension.adam(
            own, gradient.contiguous().numpy(), *means, rates.decay, 1.0 - rates.beta1, 1.0 - rates.beta2,
            rates.corrected_rate, 1.0 / rates.root, rates.epsilon, threads(),
        )  # fmt: skip
        increment_version((parameter, mean, square))  # the kernel writes through views that autograd does not see

    return step
