"""Training and inference with DGL."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from backends.base.inferrer import TorchInferrer
from backends.base.multiplier import TorchMultiplier
from backends.base.network import Network
from backends.base.refusals import refuse_fanouts
from backends.base.trainer import Batch, TorchTrainer
from backends.batches import BatchPlan
from backends.contract import Clock, Nodes
from backends.dgl.graphs import DglWholeGraph, LoopFreeGraph
from backends.dgl.network import DglHop, DglNetwork, DglStructure, aggregate, aggregates_first, attend
from backends.dgl.quiet import dgl, libxsmm_effect
from backends.dgl.sampling import DefinedSampler, NeighbourSampler
from backends.model import ModelSpec, State, TrainingSpec
from datasets.adjacency import SELF_LOOP_MODELS, Adjacency, adjacency_of
from datasets.csr import Csr, csr_from_edges
from datasets.graph import Graph


class TargetBatches(list[Tensor]):
    """The targets of each batch with their device, which DGL's DataLoader reads."""

    device = torch.device("cpu")


def load_blocks(graph: Any, targets: Sequence[Tensor], sampler: Any, workers: int) -> Iterator[Any]:
    """Sample the blocks of each batch of targets, in their order, in ``workers`` loader processes."""
    count = len(targets)
    if all(len(batch) == 1 for batch in targets):
        # DGL would take such a list for one tensor of nodes; the batch that prevents it is left out again.
        targets = [*targets, targets[0][:0]]
    options = {"batch_size": None, "num_workers": workers, "worker_init_fn": _seed_worker}
    loader = dgl.dataloading.DataLoader(graph, TargetBatches(targets), sampler, **options)
    with warnings.catch_warnings():
        # DGL warns that loaders should be pinned to cores of their own; here they share the cell's.
        warnings.simplefilter("ignore")
        return islice(iter(loader), count)


def _seed_worker(worker: int) -> None:
    """Seed DGL's generator in a loader process like torch's: else each epoch would draw from the state in this one."""
    dgl.seed(torch.initial_seed() & 0x7FFFFFFF)


