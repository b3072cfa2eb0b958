"""Drivers of GraphInfer's rounds (AGL, section 3.4): over partitions in one process, or by tasks.

In a round every node first sends one message, computed from its embedding, for all its out-neighbours; then each
partition receives: it gathers the messages along its in-edges. Messages are stored per node, not per edge. In one
process memory is bounded by a partition, apart from the file pages that the system caches; arrays of the length of the
graph are mapped files between the rounds.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl import networks
from backends.agl.cluster import Cluster
from backends.agl.infer import mapreduce
from backends.agl.infer.job import InferenceJob, Workspace
from backends.agl.infer.map_stage import (
    LayerMatrices,
    embeddings_name,
    matrix_name,
    needed_rows,
    round_name,
    scatter_rows,
    write_matrices,
    write_node_values,
)
from backends.agl.infer.mapreduce import InferenceTaskSetup
from backends.agl.networks import Slice, model_slices
from backends.kernels.samplers import SAMPLERS
from backends.parallel import ray_cluster as cluster
from backends.parallel.executor import Executor, RayExecutor, Task
from backends.progress import Progress, silent
from datasets.features import Features, SparseFeatures

Floats = NDArray[np.float32]
TARGETS_AT_ONCE = 1 << 18


@dataclass
class LocalInference:
    """Map once, then K + 1 rounds; ``run`` resumes after the last round that an earlier process finished."""

    job: InferenceJob
    space: Workspace
    progress: Progress = silent
    phase: Callable[[str], AbstractContextManager[Any]] = nullcontext  # not timed
    computed: dict[str, int] = field(default_factory=dict)
    matrices: dict[str, LayerMatrices] = field(default_factory=dict)

    def map(self) -> None:
        """Write the matrices of all layers, once for all runs."""
        self.job = replace(self.job, node_values=write_node_values(self.job, self.space))
        write_matrices(self.job, self.space, self.progress)

    def run(self) -> Floats:
        """Score the targets: logits [targets, classes]."""
        slices = model_slices(self.job.spec, self.job.state, self.job.sparse_input)
        for layer in range(self.job.spec.layers):
            step = round_name(layer)
            if not self.space.finished(step):
                with self.phase("send"):
                    sent = self._send(slices[layer], layer)
                with self.phase("receive"):
                    self._receive(slices[layer], layer, sent)
                self.space.finish(step)
            self.space.drop(embeddings_name(layer - 1))
            self.space.drop(_messages_name(layer))
        with self.phase("score"):
            return self._score(slices[-1])

    def start_over(self) -> None:
        """Discard all rounds, keep the matrices of Map."""
        self.computed.clear()
        for layer in range(self.job.spec.layers):
            self.space.forget(round_name(layer))

    def _receive(self, model_slice: Slice, layer: int, sent: dict[str, Floats]) -> None:
        """Compute and write the embedding of every needed node, a partition at a time."""
        name = matrix_name(self.job, layer)
        if name not in self.matrices:
            self.matrices[name] = LayerMatrices(self.job, self.space, layer)
        matrices = self.matrices[name]
        shape = (self.job.graph.nodes, networks.width_of(self.job.spec, layer))
        embeddings = self.space.rows(embeddings_name(layer), shape, np.float32)
        computed = 0
        for done, (first, last) in enumerate(self.job.parts):
            rows = needed_rows(self.job.needed[layer + 1], first, last)
            if len(rows):
                matrix, sources = matrices.read(first, rows, last)
                read = {name: rows if name.startswith(networks.KEPT) else sources for name in sent}
                messages = {name: sent[name] if at is None else _at(sent[name], at) for name, at in read.items()}
                values = networks.receive(model_slice, layer, matrix, messages)
                embeddings.put(first, scatter_rows(values, rows, first, last))
                matrices.release(first, last)
            computed += len(rows)
            self.progress(f"round {layer + 1}: receive", done + 1, len(self.job.parts))
        for array in sent.values():
            self.space.release(array)
        self.computed[f"layer {layer + 1}"] = computed

    def _send(self, model_slice: Slice, layer: int) -> dict[str, Floats]:
        """The messages of all needed nodes: an array per part, indexed by node, the input itself where it is sent."""
        nodes = self.job.graph.nodes
        inputs = self.job.graph.features if layer == 0 else self.space.open(embeddings_name(layer - 1))
        assert inputs is not None
        messages: dict[str, Floats] = {}
        ranges = self._send_ranges(model_slice, layer, inputs)
        for done, (first, last) in enumerate(ranges):
            rows = needed_rows(self.job.needed[layer], first, last)
            if not len(rows):
                continue
            batch = _at(inputs, rows)
            for name, value in networks.send(model_slice, layer, batch).items():
                is_input = messages.get(name, inputs) is inputs  # in the ranges so far, if any
                if len(rows) == nodes or (is_input and _is_same(value, batch)):
                    messages[name] = value if len(rows) == nodes else inputs
                    continue
                if is_input:
                    array_name = f"{_messages_name(layer)}/{name}"
                    array = self.space.scratch(array_name, (nodes, *value.shape[1:]), np.float32)
                    if name in messages:
                        array[:first] = inputs[:first]
                    messages[name] = array
                messages[name][_index(rows)] = value
            if not isinstance(inputs, SparseFeatures):
                self.space.release(inputs[first:last])
            self.progress(f"round {layer + 1}: send", done + 1, len(ranges))
        return messages

    def _send_ranges(self, model_slice: Slice, layer: int, inputs: Any) -> list[tuple[int, int]]:
        """Node ranges that send together: all nodes where what they send fits in memory, else each partition."""
        at_once = self.job.needed[layer] is None and not self.space.unmap and self._all_fit(model_slice, layer, inputs)
        return [(0, self.job.graph.nodes)] if at_once else self.job.parts

    def _all_fit(self, model_slice: Slice, layer: int, inputs: Any) -> bool:
        """Whether all nodes' messages fit in memory, by what one sends: a user's layer chooses their widths."""
        nodes, small, is_sparse = self.job.graph.nodes, self.space.small, isinstance(inputs, SparseFeatures)
        if is_sparse and not small((inputs.nbytes,), np.uint8):
            return False
        row = _at(inputs, np.arange(min(nodes, 1)))
        messages = networks.send(model_slice, layer, row).values()
        copies = [message for message in messages if is_sparse or not np.may_share_memory(message, row)]
        return all(small((nodes, *message.shape[1:]), message.dtype) for message in copies)

    def _score(self, head: Slice) -> Floats:
        """Round K + 1: the prediction head on the targets' embeddings."""
        job = self.job
        last = self.space.open(embeddings_name(job.spec.layers - 1))
        scores = np.empty((job.graph.nodes if job.targets is None else len(job.targets), job.spec.classes), np.float32)
        for start in range(0, len(scores), TARGETS_AT_ONCE):
            span = slice(start, start + TARGETS_AT_ONCE)
            scores[span] = networks.score(head, last[span if job.targets is None else job.targets[span]])
        self.computed["scores"] = len(scores)
        return scores

    def facts(self) -> dict[str, Any]:
        """Rounds, partitions, computed embeddings (total, and by round), bytes written."""
        embeddings = sum(count for name, count in self.computed.items() if name != "scores")
        rows = {"rounds": self.job.spec.layers + 1, "partitions": len(self.job.parts), "embeddings": embeddings}
        return rows | {"made": dict(self.computed), "bytes_written": self.space.written}


