"""gcn (Kipf and Welling 2017) as a user would write it: ``-m backends/agl/models/gcn.py``."""

from typing import Any

import torch
from torch import Tensor, nn


class GcnLayer(nn.Module):
    """``D^-1/2 (A + I) D^-1/2 H W + b``, D the in-degree of A + I in the whole graph."""

    def __init__(self, width_in: int, width: int, last: bool) -> None:
        super().__init__()
        self.linear, self.bias = nn.Linear(width_in, width, bias=False), nn.Parameter(torch.zeros(width))
        self.last = last

    def send(self, h: Tensor) -> Tensor:
        """Transform an embedding."""
        out: Tensor = self.linear(h)
        return out

    def receive(self, h: Tensor, sent: Tensor, edges: Any) -> Tensor:
        """Sum the in-neighbours' messages with symmetric weights."""
        own, source = (_scale(1 + degrees) for degrees in (edges.degrees, edges.source_degrees))
        weight = source[edges.sources] * own[edges.destinations]
        if edges.weight is not None:
            weight = weight * edges.weight
        out: Tensor = edges.sum(sent, weight) + self.bias
        return out if self.last else torch.relu(out)


def _scale(degrees: Tensor) -> Tensor:
    """``d^-1/2``, 0 where negative weights leave no degree above 0."""
    return torch.where(degrees > 0, degrees.rsqrt(), torch.zeros(()))


class GcnModule(nn.Module):
    """As many layers as hops, and an edge from each node to itself."""

    self_loops = True

    def __init__(self, in_width: int, hidden: int, classes: int, layers: int) -> None:
        super().__init__()
        widths = [in_width, *[hidden] * (layers - 1), classes]
        self.layers = nn.ModuleList(GcnLayer(widths[k], widths[k + 1], k == layers - 1) for k in range(layers))


model = GcnModule
