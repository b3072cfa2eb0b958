"""Inferrers of scenario ``infer``, chosen by ``backend.infer``: GraphInfer, neighbourhoods, full-graph pass.

GraphInfer's Map and the matrix of the full-graph pass are computed in ``prepare``; the timed region holds all rounds,
with their files. Inference from neighbourhoods, batch by batch, is the baseline of GraphInfer (AGL, section 3.4):
neighbourhoods of different batches overlap, and an embedding is computed again in each batch that needs it. They are
searched in a graph, or read from GraphFeatures. Samples may differ between targets, which GraphInfer cannot have.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.agl.backend import AglTrainer
from backends.agl.config import AglConfig
from backends.agl.flat.flattener import strategy_of
from backends.agl.flat.job import check_columns
from backends.agl.flat.reader import GraphFeatureReader, sampling_of
from backends.agl.flat.sampling_strategy import StrategyError, columns_of, refuse_unused_columns
from backends.agl.flat.source import Source
from backends.agl.infer.drivers import InferenceRounds, LocalInference
from backends.agl.infer.job import InferenceJob, Workspace, needs_table
from backends.agl.infer.map_stage import matrix_name
from backends.agl.networks import builder_of, network_of
from backends.agl.sampled_graph import SampledGraph
from backends.agl.train.shard_source import FlattenedTargets
from backends.agl.vectorize import matrices_of_records
from backends.base.facts import spmm_facts
from backends.base.inferrer import TorchInferrer
from backends.base.layered import LayerMatrix
from backends.base.sparse_rows import Rows, input_rows, tensor
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Inferrer, Nodes, Unsupported
from backends.model import ModelSpec, State, TrainingSpec
from backends.parallel import ray_cluster as cluster
from backends.parallel.executor import RayExecutor
from backends.progress import Progress, silent
from datasets.csr import Csr
from datasets.filters import FilterError
from datasets.graph import Graph

BATCH = 1024


class _BatchedInference:
    """Base of the scorers of batches: a network, and the embeddings that it computed in all of them."""

    def __init__(self, spec: ModelSpec, state: State, sparse_input: bool, size: int) -> None:
        self.spec, self.size, self.computed = spec, size, 0
        self.network = network_of(spec, TrainingSpec(), sparse_input=sparse_input)
        self.network.load(state)
        self.network.eval()

    def logits(self, features: Rows, structure: list[LayerMatrix]) -> Floats:
        """Logits of the rows of a batch's last layer."""
        self.computed += sum(matrix.csr.shape[0] for matrix in structure)
        with torch.inference_mode():
            logits: Floats = self.network(features, structure).numpy()
        return logits

    def facts(self) -> dict[str, Any]:
        """Computed embeddings, where a node in several batches counts several times; and the batch size."""
        return {"embeddings": self.computed, "batch": self.size}


class NeighbourhoodInference(_BatchedInference):
    """Scores batches of ``size`` targets of a graph, each from the merged neighbourhood of its targets, pruned."""

    def __init__(self, job: InferenceJob, size: int) -> None:
        super().__init__(job.spec, job.state, job.sparse_input, size)
        assert job.graph.features is not None
        self.job, self.features = job, input_rows(job.graph.features)
        self.sampled_graph = SampledGraph(job.graph, builder_of(job.spec), job.sampling, job.filtering)

    def run(self, progress: Progress = silent) -> Floats:
        """Score the targets, batch by batch: logits [targets, classes]."""
        self.computed = 0
        targets = np.arange(self.job.graph.nodes) if self.job.targets is None else self.job.targets
        scores = np.empty((len(targets), self.spec.classes), dtype=np.float32)
        for start in range(0, len(targets), self.size):
            batch, rows = np.unique(targets[start : start + self.size], return_inverse=True)
            structure, nodes = self.sampled_graph.layers(batch, "tight")
            features = self.features if nodes is None else self.features.index_select(0, tensor(nodes))
            scores[start : start + self.size] = self.logits(features, structure)[rows]
            progress("score", start + len(rows), len(targets))
        return scores