def _messages_name(layer: int) -> str:
    return f"messages-{layer + 1}"


def _index(rows: NDArray[np.int64]) -> Any:
    """Ascending, distinct rows as an index: as a slice, which copies nothing, where they have no gaps."""
    is_range = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
    return slice(int(rows[0]), int(rows[-1]) + 1) if is_range else rows


def _at(array: Any, rows: NDArray[np.int64]) -> Features:
    """Some rows of an array, as a view where they are contiguous; of sparse features a copy."""
    return array[rows] if isinstance(array, SparseFeatures) else np.asarray(array[_index(rows)])


def _is_same(value: Floats, batch: Features) -> bool:
    """Whether a message is the input itself, not a copy."""
    if isinstance(batch, SparseFeatures):
        return False
    return value.ctypes.data == batch.ctypes.data and (value.shape, value.strides) == (batch.shape, batch.strides)


def infer_with_ray(
    job: InferenceJob, source: Path, hub: int, progress: Progress, space: Workspace | None, joined: Cluster
) -> tuple[Floats, dict[str, Any]]:
    """Score the job's targets, [targets, classes]; nodes of more than ``hub`` in-edges are ranked in pieces.

    ``source`` is the folder where ``Source.build`` wrote the job's table. With a ``space`` every round is saved there,
    and the run resumes after the last finished one, also of a local run. Machines of a ``joined`` cluster find the
    graph in its store, and no round is saved. Without an address Ray is started where it does not run yet, in a
    temporary folder, and stopped again. ``partitions=0`` makes at least one for each core of the cluster.
    """
    ray = cluster.acquire(joined.address)
    try:
        identity = hashlib.sha256(json.dumps(job.identity(), sort_keys=True).encode()).hexdigest()
        with joined.publishing(ray, source, identity) as place:
            opened_at = source.resolve() if place is None else f"{place}/source"
            job = replace(job, least_partitions=cluster.cpus(ray))
            return InferenceRounds(RayExecutor(ray), job, opened_at, hub, progress, None if place else space).run()
    finally:
        cluster.release()


