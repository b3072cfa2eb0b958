"""Optimizers by name, over the parameters of a network or over the slice of them that a parameter server holds."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from backends.base.network import Network
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
    """Build the optimizer of a network, with decay on all parameters or on the first layer's."""
    decayed: list[nn.Parameter] = []
    undecayed: list[nn.Parameter] = []
    for name, (parameter, _) in network.canonical().items():
        (decayed if training.decay_on == "all" or name.startswith("layers.0.") else undecayed).append(parameter)
    return optimizer_over(decayed, undecayed, training)
