"""PyG's aggregation alone: GCNConv, SAGEConv and GATConv without their dense layers."""

from typing import Any

from torch import Tensor
from torch.nn import functional
from torch_geometric import EdgeIndex
from torch_geometric.utils import scatter, softmax

from backends.base.multiplier import TorchMultiplier
from backends.pyg.network import PygHop, weighted_sum, whole_graph
from datasets.adjacency import Adjacency


class PygMultiplier(TorchMultiplier):
    """The product of an EdgeIndex or SimpleConv, by variant; for gat GATConv's softmax, messages and scatter."""

    @property
    def variant(self) -> str:
        """The variant that runs this model."""
        variant: str = self.config.variant_for(self.spec.name, product=True)
        return variant

    def structure(self, adjacency: Adjacency) -> PygHop:
        """The edges in the form of the variant."""
        model = self.spec.name
        return whole_graph(adjacency, model, self.variant, self.device, product=model != "gat")

    def aggregate(self, structure: PygHop, x: Tensor) -> Tensor:
        """Weighted sum or mean by an EdgeIndex's ``matmul`` or SimpleConv."""
        return weighted_sum(x, structure, "mean" if self.spec.name == "sage" else "sum")

    def attend(self, structure: PygHop, operands: dict[str, Tensor]) -> Tensor:
        """Softmax, messages and scatter as in GATConv."""
        edges, (source, destination) = structure.edges, structure.edges.unbind()
        starts = edges.get_csc()[0][0] if isinstance(edges, EdgeIndex) else None
        own = operands["score_dst"].index_select(0, destination)
        score = functional.leaky_relu(operands["score_src"].index_select(0, source) + own, self.spec.slope)
        alpha = softmax(score, destination, starts, structure.rows)
        messages = operands["x"].index_select(0, source) * alpha.unsqueeze(-1)
        out: Tensor = scatter(messages, destination, dim=0, dim_size=structure.rows, reduce="sum")
        return out

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and the variant that ran."""
        return super().facts() | {"variant": self.variant}
