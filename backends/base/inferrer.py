"""What the engines on torch share in scenario ``infer``: one pass over the whole graph, or blocks in each layer."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.base.refusals import refuse_fanouts, refuse_weights
from backends.base.trainer import TorchTrainer, described
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Nodes
from backends.model import ModelSpec, State, TrainingSpec
from backends.registry import BackendConfig
from datasets.graph import Graph

SAMPLED = "choose backend=agl with backend.infer=graphinfer, or model.fanouts=[]"
BATCH = 1024


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


@dataclass
class Block:
    """All in-edges of consecutive nodes, its ``rows``; ``inputs`` are the nodes that they read, those rows first."""

    rows: slice
    inputs: Tensor
    structure: Any


class LayerwiseInferrer:
    """Each layer over batches of ``training.batch_size`` consecutive nodes, with all their in-edges.

    Subclasses name their trainer in ``trainer_class``, and make the blocks. The timed region holds the gather of each
    block's inputs, the layer, and the write of its outputs.
    """

    trainer_class: type[TorchTrainer] = TorchTrainer

    def __init__(self, config: BackendConfig) -> None:
        self.trainer = self.trainer_class(config)

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """See ``backends.contract.Inferrer``."""
        refuse_weights(graph, spec)
        refuse_fanouts(spec, self.trainer.config.name, SAMPLED)
        torch.set_num_threads(training.threads)
        trainer = self.trainer
        trainer.graph, trainer.spec, trainer.training = graph, spec, training
        self.nodes, self.size = plan.nodes, plan.size or BATCH
        with clock.phase("structure"):
            self.cut(np.split(np.arange(graph.nodes), range(self.size, graph.nodes, self.size)))
            self.features = torch.from_numpy(np.array(graph.features, dtype=np.float32))
        with clock.phase("model"):
            self.model = trainer.network(spec, training)
            self.model.load(state)
            self.model.eval()

    def cut(self, batches: list[Nodes]) -> None:
        """Prepare the blocks of batches of consecutive nodes, as far as that is done once."""
        raise TypeError(f"{type(self).__name__} must define cut")

    def blocks(self) -> Iterator[Block]:
        """The blocks of all batches, in their order."""
        raise TypeError(f"{type(self).__name__} must define blocks")

    def without_gradients(self) -> AbstractContextManager[Any]:
        """What the layers run in."""
        return torch.inference_mode()

    def infer(self, clock: Clock) -> Floats:
        """See ``backends.contract.Inferrer``."""
        hidden = self.features
        with self.without_gradients(), clock.phase("forward"):
            for layer in range(self.model.spec.layers):
                hidden = self._layer(layer, hidden)
            scores: Floats = self.model.logits_of(hidden[torch.from_numpy(self.nodes)]).numpy()
        return scores

    def _layer(self, layer: int, hidden: Tensor) -> Tensor:
        spec = self.model.spec
        width = spec.width_out(layer) * (1 if spec.is_last(layer) else spec.heads_of(layer))
        made = torch.empty((len(hidden), width))
        for block in self.blocks():
            out = self.model.layer(layer, hidden.index_select(0, block.inputs), block.structure)
            made[block.rows] = out[: block.rows.stop - block.rows.start]
        return made

    def facts(self) -> dict[str, Any]:
        """Embeddings made, and in how many nodes a batch."""
        return {"embeddings": self.model.spec.layers * len(self.features), "batch": self.size}

    def close(self) -> None:
        """See ``backends.contract.Inferrer``."""
        self.trainer.close()


def run_of(nodes: Nodes) -> slice:
    """The slice that consecutive nodes are."""
    return slice(int(nodes[0]), int(nodes[-1]) + 1)