class RecordInference(_BatchedInference):
    """Scores the targets of GraphFlat's shards, up to ``size`` at a time, from their stored neighbourhoods alone.

    A batch is of one shard: ``self.size`` is the size that batches have.
    """

    def __init__(self, reader: GraphFeatureReader, spec: ModelSpec, state: State, size: int) -> None:
        super().__init__(spec, state, bool(reader.manifest.get("sparse")), min(size, reader.largest))
        self.reader, self.strategy, self.builder = reader, sampling_of(reader), builder_of(spec)

    def run(self, progress: Progress = silent) -> tuple[Nodes, Floats]:
        """Score all records; returns the ids of their targets, ascending, and logits [targets, classes]."""
        self.computed, ids, scores, done = 0, [], [], 0
        for records in self.reader.encoded_batches(self.size):
            merged, features, structure = matrices_of_records(records, self.builder, self.strategy, "tight")
            ids.append(merged.neighbourhood.nodes[merged.roots].astype(np.int64))
            scores.append(self.logits(features, structure)[merged.roots])
            done += len(records.rows)
            progress("score", done, len(self.reader))
        joined = np.concatenate(ids)
        order = np.argsort(joined, kind="stable")
        return joined[order], np.concatenate(scores)[order]


def inferrer(config: AglConfig) -> Inferrer:
    """The inferrer of a configuration; raises Unsupported for one that does not run on Ray."""
    on_ray = config.run_on == "ray"
    if on_ray and config.infer != "graphinfer":
        raise Unsupported(f"backend.infer={config.infer} runs in this process: choose backend.run_on=local")
    kinds: dict[str, Callable[[AglConfig], Inferrer]] = {
        "graphinfer": RayInferrer if on_ray else GraphInferrer,
        "neighbourhood": RecordInferrer if config.source == "graphfeature" else NeighbourhoodInferrer,
        "fullgraph": FullGraphInferrer,
    }
    return kinds[config.infer](config)


class _JobInferrer:
    """Base of the inferrers that prepare an ``InferenceJob``; some write files into a temporary ``folder``."""

    folder: Path

    def __init__(self, config: AglConfig) -> None:
        self.config = config

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Check the graph, build the job, do what is done once."""
        if self.config.sparse == "false":
            graph = graph.with_dense_features("backend.sparse=false")
        torch.set_num_threads(training.threads)
        all_nodes = len(plan.nodes) == graph.nodes and (plan.nodes[1:] > plan.nodes[:-1]).all()
        targets = None if all_nodes else plan.nodes
        self.plan, self.training = plan, training
        self.job = sampled_job(self.config, graph, spec, state, targets, training.seed)
        self.start(clock)

    def start(self, clock: Clock) -> None:
        """Do the work that is done once; nothing here."""

    def close(self) -> None:
        """Remove the folder."""
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)


def sampled_job(
    config: AglConfig, graph: Graph, spec: ModelSpec, state: State, targets: Nodes | None, seed: int
) -> InferenceJob:
    """The job with GraphFlat's sampling; raises Unsupported for sampling that the graph or the rounds do not allow."""
    strategy = strategy_of(config, spec, seed)
    try:
        check_columns(graph, strategy, config.filter)
        refuse_unused_columns(spec, strategy, config.filter, columns_of(graph), graph.name)
    except (FilterError, StrategyError) as error:
        raise Unsupported(str(error)) from error
    if strategy.scope == "target" and config.infer == "graphinfer":
        raise Unsupported(
            "GraphInfer computes one embedding of each node, not one for every target as with backend.scope=target: "
            "choose backend.infer=neighbourhood"
        )
    spec = replace(spec, fanouts=() if strategy.method == "full" else strategy.fanouts)
    return InferenceJob(graph, spec, state, targets, strategy, config.partitions, config.filter)


class GraphInferrer(_JobInferrer):
    """GraphInfer in this process: rounds over partitions, in a temporary folder."""

    def start(self, clock: Clock) -> None:
        """Run the Map stage."""
        self.folder, job = Path(tempfile.mkdtemp(prefix="graphinfer-")), self.job
        if needs_table(job.sampling, job.filtering):
            source = Source.build(job.graph, job.sampling, job.filtering, self.folder / "source")
            self.job = job = replace(job, table=source.table)
        self.inference = LocalInference(job, Workspace(self.folder / "rounds", job.identity(), self.config.unmap))
        with clock.phase("map"):
            self.inference.map()

    def infer(self, clock: Clock) -> Floats:
        """Run all rounds again, with the matrices of Map."""
        self.inference.phase = clock.phase
        self.inference.start_over()
        return self.inference.run()

    def spmm_operands(self) -> list[dict[str, Any]]:
        """Operands of the SpMMs of all rounds, over every row that Map wrote."""
        spec, nodes = self.job.spec, self.job.graph.nodes
        operands = []
        for layer in range(spec.layers):
            indptr, indices = (
                self.inference.space.open(f"{matrix_name(self.job, layer)}/{name}") for name in ("indptr", "indices")
            )
            width = spec.width_out(layer) * spec.heads_of(layer)
            aggregates_input = spec.name != "gat" and not (layer == 0 and self.job.sparse_input)
            width = min(width, spec.width_in(layer)) if aggregates_input else width
            matrix = {"csr": Csr(indptr, indices, (nodes, nodes)), "width": width, "itemsize": 4, "count": 1}
            operands.append({"name": f"layers.{layer} forward"} | matrix)
        return operands

    def facts(self) -> dict[str, Any]:
        """SpMM operands, rounds, partitions, computed embeddings and bytes written."""
        return {"spmm": [spmm_facts(operand) for operand in self.spmm_operands()]} | self.inference.facts()


