"""What the engines on torch share in scenario ``infer``: one forward pass over the whole graph."""

from typing import Any

import torch

from backends.batches import BatchPlan
from backends.contract import Clock, Floats
from backends.model import ModelSpec, State, TrainingSpec
from backends.registry import BackendConfig
from backends.training import TorchTrainer, described, refuse_fanouts, refuse_weights
from datasets.graph import Graph

SAMPLED = "choose backend=agl with backend.infer=graphinfer, or model.fanouts=[]"


class TorchInferrer:
    """The Inferrer of an engine on torch: one pass of its trainer's network over the whole graph, layer by layer.

    Subclasses name their trainer in ``trainer_class``; labels are not needed.
    """

    trainer_class: type[TorchTrainer] = TorchTrainer

    def __init__(self, config: BackendConfig) -> None:
        self.trainer = self.trainer_class(config)
        self.trainer.forward_only = True

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """See ``backends.contract.Inferrer``."""
        refuse_weights(graph, spec)
        refuse_fanouts(spec, self.trainer.config.name, SAMPLED)
        torch.set_num_threads(training.threads)
        trainer = self.trainer
        trainer.graph, trainer.spec, trainer.training, trainer.plan = graph, spec, training, BatchPlan(plan.nodes)
        with clock.phase("structure"):
            trainer.full_batch(graph, plan.nodes)
        with clock.phase("model"):
            trainer.model = trainer.network(spec, training)
            trainer.model.load(state)

    def infer(self, clock: Clock) -> Floats:
        """See ``backends.contract.Inferrer``."""
        with clock.phase("forward"):
            return self.trainer.predict(self.trainer.graph, self.trainer.plan.nodes)

    def spmm_operands(self) -> list[dict[str, Any]]:
        """The SpMMs of one pass: the forward ones over the whole graph."""
        trainer = self.trainer
        whole = trainer.full_batch(trainer.graph, trainer.plan.nodes).structure
        return [item for item in trainer.operands_of(whole, 1) if item["name"].endswith("forward")]

    def facts(self) -> dict[str, Any]:
        """See ``backends.contract.Inferrer``."""
        return {"spmm": [described(item) for item in self.spmm_operands()]}

    def close(self) -> None:
        """See ``backends.contract.Inferrer``."""
        self.trainer.close()
