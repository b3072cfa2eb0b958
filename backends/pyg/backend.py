"""Training and inference with PyTorch Geometric."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from backends.base.inferrer import TorchInferrer
from backends.base.network import Network
from backends.base.refusals import refuse_fanouts
from backends.base.trainer import Batch, TorchTrainer
from backends.batches import BatchPlan
from backends.contract import Clock, Nodes, Unsupported
from backends.model import ModelSpec, State, TrainingSpec
from backends.pyg.loader import NeighbourBatches, batch_of, graph_data
from backends.pyg.neighbourhoods import KhopBatches
from backends.pyg.network import PygNetwork, PygStructure, whole_graph
from backends.pyg.sampler import sampler_library
from datasets.adjacency import adjacency_of
from datasets.csr import Csr, csr_from_edges
from datasets.graph import Graph

BATCH_SOURCES = {
    "neighbor_loader": "PyG's NeighborLoader and its own sampler",
    "khop": "backends.kernels.khop: this project's code, not PyG's",
}


class PygTrainer(TorchTrainer):
    """Full batches over one matrix; mini batches from NeighborLoader or ``khop``: all neighbours, or sampled ones."""

    draws_fanouts = True

    @property
    def variant(self) -> str:
        """The variant that runs this model."""
        trains_batches = not (self.plan.full_batch or self.forward_only)
        variant: str = self.config.variant_for(self.spec.name, trains_batches)
        return variant

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """The network of PyG's convolutions, compiled if the variant says so."""
        network = PygNetwork(spec, training)
        if self.variant == "compile":
            network.compile()
        return network

    def structure(self, graph: Graph) -> PygStructure:
        """The whole graph, for each layer."""
        name, product = self.spec.name, self.spec.propagates
        hop = whole_graph(adjacency_of(graph, name), name, self.variant, self.device, product)
        return PygStructure([hop] * self.spec.layers)

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Also compile, by one forward and backward pass; ``load`` then resets parameters and random numbers."""
        super().prepare(graph, spec, training, state, plan, clock)
        if self.variant == "compile":
            with clock.phase("compile"):
                self.model.train()
                torch.autograd.backward(self.loss(self.logits(self.full), self.batch_labels(self.full)))
                self.model.zero_grad(set_to_none=True)
                self.load(state)

    def prepare_structure(self) -> None:
        """Build the whole graph's matrix for a full batch, the sampler for mini batches."""
        if self.plan.full_batch:
            refuse_fanouts(self.spec, self.config.name, "set training.batch_size, or model.fanouts=[]")
        super().prepare_structure()
        if not self.plan.full_batch:
            self.loader = self._loader()

    def _loader(self) -> NeighbourBatches | KhopBatches:
        if self.config.batches_by == "khop":
            return KhopBatches(self.graph, self.spec)
        if (reason := self.config.missing(full_batch=False)) is not None:
            raise Unsupported(reason)
        fanouts = list(self.spec.fanouts) or [-1] * self.spec.layers
        return NeighbourBatches(graph_data(self.graph, self.spec), fanouts, self.config.workers)

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """Yield the batches of an epoch; phase ``load`` is the wait for the sampler, ``vectorize`` the trimming."""
        if self.plan.full_batch:
            yield self.full
            return
        batches = self.plan.targets(index)
        with clock.phase("load"):
            samples = self.loader.load(batches, self.training.seed + index)
        for _ in batches:
            with clock.phase("load"):
                data = next(samples)
            with clock.phase("vectorize"):
                batch = self.batch_of(data)
            yield batch

    def mini_batch(self, targets: Nodes) -> Batch:
        """The batch that trains ``targets``; with ``khop`` its samples are those of the definition."""
        batch = self.batch_of(next(self.loader.load([targets], self.training.seed)))
        if np.array_equal(batch.targets, targets):
            return batch
        return replace(batch, targets=targets, rows=_places(batch.targets, targets))  # khop returns them ascending

    def batch_of(self, data: Data) -> Batch:
        """Build a batch from a sampled neighbourhood, whose first nodes are its targets, each once."""
        targets = data.n_id[: data.num_sampled_nodes[0]].numpy()
        form = self.config.trim, self.variant, self.spec.name
        return batch_of(data, targets, self.spec.layers, *form, self.spec.fanouts)

    def scores_edges(self, spec: ModelSpec, plan: BatchPlan) -> bool:
        """GATConv does in full batches over a list of edges; a CSR matrix has no features."""
        return plan.full_batch and self.config.variant_for("gat") in ("scatter", "edge_index")

    def layer_csrs(self, structure: PygStructure) -> list[Csr]:
        """The matrix of each layer."""
        return [_csr(hop.edges, hop.rows) if hop.csr is None else hop.csr for hop in structure.hops]

    def aggregates_first(self, layer: int) -> bool:
        """Whether PyG aggregates the input: SAGEConv always does, GCNConv and GATConv never do."""
        return self.spec.name == "sage"

    def facts(self) -> dict[str, Any]:
        """Sizes of products, the variant that ran, and whose code made the mini batches, with the library that drew."""
        facts = super().facts() | {"variant": self.variant}
        if self.plan.full_batch:
            return facts
        library = {} if self.config.batches_by == "khop" else {"library": sampler_library()}
        return facts | {"batches_by": BATCH_SOURCES[self.config.batches_by]} | library


def _places(ascending: Nodes, targets: Nodes) -> torch.Tensor:
    return torch.from_numpy(np.searchsorted(ascending, targets))


def _csr(edges: torch.Tensor, rows: int) -> Csr:
    if edges.layout == torch.sparse_csr:
        return Csr(edges.crow_indices().numpy(), edges.col_indices().numpy(), (rows, rows))
    sources, destinations = edges.numpy()
    return csr_from_edges(sources, destinations, (rows, rows))


class PygInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = PygTrainer
    trainer: PygTrainer

    def facts(self) -> dict[str, Any]:
        """Sizes of products, and the variant that ran."""
        return super().facts() | {"variant": self.trainer.variant}
