"""The full-batch engine on several ranks: rows of the matrix divided in 1D or, with replication, in 1.5D."""

from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np

from backends.base.layered import LayerMatrix
from backends.base.refusals import refuse_fanouts
from backends.base.trainer import Batch
from backends.batches import BatchPlan
from backends.blocksparse.adaptive import gate_configs
from backends.blocksparse.backend import BlocksparseInferrer, BlocksparseTrainer
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.model_check import model_beside
from backends.blocksparse.phases import RankPhases
from backends.blocksparse.pieces import check_blocks, pieces_of
from backends.blocksparse.scaling import ReplayTrainer
from backends.blocksparse.slices import Cut, OwnTargets, targets_of_ranks
from backends.contract import Clock, Floats, Nodes
from backends.memory_errors import unless_out_of_memory
from backends.model import ModelSpec, State, TrainingSpec
from backends.parallel.ranks import RankObjects, RankPool, shared_pool
from datasets.csr import Csr
from datasets.graph import Graph


def trainer(config: BlocksparseConfig) -> BlocksparseTrainer:
    """The trainer of several ranks, of one process with a model of several, or of one process."""
    if config.ranks > 1:
        return RanksTrainer(config)
    return ReplayTrainer(config) if config.replay else BlocksparseTrainer(config)


def inferrer(config: BlocksparseConfig) -> BlocksparseInferrer:
    """The inferrer of one process, or of several ranks."""
    return RanksInferrer(config) if config.ranks > 1 else BlocksparseInferrer(config)


