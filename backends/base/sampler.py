"""The sampler of every engine, for scenario ``sample``: draws one batch after the other and counts it."""

import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import torch

from backends.batches import BatchPlan
from backends.contract import Clock, Hop, Nodes
from backends.model import ModelSpec, TrainingSpec
from backends.registry import BackendConfig
from datasets.graph import Graph


class BatchSampler:
    """A ``contract.Sampler`` that counts the neighbourhood of each batch and drops it.

    To define: ``prepare_structure()``, ``neighbourhoods(batches, epoch)``, ``count(neighbourhood)`` and
    ``hops(neighbourhood)``. The timed region covers drawing and building the engine's form of a batch: local numbers
    of the nodes, and edges between them.
    """

    def __init__(self, config: BackendConfig) -> None:
        self.config: Any = config

    def prepare_structure(self) -> None:
        """Build the structure that batches are drawn from, once per graph."""
        raise TypeError(f"{type(self).__name__} must define prepare_structure")

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[Any]:
        """Draw the neighbourhood of each batch, in the engine's own form; every epoch draws anew."""
        raise TypeError(f"{type(self).__name__} must define neighbourhoods")

    def count(self, neighbourhood: Any) -> tuple[int, int]:
        """Count the distinct nodes and the drawn edges of a neighbourhood."""
        raise TypeError(f"{type(self).__name__} must define count")

    def hops(self, neighbourhood: Any) -> list[Hop]:
        """The hops of a neighbourhood, targets first."""
        raise TypeError(f"{type(self).__name__} must define hops")

    def prepare(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan, clock: Clock) -> None:
        """Take over graph and plan and build the structure; phase ``structure``."""
        torch.set_num_threads(training.threads)
        self.graph, self.spec, self.training, self.plan = graph, spec, training, plan
        self.seconds: list[float] = []
        with clock.phase("structure"):
            self.prepare_structure()

    def sample(self, index: int, clock: Clock) -> None:
        """Draw all batches of epoch ``index``; the whole call is phase ``sample``."""
        batches, nodes, edges = self.plan.targets(index), 0, 0
        started = time.perf_counter()
        with clock.phase("sample"):
            for neighbourhood in self.neighbourhoods(batches, index):
                batch_nodes, batch_edges = self.count(neighbourhood)
                nodes, edges = nodes + batch_nodes, edges + batch_edges
        self.seconds.append(time.perf_counter() - started)
        self.counts = {"batches": len(batches), "targets": sum(map(len, batches)), "nodes": nodes, "edges": edges}

    def draw(self, targets: Nodes) -> list[Hop]:
        """The hops of one batch, drawn by the same code as those of an epoch."""
        (neighbourhood,) = self.neighbourhoods([targets], 0)
        return self.hops(neighbourhood)

    def facts(self) -> dict[str, Any]:
        """Counts of the last epoch, and its edges and targets divided by the seconds of the median epoch."""
        seconds = median(self.seconds)
        return self.counts | {f"{name}_per_second": self.counts[name] / seconds for name in ("edges", "targets")}

    def close(self) -> None:
        """Nothing runs between calls."""
