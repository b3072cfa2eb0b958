"""GraphTrainer: batches of k-hop neighbourhoods from any source, vectorised, prefetched (AGL, section 3.3)."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from backends.agl.flat.flattener import strategy_of
from backends.agl.flat.sampling_strategy import StrategyError, columns_of, refuse_unused_columns
from backends.agl.networks import network_of
from backends.agl.train.source import BatchSource, GraphSource
from backends.base.layered import LayerMatrix
from backends.base.layered_trainer import LayeredTrainer
from backends.base.loss import Targets
from backends.base.network import Network
from backends.base.trainer import Batch
from backends.batches import BatchPlan
from backends.contract import Clock, Nodes, Unsupported
from backends.model import ModelSpec, State, TrainingSpec
from backends.parallel.prefetch import prefetched
from backends.registry import BackendConfig
from datasets.graph import Graph


class AglTrainer(LayeredTrainer):
    """Trains batches of targets on their merged k-hop neighbourhoods, full or sampled, from any ``BatchSource``.

    ``on_batch`` is called with each batch before it is trained.
    """

    draws_fanouts = True

    def __init__(self, config: BackendConfig, source: BatchSource | None = None) -> None:
        """Train from a source, from the graph in memory unless another is given."""
        super().__init__(config)
        self.source: BatchSource = GraphSource() if source is None else source
        self.on_batch: Callable[[Batch], None] = lambda batch: None

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """The model's network; without switch ``partition`` our models aggregate as ``unpartitioned`` says."""
        aggregation = "partitioned" if self.config.on("partition") else str(self.config.unpartitioned)
        return network_of(spec, training, aggregation, self.sparse_input)

    @property
    def sparse_input(self) -> bool:
        """Whether the first layer multiplies sparse features, by the switch ``sparse``."""
        return self.source.is_sparse(self.graph) and bool(self.config.on("sparse"))

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Open the source, then prepare the model."""
        self.set_task(graph, spec, training, plan)
        graph = self.source.open(self, clock)
        super().prepare(graph, spec, training, state, plan, clock)

    def prepare_structure(self) -> None:
        """Let the source build what all epochs share."""
        full = self.source.prepare()
        if full is not None:
            self.full = full

    def kept_matrices(self) -> list[tuple[int, LayerMatrix]]:
        """Also those that the source keeps."""
        return super().kept_matrices() + self.source.kept_matrices()

    def refuse_columns(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan) -> None:
        """Raise Unsupported for columns of the edges that neither the model nor sampling nor the filter reads."""
        try:
            refuse_unused_columns(
                spec, strategy_of(self.config, spec, training.seed), self.config.filter, columns_of(graph), graph.name
            )
        except StrategyError as error:
            raise Unsupported(str(error)) from error

    @property
    def form(self) -> str:
        """The form of the layer matrices: that of pruning, or not pruned."""
        return str(self.config.form) if self.config.on("pruning") else "full"

    def is_captured(self) -> bool:
        """Not where ``resample`` makes another batch in each epoch."""
        return not self.config.resample and super().is_captured()

    def mini_batch(self, targets: Nodes) -> Batch:
        """The batch of any targets, as in the first epoch."""
        return self.source.batch_of(targets)

    target_batch = mini_batch  # also where the plan has one full batch

    @property
    def overlaps(self) -> bool:
        """Whether a thread prepares the next batch during the computation of the current one."""
        return bool(self.config.on("pipeline")) and self.training.threads >= self.config.pipeline_from

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """Yield the batches of an epoch; where the pipeline runs, a thread prepares the next one."""
        self.source.begin(index)
        if self.plan.full_batch:
            batches = iter([self.full])
        elif self.overlaps:
            batches = prefetched(self.source.batch, self.source.items(index), clock, self.config.loaders)
        else:
            batches = _timed(map(self.source.batch, self.source.items(index)), clock)
        for batch in batches:
            self.on_batch(batch)
            yield batch

    def facts(self) -> dict[str, Any]:
        """Facts of the trainer and its source, with ``overlaps``: whether the pipeline runs."""
        return super().facts() | {"overlaps": not self.plan.full_batch and self.overlaps} | self.source.facts()

    def snapshot(self) -> dict[str, Any]:
        """What training needs to go on beside the parameters: the optimizer's state."""
        state: dict[str, Any] = self.optimizer.state_dict()
        return state

    def resume(self, snapshot: dict[str, Any]) -> None:
        """Take over what ``snapshot`` returned, after the parameters were loaded."""
        self.optimizer.load_state_dict(snapshot)

    def validation_loss(self) -> float | None:
        """Mean loss over the known labels of the validation nodes, without dropout; ``None`` where there are none."""
        total, count = 0.0, 0.0
        self.model.eval()
        with torch.no_grad():
            for batch in self.source.validation():
                labels = self.batch_labels(batch)
                total += float(self.loss(self.logits(batch), labels)) * labels_in(labels)
                count += labels_in(labels)
        return total / count if count else None

    def validation_targets(self) -> Iterator[Nodes]:
        """The labelled validation nodes, in pieces of a batch."""
        assert self.plan.size is not None
        nodes = self.graph.nodes_of("validation")
        return (nodes[start : start + self.plan.size] for start in range(0, len(nodes), self.plan.size))

    def close(self) -> None:
        """Close the source."""
        super().close()
        self.source.close()


def labels_in(targets: Targets) -> float:
    """Number of known labels: the divisor of a mean loss."""
    if targets.share is not None:
        return float((targets.share > 0).sum())
    return float((targets.values >= 0).sum())


def _timed(batches: Iterator[Batch], clock: Clock) -> Iterator[Batch]:
    """The batches, each made in phase ``vectorize``."""
    while True:
        with clock.phase("vectorize"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch
