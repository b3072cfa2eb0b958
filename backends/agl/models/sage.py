"""sage with mean aggregation and the "add" combine (AGL, section 4.1.2): ``-m backends/agl/models/sage.py``."""

from typing import Any

import torch
from torch import Tensor, nn


class SageLayer(nn.Module):
    """``H W_self + mean(H) W_neigh + b``."""

    def __init__(self, width_in: int, width: int, last: bool) -> None:
        super().__init__()
        self.own, self.neighbours = nn.Linear(width_in, width), nn.Linear(width_in, width, bias=False)
        self.last = last

    def send(self, h: Tensor) -> Tensor:
        """Transform an embedding."""
        out: Tensor = self.neighbours(h)
        return out

    def receive(self, h: Tensor, sent: Tensor, edges: Any) -> Tensor:
        """Add the mean of the messages to the transformed own embedding."""
        out: Tensor = self.own(h) + edges.mean(sent)
        return out if self.last else torch.relu(out)


class SageModule(nn.Module):
    """As many layers as hops."""

    def __init__(self, in_width: int, hidden: int, classes: int, layers: int) -> None:
        super().__init__()
        widths = [in_width, *[hidden] * (layers - 1), classes]
        self.layers = nn.ModuleList(SageLayer(widths[k], widths[k + 1], k == layers - 1) for k in range(layers))


model = SageModule
