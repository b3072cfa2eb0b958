"""GraphInfer by tasks: the driver of Map and of K + 1 rounds."""

import hashlib
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.cluster import Cluster
from backends.agl.flat.source import Source
from backends.agl.infer import hubs, mapreduce, rounds
from backends.agl.infer.job import InferenceJob
from backends.agl.infer.map_stage import degrees_of, embeddings_name, inverse_sqrt_degrees, matrix_name, round_name
from backends.agl.infer.mapreduce import InferenceTaskSetup
from backends.agl.infer.workspace import Workspace
from backends.agl.networks import model_slices
from backends.kernels.samplers import SAMPLERS
from backends.parallel import ray_cluster as cluster
from backends.parallel.executor import Executor, RayExecutor, Task
from backends.progress import Progress

Floats = NDArray[np.float32]


def infer_with_ray(
    job: InferenceJob,
    hub: int,
    progress: Progress,
    space: Workspace | None = None,
    joined: Cluster | None = None,
    source: Path | None = None,
) -> tuple[Floats, dict[str, Any]]:
    """Score the job's targets, [targets, classes]; nodes of more than ``hub`` in-edges are ranked in pieces.

    With a ``space`` every round is saved there, and the run resumes after the last finished one, also of a local run.
    Machines of a ``joined`` cluster find the graph in its store, and no round is saved. Without one Ray is started
    where it does not run yet, in a temporary folder, and stopped again. ``source`` is the folder where
    ``Source.build`` wrote the job's table; it is built here where none is given.
    """
    joined = joined or Cluster()
    folder = Path(tempfile.mkdtemp(prefix="graphinfer-"))
    ray = cluster.acquire(joined.address)
    try:
        if source is None:
            source = folder
            job = replace(job, table=Source.build(job.graph, job.sampling, job.filtering, source).table)
        identity = hashlib.sha256(json.dumps(job.identity(), sort_keys=True).encode()).hexdigest()
        with joined.publishing(ray, source, identity) as place:
            opened_at = source.resolve() if place is None else f"{place}/source"
            return InferenceRounds(RayExecutor(ray), job, opened_at, hub, progress, None if place else space).run()
    finally:
        cluster.release()
        shutil.rmtree(folder, ignore_errors=True)


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
        self.loads = self._loads(())
        pieces = hubs.hub_pieces(job, hub)
        if pieces:
            samples = self._all("map hubs", [self._start(mapreduce.sample_hub, piece) for piece in pieces])
            job = self.job = replace(job, hubs=hubs.merge_samples(job, pieces, executor.get(samples)))
            self.loads = self._loads(pieces)
        scale = inverse_sqrt_degrees(job) if job.spec.name == "gcn" else None
        degrees = degrees_of(job) if "degrees" in job.spec.edge_columns else None
        self.setup = executor.put(replace(setup, needed=job.needed, scale=scale, degrees=degrees, hubs=job.hubs))
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
        width = rounds.width_of(model_slices(self.job.spec, self.job.state)[layer], layer)
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
        targets = np.arange(self.job.graph.nodes) if self.job.targets is None else self.job.targets
        scores = np.empty((len(targets), self.job.spec.classes), dtype=np.float32)
        order = np.argsort(targets, kind="stable")
        firsts = [first for first, _ in self.job.parts]
        places = np.split(order, np.searchsorted(targets[order], firsts))[1:]
        running = [
            self._start(mapreduce.score_targets, p, targets[rows], embeddings[p]) for p, rows in enumerate(places)
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

    def _loads(self, pieces: Any) -> list[int]:
        """Number of in-edges that each Map task reads, without those of hubs, which are sampled in pieces."""
        degrees = np.diff(self.job.edges.csr.indptr).astype(np.int64)
        if SAMPLERS[self.job.sampling.method].by_place:
            degrees = np.minimum(degrees, max(fanout for fanout in self.job.sampling.fanouts if fanout is not None))
        degrees[np.unique([piece.node for piece in pieces]).astype(np.int64)] = 0
        return [int(degrees[first:last].sum()) for first, last in self.job.parts]

    def _facts(self) -> dict[str, Any]:
        masks = self.job.needed[1 + self.first_layer :]
        computed = [self.job.graph.nodes if mask is None else int(mask.sum()) for mask in masks]
        rows = {"rounds": self.job.spec.layers + 1, "partitions": len(self.job.parts), "embeddings": sum(computed)}
        return rows | {"hub_pieces": self.pieces, "largest_load": max(self.loads, default=0)}
