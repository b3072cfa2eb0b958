"""The Ray engine: Map once, K + 1 rounds of tasks; lost results are made again, and large ones spilled, by Ray."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.infer import hubs, push, rounds
from backends.agl.infer.job import Job
from backends.agl.infer.mapping import Progress, embeddings_of, folder_of, inverse_sqrt_degrees, round_of
from backends.agl.infer.push import Plan
from backends.agl.infer.slices import slices_of
from backends.agl.infer.workspace import Workspace
from backends.parallel import ray_cluster as cluster
from datasets.graph import Graph

Floats = NDArray[np.float32]


def infer_with_ray(
    job: Job, threads: int, hub: int, progress: Progress, space: Workspace | None = None
) -> tuple[Floats, dict[str, Any]]:
    """Score the job's targets, [targets, classes]; nodes of more than ``hub`` in-edges are sampled in pieces.

    With a ``space`` every round is kept, and the run goes on after the last one that is finished there, whichever
    engine finished it; machines of a cluster must share its folder. Ray is started where it does not run yet, in a
    temporary folder, and stopped again.
    """
    folder = Path(tempfile.mkdtemp(prefix="graphinfer-"))
    ray = cluster.acquire()
    try:
        return RayInference(ray, job, graph_folder(job.graph, folder), hub, progress, space).run()
    finally:
        cluster.release()
        shutil.rmtree(folder, ignore_errors=True)


class RayInference:
    """One inference by tasks; partitions are the unit of all of them."""

    def __init__(
        self, ray: Any, job: Job, folder: Path, hub: int, progress: Progress, space: Workspace | None = None
    ) -> None:
        self.ray, self.job, self.progress, self.space = ray, job, progress, space
        functions: Any = push.sample_hub, push.read_part, push.send, push.receive, push.keep, push.kept, push.score
        self.tasks = {function: ray.remote(function) for function in functions}
        choices = {"seed": job.seed, "sampler": job.sampler, "replace": job.replace, "targets": job.targets}
        plan = Plan(folder, job.spec, job.state, choices, job.parts, work=space.folder.resolve() if space else None)
        self.loads = self._loads(())
        pieces = hubs.pieces_of(job, hub)
        if pieces:
            held = ray.put(plan)
            samples = self._wait("map hubs", [self._start(push.sample_hub, 1, held, piece) for piece in pieces])
            job = self.job = replace(job, hubs=hubs.merged(job, pieces, ray.get(samples)))
            self.loads = self._loads(pieces)
        scale = inverse_sqrt_degrees(job) if job.spec.name == "gcn" else None
        self.plan = ray.put(replace(plan, needed=job.needed, scale=scale, hubs=job.hubs))
        self.pieces = len(pieces)

    def run(self) -> tuple[Floats, dict[str, Any]]:
        """Map, the rounds, and the scores in the order of the targets; with the facts."""
        count, layers = len(self.job.parts), self.job.spec.layers
        self.begun = self._finished()
        matrices = self._map()
        embeddings: list[Any] = [None] * count
        if self.begun:
            embeddings = [self._start(push.kept, 1, self.plan, self.begun - 1, p) for p in range(count)]
        for layer in range(self.begun, layers):
            parts, asked = matrices[self._key(layer)]
            sent = [
                self._start(push.send, count, self.plan, layer, p, embeddings[p], *(asked[q][p] for q in range(count)))
                for p in range(count)
            ]
            embeddings = [
                self._start(push.receive, 1, self.plan, layer, parts[q], *(_of(sent[p], q) for p in range(count)))
                for q in range(count)
            ]
            self._wait(f"round {layer + 1}", embeddings)
            self._keep(layer, embeddings)
        return self._scores(embeddings), self._facts()

    def _finished(self) -> int:
        """Rounds that an earlier process finished, one after the other."""
        layers = self.job.spec.layers
        done = [self.space is not None and self.space.finished(round_of(layer)) for layer in range(layers)]
        return layers if all(done) else done.index(False)

    def _keep(self, layer: int, embeddings: list[Any]) -> None:
        """Write a round's embeddings; those of the round before are no longer needed."""
        if self.space is None:
            return
        width = rounds.width_of(slices_of(self.job.spec, self.job.state)[layer], layer)
        self.space.rows(embeddings_of(layer), (self.job.graph.nodes, width), np.float32)
        self.ray.get([self._start(push.keep, 1, self.plan, layer, p, made) for p, made in enumerate(embeddings)])
        self.space.finish(round_of(layer))
        self.space.drop(embeddings_of(layer - 1))

    def _map(self) -> dict[str, tuple[list[Any], list[list[Any]]]]:
        """For each distinct matrix: its partitions, and what partition q reads of partition p."""
        made: dict[str, tuple[list[Any], list[list[Any]]]] = {}
        count = len(self.job.parts)
        for layer in range(self.begun, self.job.spec.layers):
            if self._key(layer) not in made:
                out = [self._start(push.read_part, count + 1, self.plan, layer, q) for q in range(count)]
                made[self._key(layer)] = [one[0] for one in out], [one[1:] for one in out]
                self._wait(f"map {self._key(layer)}", [one[0] for one in out])
        return made

    def _key(self, layer: int) -> str:
        """Layers of one fanout share their matrix, unless each makes other rows."""
        return folder_of(self.job, layer) + ("" if self.job.needed[layer + 1] is None else f"-{layer + 1}")

    def _scores(self, embeddings: list[Any]) -> Floats:
        targets = np.arange(self.job.graph.nodes) if self.job.targets is None else self.job.targets
        scores = np.empty((len(targets), self.job.spec.classes), dtype=np.float32)
        places = [np.flatnonzero((targets >= first) & (targets < last)) for first, last in self.job.parts]
        running = [
            self._start(push.score, 1, self.plan, p, targets[mine], embeddings[p]) for p, mine in enumerate(places)
        ]
        for mine, one in zip(places, self._wait("score", running), strict=True):
            scores[mine] = self.ray.get(one)
        return scores

    def _start(self, function: Any, returns: int, *arguments: Any) -> Any:
        return self.tasks[function].options(num_returns=returns).remote(*arguments)

    def _wait(self, step: str, running: list[Any]) -> list[Any]:
        """Report the tasks that end, until all have; a task that fails raises here."""
        left = list(running)
        while left:
            _, left = self.ray.wait(left)
            self.progress(step, len(running) - len(left), len(running))
        return running

    def _loads(self, pieces: Any) -> list[int]:
        """In-edges that each Map task samples; those of hubs are dealt out in pieces of their own."""
        degrees = np.diff(self.job.graph.csr.indptr).astype(np.int64)
        degrees[np.unique([piece.node for piece in pieces]).astype(np.int64)] = 0
        return [int(degrees[first:last].sum()) for first, last in self.job.parts]

    def _facts(self) -> dict[str, Any]:
        made = [self.job.graph.nodes if mask is None else int(mask.sum()) for mask in self.job.needed[1 + self.begun :]]
        rows = {"rounds": self.job.spec.layers + 1, "partitions": len(self.job.parts), "embeddings": sum(made)}
        return rows | {"hub_pieces": self.pieces, "largest_load": max(self.loads, default=0)}


def _of(returned: Any, index: int) -> Any:
    """The piece for one reducer; a task of one return gives no list."""
    return returned[index] if isinstance(returned, list) else returned


def graph_folder(graph: Graph, temporary: Path) -> Path:
    """The folder a mapped graph was loaded from; another graph is written to one."""
    features: Any = graph.features
    name = getattr(features, "filename", None)
    if name is not None:
        found = Path(str(name)).parent
        if (found / "graph.json").is_file() and Graph.load(found).csr.nnz == graph.csr.nnz:
            return found
    graph.save(temporary)
    return temporary
