"""GraphInfer and what it is compared with, as the harness asks for them: ``backend.infer`` says which.

Map (GraphInfer) or the matrix (fullgraph) is made in ``prepare``; the timed region holds all rounds, files included.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from backends.agl.backend import AglInferrer
from backends.agl.config import AglConfig
from backends.agl.flat.flattener import strategy_of
from backends.agl.infer.distributed import RayInference, graph_folder
from backends.agl.infer.job import Job
from backends.agl.infer.local import LocalInference, silent
from backends.agl.infer.mapping import folder_of
from backends.agl.infer.neighbourhoods import NeighbourhoodInference
from backends.agl.infer.workspace import Workspace
from backends.base.facts import spmm_facts
from backends.base.refusals import refuse_weights
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Inferrer, Nodes, Unsupported
from backends.model import ModelSpec, State, TrainingSpec
from backends.parallel import ray_cluster as cluster
from datasets.csr import Csr
from datasets.graph import Graph

BATCH = 1024


def inferrer(config: AglConfig) -> Inferrer:
    """The inferrer that a configuration names; raises Unsupported for one that Ray does not run."""
    on_ray = config.run_on == "ray"
    if on_ray and config.infer != "graphinfer":
        raise Unsupported(f"backend.infer={config.infer} runs in this process: choose backend.run_on=local")
    kinds: dict[str, Callable[[AglConfig], Inferrer]] = {
        "graphinfer": RayInferrer if on_ray else GraphInferrer,
        "neighbourhood": NeighbourhoodInferrer,
        "fullgraph": FullGraphInferrer,
    }
    return kinds[config.infer](config)


class _JobInferrer:
    """What GraphInfer and inference from neighbourhoods share: the job."""

    def __init__(self, config: AglConfig) -> None:
        self.config = config

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """See ``backends.contract.Inferrer``."""
        refuse_weights(graph, spec)
        torch.set_num_threads(training.threads)
        targets = None if len(plan.nodes) == graph.nodes and (plan.nodes[1:] > plan.nodes[:-1]).all() else plan.nodes
        self.plan = plan
        self.job = sampled_job(self.config, graph, spec, state, targets, training.seed)
        self.start(clock)

    def start(self, clock: Clock) -> None:
        """Do what is done once."""

    def close(self) -> None:
        """Nothing runs between the calls."""


def sampled_job(
    config: AglConfig, graph: Graph, spec: ModelSpec, state: State, targets: Nodes | None, seed: int
) -> Job:
    """The job that draws what GraphFlat would; raises Unsupported where an embedding could not be made once."""
    strategy = strategy_of(config, spec, seed)
    by_weight = strategy.method in ("weighted", "topk")
    for wrong, given in (
        (config.filter, f"backend.filter={config.filter}"),
        (config.scope == "target" and strategy.method != "full", "backend.scope=target"),
        (strategy.reverse or strategy.by not in (None, "weight"), f"backend.sampler={config.sampler}"),
        (by_weight and graph.edge_weights is None, f"backend.sampler={config.sampler} without edge weights"),
    ):
        if wrong:
            raise Unsupported(
                f"inference draws one sample of each node, from all edges or by their weight, not {given}"
            )
    spec = replace(spec, fanouts=() if strategy.method == "full" else strategy.fanouts)
    drawn = "uniform" if strategy.method == "full" else strategy.method
    return Job(graph, spec, state, targets, strategy.seed, config.partitions, drawn, strategy.replacement)


class GraphInferrer(_JobInferrer):
    """Rounds over partitions, in a folder of its own that ends with it."""

    def start(self, clock: Clock) -> None:
        """Map."""
        self.folder = Path(tempfile.mkdtemp(prefix="graphinfer-"))
        self.engine = LocalInference(self.job, Workspace(self.folder, self.job.identity(), self.config.unmap))
        with clock.phase("map"):
            self.engine.map()

    def infer(self, clock: Clock) -> Floats:
        """See ``backends.contract.Inferrer``."""
        self.engine.phase = clock.phase
        self.engine.start_over()
        return self.engine.run()

    def spmm_operands(self) -> list[dict[str, Any]]:
        """The SpMMs of all rounds, over every row that Map wrote."""
        spec, nodes = self.job.spec, self.job.graph.nodes
        operands = []
        for layer in range(spec.layers):
            indptr, indices = (
                self.engine.space.open(f"{folder_of(self.job, layer)}/{name}") for name in ("indptr", "indices")
            )
            width = spec.width_out(layer) * spec.heads_of(layer)
            width = width if spec.name == "gat" else min(width, spec.width_in(layer))
            matrix = {"csr": Csr(indptr, indices, (nodes, nodes)), "width": width, "itemsize": 4, "count": 1}
            operands.append({"name": f"layers.{layer} forward"} | matrix)
        return operands

    def facts(self) -> dict[str, Any]:
        """See ``backends.contract.Inferrer``; also embeddings made, rounds, bytes written."""
        return {"spmm": [spmm_facts(item) for item in self.spmm_operands()]} | self.engine.facts()

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


class RayInferrer(_JobInferrer):
    """Rounds as Ray's tasks, which push messages; Map's results live in Ray too, so every call maps again."""

    def start(self, clock: Clock) -> None:
        """Start Ray, and write the graph where tasks can map it."""
        self.folder = Path(tempfile.mkdtemp(prefix="graphinfer-"))
        with clock.phase("launch"):
            self.ray = cluster.acquire()
            self.mapped = graph_folder(self.job.graph, self.folder)

    def infer(self, clock: Clock) -> Floats:
        """See ``backends.contract.Inferrer``."""
        with clock.phase("rounds"):
            engine = RayInference(self.ray, self.job, self.mapped, self.config.hub_threshold, silent)
            scores, self.held = engine.run()
        return scores

    def facts(self) -> dict[str, Any]:
        """See ``backends.contract.Inferrer``."""
        return self.held

    def close(self) -> None:
        """Let go of Ray, and remove the folder."""
        if hasattr(self, "ray"):
            cluster.release()
        shutil.rmtree(self.folder, ignore_errors=True)


class NeighbourhoodInferrer(_JobInferrer):
    """Each batch of targets from its own neighbourhoods; ``training.batch_size`` targets at once."""

    def start(self, clock: Clock) -> None:
        """Nothing is shared between batches."""
        self.engine = NeighbourhoodInference(self.job, self.plan.size or BATCH)

    def infer(self, clock: Clock) -> Floats:
        """See ``backends.contract.Inferrer``."""
        with clock.phase("forward"):
            return self.engine.run()

    def facts(self) -> dict[str, Any]:
        """See ``backends.contract.Inferrer``."""
        return self.engine.facts()


class FullGraphInferrer(AglInferrer):
    """The full-graph forward pass, everything in memory."""

    def __init__(self, config: AglConfig) -> None:
        if config.sampler or config.filter:
            raise Unsupported("backend.infer=fullgraph reads all edges: choose backend.infer=graphinfer to sample")
        super().__init__(config)
