"""Training and inference with DGL."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.base.inferrer import TorchInferrer
from backends.base.multiplier import TorchMultiplier
from backends.base.network import Network
from backends.base.refusals import refuse_fanouts
from backends.base.trainer import Batch, TorchTrainer
from backends.contract import Clock, Nodes
from backends.dgl.network import DglNetwork, Hop, Structure, aggregate, aggregates_first, attend
from backends.dgl.quiet import dgl, graph_of, libxsmm_effect
from backends.dgl.sampling import DefinedSampler, LoopsAfterwards, NeighbourSampler
from backends.model import ModelSpec, State, TrainingSpec
from datasets.adjacency import SELF_LOOP_MODELS, Adjacency, adjacency_of
from datasets.csr import Csr, csr_from_edges
from datasets.graph import Graph


class WholeGraph:
    """A graph as DGL holds it, with gcn's row scale or, where edges have weights or ``weighted``, edge weights."""

    def __init__(self, adjacency: Adjacency, weighted: bool) -> None:
        self.graph, self.csr = graph_of(adjacency.csr), adjacency.csr
        weighted = weighted or adjacency.edge_weight is not None
        self.weight = _column(adjacency.weight) if weighted else None
        self.scale = None if weighted else _column(adjacency.inverse_sqrt_degree)

    def hop(self, block: Any = None) -> Hop:
        """What a layer over a sampled block, or over the whole graph, runs over."""
        if block is None:
            return Hop(self.graph, self.csr.shape[0], self.scale, self.weight)
        scale = None if self.scale is None else self.scale[block.srcdata[dgl.NID]]
        weight = None if self.weight is None else self.weight[block.edata[dgl.EID]]
        return Hop(block, block.num_dst_nodes(), scale, weight)


class TargetBatches(list[Tensor]):
    """The targets of each batch, as DGL's DataLoader asks for them: with the device they are on."""

    device = torch.device("cpu")


def loaded(graph: Any, targets: Sequence[Tensor], sampler: Any, workers: int) -> Iterator[Any]:
    """Sample the blocks of each batch of targets, in their order, in ``workers`` loader processes."""
    loader = dgl.dataloading.DataLoader(graph, TargetBatches(targets), sampler, batch_size=None, num_workers=workers)
    with warnings.catch_warnings():
        # It advises to pin loaders to cores of their own; here they share the cell's.
        warnings.simplefilter("ignore")
        return iter(loader)


