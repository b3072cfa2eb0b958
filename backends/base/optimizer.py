"""Optimizers by name, over the parameters of a network or over the slice of them that a parameter server holds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from backends.base.network import Network
from backends.kernels import AdamRates, adam_step
from backends.kernels.profiling import named
from backends.model import TrainingSpec

KINDS: dict[str, Any] = {"adam": partial(torch.optim.Adam, fused=True), "sgd": torch.optim.SGD}


def optimizer_over(
    decayed: Sequence[nn.Parameter], undecayed: Sequence[nn.Parameter], training: TrainingSpec
) -> torch.optim.Optimizer:
    """Build the configured optimizer, with decay on the first list only; raises ValueError for an unknown name."""
    if training.optimizer not in KINDS:
        raise ValueError(f"optimizer {training.optimizer!r} is unknown: allowed are {', '.join(KINDS)}")
    groups = [{"params": decayed, "weight_decay": training.decay}, {"params": undecayed, "weight_decay": 0.0}]
    optimizer: torch.optim.Optimizer = KINDS[training.optimizer](
        [group for group in groups if group["params"]], lr=training.rate
    )
    return optimizer


def optimizer_of(network: Network, training: TrainingSpec) -> torch.optim.Optimizer:
    """Build torch's optimizer of a network, with decay on all parameters or on the first layer's."""
    return optimizer_over(*_by_decay(network, training), training)


def _by_decay(network: Network, training: TrainingSpec) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Parameters with and without decay."""
    decayed: list[nn.Parameter] = []
    undecayed: list[nn.Parameter] = []
    for name, (parameter, _) in network.canonical().items():
        (decayed if training.decay_on == "all" or name.startswith("layers.0.") else undecayed).append(parameter)
    return decayed, undecayed


@dataclass
class _Moments:
    """A parameter with its running means, and the number of steps that it took."""

    parameter: nn.Parameter
    decay: float
    mean: Tensor = field(init=False)
    square: Tensor = field(init=False)
    write: Callable[[Tensor, AdamRates], None] = field(init=False)
    steps: int = 0

    def __post_init__(self) -> None:
        self.mean, self.square = torch.zeros_like(self.parameter), torch.zeros_like(self.parameter)
        self.write = adam_step(self.parameter, self.mean, self.square)

    def step(self, rates_of: Callable[[int, float], AdamRates]) -> None:
        """Take a step, unless the parameter has no gradient; as in torch, it then counts none."""
        if self.parameter.grad is not None:
            self.steps += 1
            self.write(self.parameter.grad, rates_of(self.steps, self.decay))


class KernelAdam:
    """Adam of a network by our kernel: one call per parameter, where torch's takes a dozen whatever their size."""

    def __init__(self, network: Network, training: TrainingSpec) -> None:
        decayed, undecayed = _by_decay(network, training)
        self.moments = [_Moments(parameter, training.decay) for parameter in decayed]
        self.moments += [_Moments(parameter, 0.0) for parameter in undecayed]
        # a step's factors are those of most parameters
        self._rates = lru_cache(maxsize=4)(lambda steps, decay: AdamRates(steps, training.rate, decay))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for moments in self.moments:
            moments.parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The running means and steps of every parameter, in the order of the parameters."""
        return {"moments": [[one.mean, one.square, one.steps] for one in self.moments]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the running means and steps that ``state_dict`` returned."""
        for one, (mean, square, steps) in zip(self.moments, state["moments"], strict=True):
            one.mean.detach().copy_(mean)
            one.square.detach().copy_(square)
            one.steps = steps

    def step(self) -> None:
        """Take a step with all parameters that have a gradient; in a profile it is named as torch's."""
        with named("Optimizer.step#KernelAdam.step"):
            for moments in self.moments:
                moments.step(self._rates)
