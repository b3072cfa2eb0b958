"""The inferrers of engines on torch, for scenario ``infer``: one whole-graph pass, or each layer over blocks."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.base.facts import spmm_facts
from backends.base.refusals import refuse_fanouts
from backends.base.trainer import TorchTrainer
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Nodes
from backends.model import ModelSpec, State, TrainingSpec
from backends.registry import BackendConfig
from datasets.graph import Graph

ADVICE = "choose backend=agl with backend.infer=graphinfer, or model.fanouts=[]"
BATCH = 1024


class NetworkInferrer:
    """A ``contract.Inferrer`` over the network of a trainer, which subclasses name in ``trainer_class``.

    To define: ``prepare_structure(plan)`` and ``infer(clock)``; labels are not needed.
    """

    trainer_class: type[TorchTrainer] = TorchTrainer

    def __init__(self, config: BackendConfig) -> None:
        self.trainer = self.trainer_class(config)

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Build structure and network for the nodes of ``plan``; phases ``structure``, ``model``."""
        self.trainer.refuse_columns(graph, spec, training, BatchPlan(plan.nodes))
        refuse_fanouts(spec, self.trainer.config.name, ADVICE)
        self.trainer.set_task(graph, spec, training, BatchPlan(plan.nodes), forward_only=True)
        with clock.phase("structure"):
            self.prepare_structure(plan)
        with clock.phase("model"):
            self.trainer.load_for_inference(state)

    def prepare_structure(self, plan: BatchPlan) -> None:
        """Build the structure that the layers aggregate over."""
        raise TypeError(f"{type(self).__name__} must define prepare_structure")

    def infer(self, clock: Clock) -> Floats:
        """Score the plan's nodes: logits [nodes, classes]."""
        raise TypeError(f"{type(self).__name__} must define infer")

    def close(self) -> None:
        """Close the trainer."""
        self.trainer.close()


class TorchInferrer(NetworkInferrer):
    """One pass over the whole graph, all nodes of a layer at once."""

    def prepare_structure(self, plan: BatchPlan) -> None:
        """Build the whole graph's structure."""
        self.trainer.full_batch(self.trainer.graph, plan.nodes)

    def infer(self, clock: Clock) -> Floats:
        """Run the pass; phase ``forward``."""
        with clock.phase("forward"):
            return self.trainer.predict(self.trainer.graph, self.trainer.plan.nodes)

    def spmm_operands(self) -> list[dict[str, Any]]:
        """The SpMMs of one pass over the whole graph."""
        trainer = self.trainer
        return trainer.spmms_of(trainer.full_batch(trainer.graph, trainer.plan.nodes).structure, 1)

    def facts(self) -> dict[str, Any]:
        """Sizes of the SpMMs."""
        return {"spmm": [spmm_facts(operand) for operand in self.spmm_operands()]}


@dataclass
class NodeBlock:
    """All in-edges of consecutive nodes, the ``rows``; ``inputs`` are the nodes that these read, the rows first."""

    rows: slice
    inputs: Tensor
    structure: Any


class LayerwiseInferrer(NetworkInferrer):
    """Each layer over batches of ``training.batch_size`` consecutive nodes, with all their in-edges.

    To define: ``cut(batches)`` and ``blocks()``. The timed region holds the gather of each block's inputs, the layer,
    and the write of its outputs.
    """

    def prepare_structure(self, plan: BatchPlan) -> None:
        """Cut the nodes into batches."""
        graph, self.size = self.trainer.graph, plan.size or BATCH
        self.cut(np.split(np.arange(graph.nodes), range(self.size, graph.nodes, self.size)))
        self.features = self.trainer.input_of(graph.features)

    def cut(self, batches: list[Nodes]) -> None:
        """Do what the blocks of all passes need once; each batch is a run of consecutive nodes."""
        raise TypeError(f"{type(self).__name__} must define cut")

    def blocks(self) -> Iterator[NodeBlock]:
        """The blocks of all batches, in their order."""
        raise TypeError(f"{type(self).__name__} must define blocks")

    def without_gradients(self) -> AbstractContextManager[Any]:
        """The mode in which the layers run."""
        return torch.inference_mode()

    def infer(self, clock: Clock) -> Floats:
        """Run layer after layer over all blocks; phase ``forward``."""
        model, hidden = self.trainer.model, self.features
        with self.without_gradients(), clock.phase("forward"):
            for layer in range(model.spec.layers):
                hidden = self._layer(layer, hidden)
            scores: Floats = model.logits_of(hidden[torch.from_numpy(self.trainer.plan.nodes)]).numpy()
        return scores

    def _layer(self, layer: int, hidden: Tensor) -> Tensor:
        model, spec = self.trainer.model, self.trainer.model.spec
        width = spec.width_out(layer) * (1 if spec.is_last(layer) else spec.heads_of(layer))
        output = torch.empty((len(hidden), width))
        for block in self.blocks():
            rows = model.layer(layer, hidden.index_select(0, block.inputs), block.structure)
            output[block.rows] = rows[: block.rows.stop - block.rows.start]
        return output

    def facts(self) -> dict[str, Any]:
        """Number of embeddings computed, and of nodes per batch."""
        return {"embeddings": self.trainer.model.spec.layers * len(self.features), "batch": self.size}


def slice_of(nodes: Nodes) -> slice:
    """The slice that selects consecutive nodes."""
    return slice(int(nodes[0]), int(nodes[-1]) + 1)