class RayInferrer(_JobInferrer):
    """GraphInfer as Ray tasks that push messages; every call maps again, as Map's results are Ray objects of a run."""

    def start(self, clock: Clock) -> None:
        """Start Ray; save the graph where tasks can map it."""
        self.folder = Path(tempfile.mkdtemp(prefix="graphinfer-"))
        with clock.phase("launch"):
            self.ray = cluster.acquire()
            source = Source.build(self.job.graph, self.job.sampling, self.job.filtering, self.folder)
            self.job = replace(self.job, table=source.table, least_partitions=cluster.cpus(self.ray))

    def infer(self, clock: Clock) -> Floats:
        """Map and run all rounds."""
        with clock.phase("rounds"):
            executor = RayExecutor(self.ray)
            inference = InferenceRounds(executor, self.job, self.folder, self.config.hub_threshold, silent)
            scores, self.last_facts = inference.run()
        return scores

    def facts(self) -> dict[str, Any]:
        """Facts of the last call."""
        return self.last_facts

    def close(self) -> None:
        """Release Ray and remove the folder."""
        if hasattr(self, "ray"):
            cluster.release()
        super().close()


class NeighbourhoodInferrer(_JobInferrer):
    """Scores each batch of targets from its merged neighbourhood; ``training.batch_size`` targets at once."""

    def start(self, clock: Clock) -> None:
        """Build the network; batches share nothing else."""
        self.inference = NeighbourhoodInference(self.job, self.plan.size or BATCH)

    def infer(self, clock: Clock) -> Floats:
        """Score all batches."""
        with clock.phase("forward"):
            return self.inference.run()

    def facts(self) -> dict[str, Any]:
        """Computed embeddings and batch size."""
        return self.inference.facts()


class RecordInferrer(_JobInferrer):
    """Scores records that GraphFlat wrote in ``prepare``, as did the module that GraphInfer replaced (section 3.4)."""

    def start(self, clock: Clock) -> None:
        """Flatten the targets into a temporary folder, in shards of whole batches."""
        job, size = self.job, self.plan.size or BATCH
        self.ids = self.plan.nodes if job.graph.node_ids is None else np.asarray(job.graph.node_ids)[self.plan.nodes]
        self.flattened = FlattenedTargets(self.config, job.graph, job.spec, self.training)
        with clock.phase("flatten"):
            reader = self.flattened.flatten(BatchPlan(np.unique(self.plan.nodes), size))
        self.inference = RecordInference(reader, job.spec, job.state, size)

    def infer(self, clock: Clock) -> Floats:
        """Score all records."""
        if self.config.page_cache == "cold":
            self.inference.reader.drop_pages()
        with clock.phase("forward"):
            ids, scores = self.inference.run()
        return scores[np.searchsorted(ids, self.ids)]

    def facts(self) -> dict[str, Any]:
        """Computed embeddings, batch size, bytes of the shards and stored nodes per distinct node."""
        return self.inference.facts() | self.flattened.facts(self.inference.reader)

    def close(self) -> None:
        """Remove the shards."""
        if hasattr(self, "flattened"):
            self.flattened.remove()


class FullGraphInferrer(TorchInferrer):
    """The full-graph forward pass of the trainer's network, everything in memory."""

    trainer_class = AglTrainer

    def __init__(self, config: AglConfig) -> None:
        if config.sampler or config.filter:
            raise Unsupported("backend.infer=fullgraph reads all edges: choose backend.infer=graphinfer to sample")
        super().__init__(config)