class DglTrainer(TorchTrainer):
    """Full batches over one graph; mini batches from DGL's DataLoader, with all neighbours or those it samples."""

    draws_fanouts = True
    loops: LoopsAfterwards | None = None

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """See ``TorchTrainer``; also gives DGL's kernels the cell's threads."""
        dgl.utils.set_num_threads(training.threads)
        return DglNetwork(spec, training)

    def structure(self, graph: Graph) -> Structure:
        """See ``TorchTrainer``."""
        return Structure([self.whole_graph(graph).hop()] * self.spec.layers)

    def whole_graph(self, graph: Graph) -> WholeGraph:
        """A graph as the model's layers run over it."""
        return WholeGraph(adjacency_of(graph, self.spec.name), self.config.variant == "weighted")

    def load(self, state: State) -> None:
        """See ``TorchTrainer``; DGL's own generator decides in which order a block's nodes stand."""
        super().load(state)
        dgl.seed(self.training.seed)

    def prepare_structure(self) -> None:
        """See ``TorchTrainer``; mini batches are sampled from the whole graph."""
        if self.plan.full_batch:
            refuse_fanouts(self.spec, self.config.name, "set training.batch_size, or model.fanouts=[]")
        super().prepare_structure()
        if not self.plan.full_batch:
            self.whole = self.whole_graph(self.graph)
            self.features = torch.from_numpy(np.array(self.graph.features, dtype=np.float32))
            self.sampler = NeighbourSampler(list(self.spec.fanouts) or [-1] * self.spec.layers)
            if self.spec.fanouts and self.spec.name in SELF_LOOP_MODELS:
                self.loops = LoopsAfterwards(self.graph.csr)

    def sampled(self, batches: list[Nodes], sampler: Any = None) -> Iterator[Any]:
        """Sample the blocks of each batch, in their order."""
        graph = self.whole.graph if self.loops is None else self.loops.graph
        targets = [torch.from_numpy(mine).to(graph.idtype) for mine in batches]
        return loaded(graph, targets, sampler or self.sampler, self.config.workers)

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """See ``TorchTrainer``; ``load`` is the wait for the sampler, ``vectorize`` the gather of features."""
        if self.plan.full_batch:
            yield self.full
            return
        targets = self.plan.targets(index)
        with clock.phase("load"):
            sampled = self.sampled(targets)
        for mine in targets:
            with clock.phase("load"):
                inputs, _, blocks = next(sampled)
            with clock.phase("vectorize"):
                batch = self.batch_of(inputs, blocks, mine)
            yield batch

    def mini_batch(self, targets: Nodes) -> Batch:
        """See ``TorchTrainer``; fanouts keep the definition's edges, whom the gate knows, not those of an epoch."""
        defined = DefinedSampler(self.graph.csr, self.spec.fanouts, self.training.seed) if self.spec.fanouts else None
        inputs, _, blocks = next(self.sampled([targets], defined))
        return self.batch_of(inputs, blocks, targets)

    def batch_of(self, inputs: Tensor, blocks: list[Any], targets: Nodes) -> Batch:
        """Gather the features of sampled blocks, and gcn's scale or weights of the whole graph."""
        hops = [self.whole.hop(block if self.loops is None else self.loops.added(block)) for block in blocks]
        return Batch(Structure(hops), self.features.index_select(0, inputs), targets)

    def layer_csrs(self, structure: Structure) -> list[Csr]:
        """See ``TorchTrainer``."""
        return [_csr(hop.graph) for hop in structure.hops]

    def aggregates_first(self, layer: int) -> bool:
        """See ``TorchTrainer``."""
        return aggregates_first(self.spec, layer)

    def facts(self) -> dict[str, Any]:
        """See ``TorchTrainer``; also what aggregates, and what libxsmm gives on this machine."""
        variant = self.config.variant_for(self.spec.name)
        return super().facts() | {"variant": variant, "libxsmm": libxsmm_effect()}


def _column(values: Any) -> Tensor | None:
    return None if values is None else torch.from_numpy(np.array(values, dtype=np.float32))[:, None]


def _csr(graph: Any) -> Csr:
    sources, destinations = (ends.numpy() for ends in graph.edges(order="eid"))
    return csr_from_edges(sources, destinations, (graph.num_dst_nodes(), graph.num_src_nodes()))


class DglInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = DglTrainer


class DglMultiplier(TorchMultiplier):
    """``copy_u_sum`` between row scales (gcn), ``copy_u_mean`` (sage), ``u_mul_e_sum`` after ``edge_softmax`` (gat).

    With ``variant=weighted`` gcn is ``u_mul_e_sum`` too.
    """

    def structure(self, adjacency: Adjacency) -> Hop:
        """See ``TorchMultiplier``."""
        dgl.utils.set_num_threads(torch.get_num_threads())
        return WholeGraph(adjacency, self.config.variant == "weighted").hop()

    def aggregate(self, structure: Hop, x: Tensor) -> Tensor:
        """See ``TorchMultiplier``."""
        return aggregate(x, structure)

    def attend(self, structure: Hop, operands: dict[str, Tensor]) -> Tensor:
        """See ``TorchMultiplier``."""
        scores = (operands[name].unsqueeze(-1) for name in ("score_src", "score_dst"))
        return attend(structure.graph, operands["x"], *scores, self.spec.slope, 0.0)

    def facts(self) -> dict[str, Any]:
        """See ``TorchMultiplier``; also what aggregates."""
        return super().facts() | {"variant": self.config.variant_for(self.spec.name)}