class InferenceRounds:
    """One inference by tasks, each on a partition of the nodes; ``source`` is the folder or URL of a Source."""

    def __init__(
        self,
        executor: Executor,
        job: InferenceJob,
        source: Path | str,
        hub: int,
        progress: Progress,
        space: Workspace | None = None,
    ) -> None:
        self.executor, self.job, self.progress, self.space = executor, job, progress, space
        options = {"strategy": job.sampling, "filtering": job.filtering, "targets": job.targets}
        work = space.folder.resolve() if space else None
        setup = InferenceTaskSetup(source, job.spec, job.state, options, job.parts, work=work)
        self.setup = executor.put(setup)
        pieces = mapreduce.hub_pieces(job, hub)
        if pieces:
            samples = self._all("map hubs", [self._start(mapreduce.sample_hub, piece) for piece in pieces])
            job = self.job = replace(job, hubs=mapreduce.merge_samples(job, pieces, executor.get(samples)))
        self.setup = executor.put(replace(setup, options=options | {"hubs": job.hubs}, computed={"needed": job.needed}))
        self.pieces = len(pieces)

    def run(self) -> tuple[Floats, dict[str, Any]]:
        """Run Map and all rounds; returns the scores in the order of the targets, and facts."""
        count, layers = len(self.job.parts), self.job.spec.layers
        self.first_layer = self._finished()
        matrices = self._map()
        embeddings: list[Any] = [None] * count
        if self.first_layer:
            embeddings = [self._start(mapreduce.read_embeddings, self.first_layer - 1, p) for p in range(count)]
        for layer in range(self.first_layer, layers):
            parts, sources = matrices[self._key(layer)]
            messages = [
                self._start_many(
                    count, mapreduce.send_messages, layer, p, embeddings[p], *(sources[q][p] for q in range(count))
                )
                for p in range(count)
            ]
            embeddings = [
                self._start(mapreduce.receive_messages, layer, parts[q], *(messages[p][q] for p in range(count)))
                for q in range(count)
            ]
            self._all(f"round {layer + 1}", embeddings)
            self._save(layer, embeddings)
        return self._scores(embeddings), self._facts()

    def _finished(self) -> int:
        """Number of rounds that an earlier process finished: the first layer to compute."""
        layers = self.job.spec.layers
        finished = [self.space is not None and self.space.finished(round_name(layer)) for layer in range(layers)]
        return layers if all(finished) else finished.index(False)

    def _save(self, layer: int, embeddings: list[Any]) -> None:
        """Write a round's embeddings to the workspace and remove those of the round before."""
        if self.space is None:
            return
        width = networks.width_of(self.job.spec, layer)
        self.space.rows(embeddings_name(layer), (self.job.graph.nodes, width), np.float32)
        writes = [self._start(mapreduce.write_embeddings, layer, p, part) for p, part in enumerate(embeddings)]
        self.executor.get(writes)
        self.space.finish(round_name(layer))
        self.space.drop(embeddings_name(layer - 1))

    def _map(self) -> dict[str, tuple[list[Any], list[list[Any]]]]:
        """For each distinct matrix: its partitions q, and the nodes of each partition p that q reads."""
        matrices: dict[str, tuple[list[Any], list[list[Any]]]] = {}
        count = len(self.job.parts)
        for layer in range(self.first_layer, self.job.spec.layers):
            key = self._key(layer)
            if key not in matrices:
                outputs = [self._start_many(count + 1, mapreduce.map_partition, layer, q) for q in range(count)]
                matrices[key] = [output[0] for output in outputs], [output[1:] for output in outputs]
                self._all(f"map {key}", matrices[key][0])
        return matrices

    def _key(self, layer: int) -> str:
        """Name of a layer's matrix: layers of one fanout share it, unless they compute different rows."""
        return matrix_name(self.job, layer) + ("" if self.job.needed[layer + 1] is None else f"-{layer + 1}")

    def _scores(self, embeddings: list[Any]) -> Floats:
        targets, classes = self.job.targets, self.job.spec.classes
        scores = np.empty((self.job.graph.nodes if targets is None else len(targets), classes), dtype=np.float32)
        places: list[Any] = [slice(*span) for span in self.job.parts]
        if targets is not None:
            order = np.argsort(targets, kind="stable")
            places = np.split(order, np.searchsorted(targets[order], [first for first, _ in self.job.parts]))[1:]
        running = [
            self._start(mapreduce.score_targets, p, None if targets is None else targets[rows], embeddings[p])
            for p, rows in enumerate(places)
        ]
        for rows, handle in zip(places, self._all("score", running), strict=True):
            scores[rows] = self.executor.get([handle])[0]
        return scores

    def _start(self, task: Task, *arguments: Any) -> Any:
        """Start a task of one result."""
        return self._start_many(1, task, *arguments)[0]

    def _start_many(self, results: int, task: Task, *arguments: Any) -> list[Any]:
        return self.executor.submit(results, task, self.setup, *arguments)

    def _all(self, step: str, running: list[Any]) -> list[Any]:
        """Wait for all results of a step."""
        self.executor.wait(step, running, self.progress)
        return running

    def _load(self, first: int, last: int) -> int:
        """Number of in-edges that a partition's Map task reads, without those of hubs, which are sampled in pieces."""
        degrees = np.diff(self.job.edges.csr.indptr[first : last + 1])
        if SAMPLERS[self.job.sampling.method].by_place:
            degrees = np.minimum(degrees, max(fanout for fanout in self.job.sampling.fanouts if fanout is not None))
        if self.job.hubs is not None:
            hubs = self.job.hubs.nodes
            degrees[hubs[np.searchsorted(hubs, first) : np.searchsorted(hubs, last)] - first] = 0
        return int(degrees.sum(dtype=np.int64))

    def _facts(self) -> dict[str, Any]:
        masks, loads = self.job.needed[1 + self.first_layer :], [self._load(*span) for span in self.job.parts]
        computed = [self.job.graph.nodes if mask is None else int(mask.sum()) for mask in masks]
        rows = {"rounds": self.job.spec.layers + 1, "partitions": len(self.job.parts), "embeddings": sum(computed)}
        return rows | {"hub_pieces": self.pieces, "largest_load": max(loads, default=0)}