class RanksTrainer(BlocksparseTrainer):
    """Cuts the graph, lets each rank train on its slice, and puts their answers together."""

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Cut the graph and hand the slices to the ranks; phases ``structure``, ``ranks``."""
        self.set_task(graph, spec, training, plan)
        self.distribute(state, clock)
        self.ranks.each("train_on", self.targets(plan.nodes))
        self.trains = True

    def distribute(self, state: State, clock: Clock) -> None:
        """Cut the graph and hand the slices to the ranks; raises Unsupported where ranks cannot divide it."""
        self.initial, self.cuts = state, dict[int, tuple[Graph, Cut]]()
        self.objects: dict[int, RankObjects] = {}
        self.asked: dict[int, tuple[Nodes, list[Nodes]]] = {}  # what the ranks of a graph answered last
        self.smaller_pool: RankPool | None = None
        self.trains = False
        self.whole: list[LayerMatrix] | None = None
        self.traffic: list[dict[str, float]] = []
        self.layout = self.config.layout(self.graph.nodes)
        self.refuse_columns(self.graph, self.spec, self.training, self.plan)
        refuse_fanouts(self.spec, self.config.name)
        check_blocks(self.layout, self.graph, self.config.bounds)
        self.ranks = self.ranks_of(self.graph, clock)

    def ranks_of(self, graph: Graph, clock: Clock | None = None) -> RankObjects:
        """The workers that hold a graph's slices, built once; this process keeps no slice."""
        if id(graph) not in self.objects:
            with nullcontext() if clock is None else clock.phase("structure"):
                pieces = pieces_of(self, graph, self.config, self.layout, trains=graph is self.graph)
            self.cuts[id(graph)] = graph, pieces.cut
            arguments = [(rank, pieces.task, part, self.initial) for rank, part in enumerate(pieces.slices)]
            with nullcontext() if clock is None else clock.phase("ranks"):
                self.objects[id(graph)] = self._pool().build("backends.blocksparse.worker:RankWorker", arguments)
        return self.objects[id(graph)]

    def _pool(self) -> RankPool:
        """The ranks of the cell, which stay for others; fewer for a small graph of the gate, for this trainer alone."""
        if self.layout.ranks == self.config.ranks:
            return shared_pool(self.layout.ranks)
        self.smaller_pool = self.smaller_pool or RankPool(self.layout.ranks)
        return self.smaller_pool

    @property
    def cut(self) -> Cut:
        """Where the training graph is cut."""
        return self.cuts[id(self.graph)][1]

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of all ranks that train, with the same arguments."""
        return self.ranks.each(method, [arguments] * self.layout.ranks)

    def targets(self, nodes: Nodes) -> list[tuple[OwnTargets]]:
        """Each rank's targets as arguments of its methods."""
        return [(own,) for own in targets_of_ranks(self.graph, nodes, self.cut)]

    def epoch(self, index: int, clock: Clock) -> float:
        """Train one epoch on all ranks; phase ``ranks``."""
        with clock.phase("ranks"):
            answers = self.each("epoch", index)
        self.traffic = [traffic for _, traffic in answers]
        return float(answers[0][0])

    def loss_and_gradients(self, targets: Nodes) -> tuple[Floats, float, dict[str, Floats]]:
        """Logits of the targets in their order, loss and gradients of one pass."""
        answers = self.ranks.each("loss_and_gradients", self.targets(targets))
        return self.cut.gathered(targets, [logits for logits, *_ in answers]), answers[0][1], dict(answers[0][2])

    def predict(self, graph: Graph, nodes: Nodes) -> Floats:
        """Logits of ``nodes`` from one pass over the whole graph on all ranks."""
        ranks = self.ranks_of(graph)
        if ranks is not self.ranks:
            ranks.each("load", [(self.state(),)] * self.layout.ranks)
        places = self._places(graph, nodes, ranks)
        answers = ranks.each("predict", [()] * self.layout.ranks)
        logits = np.empty((len(nodes), answers[0].shape[1]), dtype=answers[0].dtype)
        for own, answer in zip(places, answers, strict=True):
            logits[own] = answer
        return logits

    def _places(self, graph: Graph, nodes: Nodes, ranks: RankObjects) -> list[Nodes]:
        """The places of each rank's answers among those of ``nodes``, which it is told unless it was asked the same."""
        asked, places = self.asked.get(id(graph), (None, []))
        if asked is not nodes:
            cut = self.cuts[id(graph)][1]
            places = cut.places(nodes)
            rows = [nodes[own] - cut.own_rows(rank).start for rank, own in enumerate(places)]
            ranks.each("answer_for", [(own,) for own in rows])
            self.asked[id(graph)] = nodes, places
        return places

    def load(self, state: State) -> None:
        """Take over parameters on all ranks."""
        self.each("load", state)

    def state(self) -> State:
        """The parameters of rank 0, which all ranks have."""
        state: State = self.each("state")[0]
        return state

    def gate_configs(self) -> list[BlocksparseConfig]:
        """The options with which the parity gate is passed, by the forms that the ranks use."""
        return gate_configs(self.config, self.each("forms"))

    def gathers_input(self, layer: int, csr: Csr) -> bool:
        """Whether ranks aggregate a layer's input; they transform that of attention, which they send once per node."""
        return self.aggregates_first(layer)

    def target_batch(self, targets: Nodes) -> Batch:
        """The whole graph's matrix, for the facts; it is built once."""
        if self.whole is None:
            self.whole = self.structure(self.graph)
        return Batch(self.whole, None, targets)

    def facts(self) -> dict[str, Any]:
        """Also what each rank holds, received in the last epoch, and does in the seconds of a pass.

        Where memory does not hold that pass, ``ranks.status`` says so.
        """
        forms = unless_out_of_memory(lambda: {"forms": self.each("forms")})
        phases = unless_out_of_memory(lambda: {"phases": [asdict(of_rank) for of_rank in self.phases()]})
        counted = {
            "rows": np.diff(self.cut.bounds).tolist(),
            "edges": self.cut.edges,
            "imbalance": self.cut.imbalance,
            "bytes": self.cut.bytes,
            "received_rows": self.cut.received,
            "traffic": self.traffic,
            "network": str(self.config.network) if self.config.link else "this machine's own",
        }
        # a failure ends all ranks, so that the first one of several is the reason
        facts = super().facts() | {"ranks": counted | phases | forms}
        if self.config.replay and self.trains:
            facts["replay"] = [{"ranks": self.layout.ranks} | unless_out_of_memory(self.model_beside)]
        return facts

    def model_beside(self) -> dict[str, Any]:
        """The modelled epoch of these ranks beside theirs; the parameters stay what they are."""
        pieces, state = pieces_of(self, self.graph, self.config, self.layout), self.state()
        targets = self.targets(self.plan.nodes)
        answer = model_beside(self.ranks.pool, pieces, targets, self.initial, lambda index: self.each("epoch", index))
        self.load(state)
        return answer

    def phases(self) -> list[RankPhases]:
        """Seconds of one more pass by what each rank does in them, where this trainer trains."""
        return self.each("phases") if self.trains else []

    def close(self) -> None:
        """Let the ranks forget this trainer's slices."""
        if self.smaller_pool is not None:
            self.smaller_pool.close()
        for ranks in self.objects.values():
            ranks.close()
        self.objects = {}
        self.whole = None


class RanksInferrer(BlocksparseInferrer):
    """Scores nodes by one pass over the whole graph on all ranks."""

    trainer_class = RanksTrainer
    trainer: RanksTrainer

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Cut the graph and hand the slices to the ranks; phases ``structure``, ``ranks``."""
        self.trainer.set_task(graph, spec, training, BatchPlan(plan.nodes), forward_only=True)
        self.trainer.distribute(state, clock)

    def spmm_operands(self) -> list[dict[str, Any]]:
        """The products of one pass over the whole graph."""
        return self.trainer.spmms_of(self.trainer.target_batch(self.trainer.plan.nodes).structure, 1)

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and what each rank holds."""
        return super().facts() | {"ranks": self.trainer.facts()["ranks"]}
