"""Dense floor of an epoch: the seconds of its layers and loss without any aggregation."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from backends.kernels import binary_cross_entropy
from backends.model import ModelSpec, State
from datasets.graph import Graph
from harness.measure.ceilings import best_of


def dense_floor(spec: ModelSpec, graph: Graph, state: State, threads: int) -> float:
    """Seconds of forward, loss and backward over all nodes of ``graph``, each with itself as only neighbour.

    Plain torch with the fused multi-label loss, best of some calls; attention is 1, and there is no dropout and no step
    of the optimizer. Needs features and labels.
    """
    torch.set_num_threads(threads)
    parameters = {name: torch.from_numpy(np.array(value)).requires_grad_() for name, value in state.items()}
    features, labels = (torch.from_numpy(np.array(part)) for part in (graph.features, graph.labels))

    def epoch() -> None:
        for parameter in parameters.values():
            parameter.grad = None
        logits = features
        for layer in range(spec.layers):
            logits = _layer(spec, parameters, layer, logits)
        if "head.weight" in parameters:
            logits = torch.addmm(parameters["head.bias"], logits, parameters["head.weight"])
        _loss(logits, labels).backward()  # type: ignore[no-untyped-call]

    labels = labels.float().clamp(min=0) if graph.task == "multilabel" else labels.long()
    return best_of(epoch)


def _layer(spec: ModelSpec, parameters: dict[str, Tensor], layer: int, hidden: Tensor) -> Tensor:
    bias = parameters[f"layers.{layer}.bias"]
    if spec.name == "sage":
        itself = torch.addmm(bias, hidden, parameters[f"layers.{layer}.weight_self"])
        out = itself + hidden @ parameters[f"layers.{layer}.weight_neigh"]
    elif spec.name == "gat" and spec.is_last(layer):
        heads = hidden @ parameters[f"layers.{layer}.weight"]
        out = heads.view(len(hidden), spec.heads_of(layer), -1).mean(1) + bias
    else:
        out = torch.addmm(bias, hidden, parameters[f"layers.{layer}.weight"])
    if spec.is_last(layer):
        return out
    return functional.elu(out) if spec.activation() == "elu" else functional.relu(out)


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    if labels.ndim == 2:
        return binary_cross_entropy(logits, labels)
    return functional.cross_entropy(logits, labels, ignore_index=-1)
