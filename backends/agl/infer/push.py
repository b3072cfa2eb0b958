"""GraphInfer as MapReduce: tasks push messages to the reducer of their destination (AGL, section 3.4).

Map runs once and tells each partition which of its nodes the others read; a round's send task returns one piece per
reducer, each node's message once however many edges it has there. The rounds are those of the local engine.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.infer import hubs, rounds
from backends.agl.infer.job import Hubs, Job, Mask, Nodes
from backends.agl.infer.mapping import embeddings_of, partition_matrix, rows_of, spread
from backends.agl.infer.slices import Slice, slices_of
from backends.agl.infer.workspace import Rows
from backends.base.layered import LayerMatrix
from backends.model import ModelSpec, State
from datasets.csr import Csr
from datasets.graph import Graph

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Plan:
    """What every task is given: the job, its graph as a folder to read partitions from, a folder to keep rounds in."""

    folder: Path
    spec: ModelSpec
    state: State
    choices: dict[str, Any]
    parts: list[tuple[int, int]]
    needed: list[Mask | None] | None = None
    scale: NDArray[np.float64] | None = None
    hubs: Hubs | None = None
    threads: int = 1
    work: Path | None = None

    def job(self) -> Job:
        """The job, its graph mapped."""
        job = Job(_mapped(self.folder), self.spec, self.state, hubs=self.hubs, **self.choices)
        if self.needed is not None:
            job.__dict__["needed"] = self.needed
        return job

    def slice(self, layer: int) -> Slice:
        """The slice of one round."""
        torch.set_num_threads(self.threads)
        return slices_of(self.spec, self.state)[layer]


@cache
def _mapped(folder: Path) -> Graph:
    return Graph.load(folder)


@dataclass(frozen=True, eq=False)
class Part:
    """A layer's matrix of one partition: its rows, the nodes of its columns ascending, edges numbered by column."""

    rows: Nodes
    sources: Nodes
    indptr: Nodes
    columns: Nodes
    weight: Floats | None

    def matrix(self) -> LayerMatrix:
        """What the kernels take."""
        weight = None if self.weight is None else rounds.tensor(self.weight)
        return LayerMatrix(Csr(self.indptr, self.columns, (len(self.rows), len(self.sources))), weight)


def sample_hub(plan: Plan, piece: hubs.Piece) -> Nodes:
    """See ``hubs.partial_sample``."""
    return hubs.partial_sample(plan.job(), piece)


def read_part(plan: Plan, layer: int, index: int) -> list[Any]:
    """Map: a partition's matrix, then for each partition the nodes of it that this one reads."""
    job, (first, last) = plan.job(), plan.parts[index]
    csr, weight = partition_matrix(job, layer, first, last, plan.scale)
    rows = rows_of(job.needed[layer + 1], first, last)
    if len(rows) < last - first:
        csr, kept = csr.rows(rows - first)
        weight = None if weight is None else weight[kept]
    sources, columns = np.unique(csr.indices, return_inverse=True)
    part = Part(rows, sources.astype(np.int64), np.asarray(csr.indptr, dtype=np.int64), columns, weight)
    cuts = np.searchsorted(sources, [a for a, _ in plan.parts[1:]])
    return [part, *np.split(part.sources, cuts)]


def send(plan: Plan, layer: int, index: int, embeddings: Floats | None, *asked: Nodes) -> Any:
    """One piece per reducer: what its in-edges read of this partition, and for its own what its rows keep."""
    job, (first, last) = plan.job(), plan.parts[index]
    rows = rows_of(job.needed[layer], first, last)
    if embeddings is None:
        assert job.graph.features is not None
        embeddings = np.asarray(job.graph.features[rows])
    messages = rounds.send(plan.slice(layer), layer, embeddings)
    sent = {name: value for name, value in messages.items() if name.startswith(rounds.SENT)}
    pieces = [{name: value[np.searchsorted(rows, nodes)] for name, value in sent.items()} for nodes in asked]
    made = rows_of(job.needed[layer + 1], first, last)
    for name in messages.keys() - sent.keys():
        pieces[index][name] = messages[name][np.searchsorted(rows, made)]
    return pieces[0] if len(pieces) == 1 else pieces


def receive(plan: Plan, layer: int, part: Part, *pieces: dict[str, Floats]) -> Floats:
    """A partition's embeddings from what all partitions sent; pieces stand in the order of their nodes."""
    names = sorted({name for piece in pieces for name in piece})
    messages = {name: np.concatenate([piece[name] for piece in pieces if name in piece]) for name in names}
    return rounds.receive(plan.slice(layer), layer, part.matrix(), messages)


def keep(plan: Plan, layer: int, index: int, embeddings: Floats) -> None:
    """Write a partition's embeddings into the array of all."""
    assert plan.work is not None
    first, last = plan.parts[index]
    rows = rows_of(plan.job().needed[layer + 1], first, last)
    Rows(plan.work / f"{embeddings_of(layer)}.npy").put(first, spread(embeddings, rows, first, last))


def kept(plan: Plan, layer: int, index: int) -> Floats:
    """A partition's embeddings that an earlier process wrote."""
    assert plan.work is not None
    rows = rows_of(plan.job().needed[layer + 1], *plan.parts[index])
    held: Floats = np.load(plan.work / f"{embeddings_of(layer)}.npy", mmap_mode="r")[rows]
    return held


def score(plan: Plan, index: int, targets: Nodes, embeddings: Floats) -> Floats:
    """Logits of the targets that lie in a partition."""
    rows = rows_of(plan.job().needed[-1], *plan.parts[index])
    return rounds.score(plan.slice(plan.spec.layers), embeddings[np.searchsorted(rows, targets)])
