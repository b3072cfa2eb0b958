"""What samplers do alike in scenario ``sample``: the batches of an epoch in turn, counted and let go."""

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
    """The Sampler of an engine that draws one batch after the other; no batch is kept.

    To define: ``prepare_structure()``, ``neighbourhoods(batches, epoch)``, ``counted(held)`` and ``hops(held)``. The
    timed region holds drawing and the engine's own form of a batch: nodes numbered, edges between those numbers.
    """

    def __init__(self, config: BackendConfig) -> None:
        self.config: Any = config

    def prepare_structure(self) -> None:
        """Do what is done once per graph."""
        raise TypeError(f"{type(self).__name__} must define prepare_structure")

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[Any]:
        """Draw the neighbourhood of each batch, in the engine's own form; every epoch draws anew."""
        raise TypeError(f"{type(self).__name__} must define neighbourhoods")

    def counted(self, held: Any) -> tuple[int, int]:
        """Distinct nodes and drawn edges of a neighbourhood."""
        raise TypeError(f"{type(self).__name__} must define counted")

    def hops(self, held: Any) -> list[Hop]:
        """Say what a neighbourhood holds, targets first."""
        raise TypeError(f"{type(self).__name__} must define hops")

    def prepare(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan, clock: Clock) -> None:
        """See ``backends.contract.Sampler``; phase ``structure``."""
        torch.set_num_threads(training.threads)
        self.graph, self.spec, self.training, self.plan = graph, spec, training, plan
        self.seconds: list[float] = []
        with clock.phase("structure"):
            self.prepare_structure()

    def sample(self, index: int, clock: Clock) -> None:
        """See ``backends.contract.Sampler``; phase ``sample`` is all of it."""
        batches, nodes, edges = self.plan.targets(index), 0, 0
        started = time.perf_counter()
        with clock.phase("sample"):
            for held in self.neighbourhoods(batches, index):
                more_nodes, more_edges = self.counted(held)
                nodes, edges = nodes + more_nodes, edges + more_edges
        self.seconds.append(time.perf_counter() - started)
        self.found = {"batches": len(batches), "targets": sum(map(len, batches)), "nodes": nodes, "edges": edges}

    def draw(self, targets: Nodes) -> list[Hop]:
        """See ``backends.contract.Sampler``."""
        (held,) = self.neighbourhoods([targets], 0)
        return self.hops(held)

    def facts(self) -> dict[str, Any]:
        """See ``backends.contract.Sampler``; rates are those of the call in the middle."""
        spent = median(self.seconds)
        return self.found | {f"{name}_per_second": self.found[name] / spent for name in ("edges", "targets")}

    def close(self) -> None:
        """Nothing runs between calls."""
