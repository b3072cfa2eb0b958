"""The training loss of every engine on torch, in torch's operations or fused, and labels in the form that it takes."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from backends.contract import Nodes
from backends.kernels import binary_cross_entropy, cross_entropy
from datasets.graph import Graph


@dataclass(frozen=True)
class Targets:
    """Labels of n nodes: int64 classes [n], or float32 0/1 rows [n, classes].

    ``share`` is each entry's weight in the mean, 0 where the label is missing; ``None`` where none is missing.
    """

    values: Tensor
    share: Tensor | None = None

    @classmethod
    def of(cls, values: Tensor) -> "Targets":
        """Prepare labels whose missing entries are -1; missing classes stay -1, which cross entropy ignores."""
        if values.dim() == 1 or bool((values >= 0).all()):
            return cls(values)
        known = (values >= 0).to(values.dtype)
        return cls(values.clamp(min=0), known / known.sum().clamp(min=1))

    def to(self, device: torch.device) -> "Targets":
        """The same labels on a device."""
        return Targets(self.values.to(device), None if self.share is None else self.share.to(device))

    def __getitem__(self, rows: Tensor) -> "Targets":
        """Labels of the given rows, in their order."""
        values = self.values.index_select(0, rows)  # ten times as fast as indexing
        if self.share is None:
            return Targets(values)
        share = self.share.index_select(0, rows)
        return Targets(values, share / share.sum())


def loss_of(logits: Tensor, targets: Targets, form: str = "torch") -> Tensor:
    """Mean loss over the known labels: cross entropy for classes, binary cross entropy for 0/1 rows.

    ``form="fused"`` computes the loss together with its gradient, by this project's kernels.
    """
    if targets.values.dim() == 1:
        if form == "fused":
            return cross_entropy(logits, targets.values)
        return functional.cross_entropy(logits, targets.values, ignore_index=-1)
    if form == "fused":
        return binary_cross_entropy(logits, targets.values, targets.share)
    if targets.share is None:
        return functional.binary_cross_entropy_with_logits(logits, targets.values)
    # weights of 0 and 1 / known entries cost far less than selecting the known entries
    return functional.binary_cross_entropy_with_logits(logits, targets.values, targets.share, reduction="sum")


def targets_of(graph: Graph, nodes: Nodes, masked: Nodes | None = None, dtype: torch.dtype = torch.float32) -> Targets:
    """Labels of ``nodes`` as ``loss_of`` takes them, 0/1 rows in a type; those at positions ``masked`` are missing."""
    if graph.labels is None:
        raise ValueError(f"data set {graph.name} has no labels: scenario train needs them")
    kind = np.int64 if graph.labels.ndim == 1 else np.float32
    values = graph.labels[nodes].astype(kind)
    if masked is not None:
        values[masked] = -1
    labels = torch.from_numpy(values)
    return Targets.of(labels.to(dtype) if labels.is_floating_point() else labels)
