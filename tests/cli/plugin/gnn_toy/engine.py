"""gcn over a dense matrix."""

import torch
from torch import Tensor

from backends.base.inferrer import TorchInferrer
from backends.base.network import Network
from backends.base.trainer import TorchTrainer
from backends.model import ModelSpec, TrainingSpec
from datasets.adjacency import adjacency_of
from datasets.csr import Csr
from datasets.graph import Graph

Structure = tuple[Csr, Tensor]


class ToyNetwork(Network):
    """``A (H W) + b`` in every layer."""

    form, scale = "product", 1.0

    def convolve(self, layer: int, hidden: Tensor, structure: Structure) -> Tensor:
        """Apply one convolution without its activation."""
        matrix, sent = structure[1], hidden @ self.parameter(layer, "weight")
        gathered = matrix @ sent if self.form == "product" else torch.stack([row @ sent for row in matrix])
        return self.scale * gathered + self.parameter(layer, "bias")


class ToyTrainer(TorchTrainer):
    """Full-batch training."""

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """Build the network in the configured form."""
        network = ToyNetwork(spec, training)
        network.form, network.scale = self.config.form, self.config.scale
        return network

    def structure(self, graph: Graph) -> Structure:
        """Return the normalised matrix, sparse for the facts and dense to multiply with."""
        adjacency = adjacency_of(graph, self.spec.name)
        places = [
            torch.from_numpy(ends.astype("int64")) for ends in (adjacency.csr.destinations, adjacency.csr.indices)
        ]
        matrix = torch.zeros(adjacency.csr.shape)
        return adjacency.csr, matrix.index_put_(tuple(places), torch.from_numpy(adjacency.weight), accumulate=True)

    def layer_csrs(self, structure: Structure) -> list[Csr]:
        """Return the matrix of each layer, from which facts and the cache model are made."""
        return [structure[0]] * self.spec.layers

    def aggregates_first(self, layer: int) -> bool:
        """Say that the output of a layer is aggregated, not its input."""
        return False


class ToyInferrer(TorchInferrer):
    """One pass over the whole graph."""

    trainer_class = ToyTrainer
