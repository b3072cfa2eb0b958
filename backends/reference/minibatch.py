"""The definition of training in mini batches: optimizer steps in float64 on the definition's gradients."""

import torch
from torch import nn

from backends.base.optimizer import optimizer_over
from backends.batches import BatchPlan
from backends.model import ModelSpec, State, TrainingSpec
from backends.reference.definition import logits_and_loss
from datasets.graph import Graph


def train(
    graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, epochs: int
) -> tuple[list[float], State]:
    """Train ``epochs`` epochs of the plan without dropout; returns the mean loss of each and the parameters, float32.

    ``training.seed`` draws the model's fanouts, the same edges in every epoch. Each batch computes every layer on the
    whole graph, without search, merging or pruning.
    """
    parameters = {name: nn.Parameter(torch.from_numpy(value).double()) for name, value in state.items()}
    decayed = [
        value for name, value in parameters.items() if training.decay_on == "all" or name.startswith("layers.0.")
    ]
    undecayed = [value for value in parameters.values() if not any(value is other for other in decayed)]
    optimizer = optimizer_over(decayed, undecayed, training)
    losses = []
    for index in range(epochs):
        total = 0.0
        for targets in plan.targets(index):
            optimizer.zero_grad()
            loss = logits_and_loss(graph, spec, dict(parameters), targets, training.seed)[1]
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(targets)
        losses.append(total / sum(map(len, plan.targets(index))))
    return losses, {name: value.detach().float().numpy() for name, value in parameters.items()}
