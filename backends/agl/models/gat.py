"""gat (Velickovic et al. 2018), with features of edges where the data have some: ``-m backends/agl/models/gat.py``."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class GatLayer(nn.Module):
    """Attention over the in-neighbours and the row itself; inner layers concatenate heads, the last averages them."""

    def __init__(self, width_in: int, width: int, heads: int, edge_width: int, slope: float, last: bool) -> None:
        super().__init__()
        self.linear, self.bias = nn.Linear(width_in, heads * width, bias=False), nn.Parameter(torch.zeros(width))
        if not last:
            self.bias = nn.Parameter(torch.zeros(heads * width))
        self.source, self.own = (nn.Parameter(torch.randn(heads, width) / width**0.5) for _ in range(2))
        self.edge = nn.Linear(edge_width, heads, bias=False) if edge_width else None
        self.heads, self.slope, self.last = heads, slope, last

    def send(self, h: Tensor) -> dict[str, Tensor]:
        """Transform an embedding and score it as a source."""
        z = self.linear(h).unflatten(1, (self.heads, -1))
        return {"z": z, "score": (z * self.source).sum(2)}

    def receive(self, h: Tensor, sent: dict[str, Tensor], edges: Any) -> Tensor:
        """Attend over the in-neighbours and the row itself, whose edge has features of 0."""
        own = (self.linear(h).unflatten(1, (self.heads, -1)) * self.own).sum(2)
        of_edges = None if self.edge is None else self.edge(edges.features)
        out: Tensor = edges.attention(sent["z"], sent["score"], own, of_edges, self.slope)
        return out.mean(1) + self.bias if self.last else functional.elu(out.flatten(1) + self.bias)


class GatModule(nn.Module):
    """As many layers as hops, and an edge from each node to itself."""

    self_loops = True

    def __init__(
        self, in_width: int, hidden: int, classes: int, layers: int, heads: int, output_heads: int, slope: float,
        edge_width: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        inner = [GatLayer(in_width if k == 0 else heads * hidden, hidden, heads, edge_width, slope, False)
                 for k in range(layers - 1)]  # fmt: skip
        width = heads * hidden if inner else in_width
        self.layers = nn.ModuleList([*inner, GatLayer(width, classes, output_heads, edge_width, slope, True)])


model = GatModule