class DglTrainer(TorchTrainer):
    """Full batches over one graph; mini batches from DGL's DataLoader, with all neighbours or those it samples."""

    draws_fanouts = True
    whole: DglWholeGraph | LoopFreeGraph

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """The network over DGL's kernels, which get the cell's number of threads."""
        dgl.utils.set_num_threads(training.threads)
        return DglNetwork(spec, training)

    def structure(self, graph: Graph) -> DglStructure:
        """The whole graph, for each layer."""
        return DglStructure([self.whole_graph(graph).hop()] * self.spec.layers)

    def whole_graph(self, graph: Graph) -> DglWholeGraph:
        """A graph in DGL's form, with the edges and weights of the model."""
        return DglWholeGraph(adjacency_of(graph, self.spec.name), self.config.variant == "weighted")

    def load(self, state: State) -> None:
        """Take over parameters, and seed DGL's own generator, which orders the nodes of a block."""
        super().load(state)
        dgl.seed(self.training.seed)

    def prepare_structure(self) -> None:
        """Build the whole graph for full batches, or what mini batches are sampled from."""
        if self.plan.full_batch:
            refuse_fanouts(self.spec, self.config.name, "set training.batch_size, or model.fanouts=[]")
        super().prepare_structure()
        if not self.plan.full_batch:
            self.sample_from_graph(list(self.spec.fanouts) or [-1] * self.spec.layers)
            self.features = self.input_of(self.graph.features)

    def sample_from_graph(self, fanouts: list[int]) -> None:
        """Build the graph to sample from, and the sampler; ``fanouts`` first layer first, -1 for all."""
        self.sampler = NeighbourSampler(fanouts)
        if self.spec.fanouts and self.spec.name in SELF_LOOP_MODELS:
            adjacency = adjacency_of(self.graph, self.spec.name)
            self.whole = LoopFreeGraph(self.graph.csr, adjacency, self.config.variant == "weighted")
        else:
            self.whole = self.whole_graph(self.graph)

    def sample_blocks(self, batches: list[Nodes], sampler: Any = None) -> Iterator[Any]:
        """Sample the blocks of each batch, in their order."""
        graph = self.whole.graph
        targets = [torch.from_numpy(nodes).to(graph.idtype) for nodes in batches]
        return load_blocks(graph, targets, sampler or self.sampler, self.config.workers)

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """Yield the batches of an epoch; phase ``load`` waits for the sampler, ``vectorize`` gathers and adds loops."""
        if self.plan.full_batch:
            yield self.full
            return
        batches = self.plan.targets(index)
        with clock.phase("load"):
            samples = self.sample_blocks(batches)
        for targets in batches:
            with clock.phase("load"):
                inputs, _, blocks = next(samples)
            with clock.phase("vectorize"):
                batch = self.batch_of(inputs, blocks, targets)
            yield batch

    def mini_batch(self, targets: Nodes) -> Batch:
        """The batch that trains ``targets``, on the definition's samples where the model has fanouts."""
        defined = DefinedSampler(self.graph.csr, self.spec.fanouts, self.training.seed) if self.spec.fanouts else None
        inputs, _, blocks = next(self.sample_blocks([targets], defined))
        return self.batch_of(inputs, blocks, targets)

    def batch_of(self, inputs: Tensor, blocks: list[Any], targets: Nodes) -> Batch:
        """Build a batch from sampled blocks: features, the graph's scale or weights, and loops that are not sampled."""
        hops = [self.whole.hop(block) for block in blocks]
        return Batch(DglStructure(hops), self.features.index_select(0, inputs), targets)

    def scores_edges(self, spec: ModelSpec, plan: BatchPlan) -> bool:
        """Yes, but in batches of sampled neighbours, whose self loops are added to each block."""
        return plan.full_batch or not spec.fanouts

    def layer_csrs(self, structure: DglStructure) -> list[Csr]:
        """The matrix of each layer."""
        return [_csr(hop.graph) if hop.csr is None else hop.csr for hop in structure.hops]

    def aggregates_first(self, layer: int) -> bool:
        """Whether DGL aggregates a layer's input."""
        return (layer > 0 or self.config.input == "dense") and aggregates_first(self.spec, layer)

    def facts(self) -> dict[str, Any]:
        """Sizes of products, the operation that aggregates, and the effect of libxsmm on this machine."""
        variant = self.config.variant_for(self.spec.name, self.graph.edge_weights is not None)
        return super().facts() | {"variant": variant, "libxsmm": libxsmm_effect()}


def _csr(graph: Any) -> Csr:
    sources, destinations = (ends.numpy() for ends in graph.edges(order="eid"))
    return csr_from_edges(sources, destinations, (graph.num_dst_nodes(), graph.num_src_nodes()))


class DglInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = DglTrainer


class DglMultiplier(TorchMultiplier):
    """``copy_u_sum`` between row scales (gcn), ``copy_u_mean`` (sage), ``u_mul_e_sum`` after ``edge_softmax`` (gat).

    With ``variant=weighted``, or edge weights, gcn is ``u_mul_e_sum`` too.
    """

    def structure(self, adjacency: Adjacency) -> DglHop:
        """The whole graph in DGL's form."""
        dgl.utils.set_num_threads(torch.get_num_threads())
        self.variant = self.config.variant_for(self.spec.name, adjacency.edge_weight is not None)
        return DglWholeGraph(adjacency, self.config.variant == "weighted").hop()

    def aggregate(self, structure: DglHop, x: Tensor) -> Tensor:
        """Weighted or scaled sum, or mean, by one of DGL's operations."""
        return aggregate(x, structure)

    def attend(self, structure: DglHop, operands: dict[str, Tensor]) -> Tensor:
        """Attention by DGL's operations."""
        scores = (operands[name].unsqueeze(-1) for name in ("score_src", "score_dst"))
        return attend(structure.graph, operands["x"], *scores, self.spec.slope, 0.0)

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and the operation that aggregates."""
        return super().facts() | {"variant": self.variant}
