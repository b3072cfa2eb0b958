"""Training and inference with PyTorch Geometric."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from backends.base.inferrer import TorchInferrer
from backends.base.loss import loss_of
from backends.base.network import Network
from backends.base.refusals import refuse_fanouts
from backends.base.trainer import Batch, TorchTrainer
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Nodes
from backends.model import ModelSpec, State, TrainingSpec
from backends.pyg.loader import NeighbourBatches, batch_of, graph_data
from backends.pyg.neighbourhoods import KhopBatches
from backends.pyg.network import PygNetwork, Structure, whole_graph
from datasets.adjacency import adjacency_of
from datasets.csr import Csr, csr_from_edges
from datasets.graph import Graph

MAKERS = {"neighbor_loader": "PyG's NeighborLoader", "khop": "backends.kernels.khop: this project's code, not PyG's"}


class PygTrainer(TorchTrainer):
    """Full batches over one matrix; mini batches from NeighborLoader or ``khop``: all neighbours, or sampled ones."""

    draws_fanouts = True

    @property
    def variant(self) -> str:
        """The form that runs this model."""
        found: str = self.config.variant_for(self.spec.name)
        return found

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """See ``TorchTrainer``."""
        network = PygNetwork(spec, training)
        if self.variant == "compile":
            network.compile()
        return network

    def structure(self, graph: Graph) -> Structure:
        """See ``TorchTrainer``."""
        hop = whole_graph(adjacency_of(graph, self.spec.name), self.spec.name, self.variant)
        return Structure([hop] * self.spec.layers)

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Also compile, by one forward and backward pass whose traces ``load`` removes."""
        super().prepare(graph, spec, training, state, plan, clock)
        if self.variant == "compile":
            with clock.phase("compile"):
                self.model.train()
                torch.autograd.backward(loss_of(self.logits(self.full), self.batch_labels(self.full)))
                self.model.zero_grad(set_to_none=True)
                self.load(state)

    def prepare_structure(self) -> None:
        """See ``TorchTrainer``; a mini batch needs the sampler instead of a matrix."""
        if self.plan.full_batch:
            refuse_fanouts(self.spec, self.config.name, "set training.batch_size, or model.fanouts=[]")
        super().prepare_structure()
        if not self.plan.full_batch:
            self.loader = self._loader()

    def _loader(self) -> NeighbourBatches | KhopBatches:
        if self.config.batches_by == "khop":
            return KhopBatches(self.graph, self.spec)
        fanouts = list(self.spec.fanouts) or [-1] * self.spec.layers
        return NeighbourBatches(graph_data(self.graph, self.spec), fanouts, self.config.workers)

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """See ``TorchTrainer``; ``load`` is the wait for the sampler, ``vectorize`` the trimming."""
        if self.plan.full_batch:
            yield self.full
            return
        targets = self.plan.targets(index)
        with clock.phase("load"):
            sampled = self.loader.load(targets, self.training.seed + index)
        for mine in targets:
            with clock.phase("load"):
                data = next(sampled)
            with clock.phase("vectorize"):
                batch = self.batch_of(data, mine)
            yield batch

    def mini_batch(self, targets: Nodes) -> Batch:
        """See ``TorchTrainer``; with the definition's samples where this project's kernels draw them."""
        return self.batch_of(next(self.loader.load([targets], self.training.seed)), targets)

    def batch_of(self, data: Data, targets: Nodes) -> Batch:
        """The matrices of one sampled batch."""
        form = self.config.trim, self.variant, self.spec.name
        batch = batch_of(data, targets, self.spec.layers, *form, self.spec.fanouts)
        # khop counts ascending targets, once each
        first = data.n_id[: data.num_sampled_nodes[0]].numpy()
        return batch if np.array_equal(first, targets) else replace(batch, rows=_places(first, targets))

    def predict(self, graph: Graph, nodes: Nodes) -> Floats:
        """See ``TorchTrainer``; slices of an EdgeIndex do not exist in inference mode, so gradients are only off."""
        self.model.eval()
        with torch.no_grad():
            out: Floats = self.logits(self.full_batch(graph, np.ascontiguousarray(nodes))).numpy()
        return out

    def layer_csrs(self, structure: Structure) -> list[Csr]:
        """See ``TorchTrainer``."""
        return [_csr(hop.edges, hop.rows) if hop.csr is None else hop.csr for hop in structure.hops]

    def aggregates_first(self, layer: int) -> bool:
        """Whether PyG aggregates the input: SAGEConv always does, GCNConv and GATConv never do."""
        return self.spec.name == "sage"

    def facts(self) -> dict[str, Any]:
        """See ``TorchTrainer``; also the form that ran, and whose code made the mini batches."""
        found = super().facts() | {"variant": self.variant}
        return found if self.plan.full_batch else found | {"batches_by": MAKERS[self.config.batches_by]}


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
        """See ``TorchInferrer``; also the form that ran."""
        return super().facts() | {"variant": self.trainer.variant}
