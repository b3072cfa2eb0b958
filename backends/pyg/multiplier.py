"""PyG's aggregation alone: GCNConv, SAGEConv and GATConv without their dense layers."""

from typing import Any

from torch import Tensor
from torch.nn import functional
from torch_geometric.utils import scatter, softmax

from backends.base.multiplier import TorchMultiplier
from backends.pyg.network import PygHop, weighted_sum, whole_graph
from datasets.adjacency import Adjacency


class PygMultiplier(TorchMultiplier):
    """SimpleConv over edges in the form of the variant; for gat GATConv's softmax, messages and scatter."""

    def structure(self, adjacency: Adjacency) -> PygHop:
        """The edges in the form of the variant."""
        return whole_graph(adjacency, self.spec.name, self.config.variant_for(self.spec.name), self.device)

    def aggregate(self, structure: PygHop, x: Tensor) -> Tensor:
        """Weighted sum or mean by SimpleConv."""
        return weighted_sum(x, structure, "mean" if self.spec.name == "sage" else "sum")

    def attend(self, structure: PygHop, operands: dict[str, Tensor]) -> Tensor:
        """Softmax, messages and scatter as in GATConv."""
        source, destination = structure.edges[0], structure.edges[1]
        score = operands["score_src"][source] + operands["score_dst"][destination]
        alpha = softmax(functional.leaky_relu(score, self.spec.slope), destination, num_nodes=structure.rows)
        messages = operands["x"][source] * alpha.unsqueeze(-1)
        out: Tensor = scatter(messages, destination, dim=0, dim_size=structure.rows, reduce="sum")
        return out

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and the variant that ran."""
        return super().facts() | {"variant": self.config.variant_for(self.spec.name)}
