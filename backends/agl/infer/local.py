"""GraphInfer on one machine: rounds over partitions of nodes, whatever is between them in memory-mapped files.

A round sends (each node's embedding becomes what its out-neighbours read, once), then receives (each partition pulls
what its in-edges name). There is no message table: an edge costs no bytes. Memory is bounded by a partition, beside
what the system keeps cached of the files.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.infer import rounds
from backends.agl.infer.job import Job
from backends.agl.infer.mapping import (
    Matrices,
    Progress,
    embeddings_of,
    folder_of,
    round_of,
    rows_of,
    spread,
    write_matrices,
)
from backends.agl.infer.slices import Slice, slices_of
from backends.agl.infer.workspace import Workspace

Floats = NDArray[np.float32]


_SCORED = 1 << 18


def silent(step: str, done: int, of: int) -> None:
    """Report nothing."""


def untimed(name: str) -> AbstractContextManager[None]:
    """Time nothing."""
    return nullcontext()


@dataclass
class LocalInference:
    """Map once, then K + 1 rounds; ``run`` goes on after the last round that an earlier process finished."""

    job: Job
    space: Workspace
    progress: Progress = silent
    phase: Callable[[str], AbstractContextManager[None]] = untimed
    computed: dict[str, int] = field(default_factory=dict)
    matrices: dict[str, Matrices] = field(default_factory=dict)

    def map(self) -> None:
        """Write the matrices of all layers; done once, whatever follows."""
        write_matrices(self.job, self.space, self.progress)

    def run(self) -> Floats:
        """Score the targets: logits [targets, classes]."""
        slices = slices_of(self.job.spec, self.job.state)
        for layer in range(self.job.spec.layers):
            step = round_of(layer)
            if not self.space.finished(step):
                self._round(slices[layer], layer)
                self.space.finish(step)
            self.space.drop(embeddings_of(layer - 1))
            self.space.drop(_messages(layer))
        with self.phase("score"):
            return self._score(slices[-1])

    def start_over(self) -> None:
        """Forget all rounds, keep what Map wrote."""
        self.computed.clear()
        for layer in range(self.job.spec.layers):
            self.space.forget(round_of(layer))

    def _round(self, part: Slice, layer: int) -> None:
        with self.phase("send"):
            sent = self._send(part, layer)
        with self.phase("receive"):
            self._receive(part, layer, sent)

    def _receive(self, part: Slice, layer: int, sent: dict[str, Floats]) -> None:
        """Write every needed node's embedding, a partition at a time."""
        name = folder_of(self.job, layer)
        if name not in self.matrices:
            self.matrices[name] = Matrices(self.job, self.space, layer)
        matrices = self.matrices[name]
        shape = (self.job.graph.nodes, rounds.width_of(part, layer))
        embeddings = self.space.rows(embeddings_of(layer), shape, np.float32)
        made = 0
        for done, (first, last) in enumerate(self.job.parts):
            rows = rows_of(self.job.needed[layer + 1], first, last)
            if len(rows):
                matrix = matrices.read(first, rows, last)
                pulled = {name: _at(array, rows) if name.startswith(rounds.KEPT) else array
                          for name, array in sent.items()}  # fmt: skip
                embeddings.put(first, spread(rounds.receive(part, layer, matrix, pulled), rows, first, last))
                matrices.release(first, last)
            made += len(rows)
            self.progress(f"round {layer + 1}: receive", done + 1, len(self.job.parts))
        for array in sent.values():
            self.space.release(array)
        self.computed[f"layer {layer + 1}"] = made

    def _send(self, part: Slice, layer: int) -> dict[str, Floats]:
        """Write what every node sends and keeps, an array per part of it, by node."""
        nodes = self.job.graph.nodes
        before = self.job.graph.features if layer == 0 else self.space.open(embeddings_of(layer - 1))
        assert before is not None
        made: dict[str, Floats] = {}
        pieces = self._sending(part, layer)
        for done, (first, last) in enumerate(pieces):
            rows = rows_of(self.job.needed[layer], first, last)
            if not len(rows):
                continue
            for name, value in rounds.send(part, layer, _at(before, rows)).items():
                if len(rows) == nodes:
                    made[name] = value
                    continue
                if name not in made:
                    made[name] = self.space.scratch(f"{_messages(layer)}/{name}", (nodes, *value.shape[1:]), np.float32)
                _put(made[name], rows, value)
            self.space.release(before[first:last])
            self.progress(f"round {layer + 1}: send", done + 1, len(pieces))
        return made

    def _sending(self, part: Slice, layer: int) -> list[tuple[int, int]]:
        """First and last nodes that send at once: all where memory holds their messages, and nothing else is copied."""
        nodes, width = self.job.graph.nodes, part.spec.width_out(layer) * part.spec.heads_of(layer)
        whole = self.job.needed[layer] is None and not self.space.unmap and self.space.small((nodes, width), np.float32)
        return [(0, nodes)] if whole else self.job.parts

    def _score(self, head: Slice) -> Floats:
        """Round K + 1."""
        job = self.job
        last = self.space.open(embeddings_of(job.spec.layers - 1))
        targets = np.arange(job.graph.nodes) if job.targets is None else job.targets
        scores = np.empty((len(targets), job.spec.classes), dtype=np.float32)
        for start in range(0, len(targets), _SCORED):
            piece = slice(start, start + _SCORED)
            scores[piece] = rounds.score(head, last[piece if job.targets is None else targets[piece]])
        self.computed["scores"] = len(targets)
        return scores

    def facts(self) -> dict[str, Any]:
        """Embeddings made per round, bytes written, and how the nodes were cut."""
        made = sum(count for name, count in self.computed.items() if name != "scores")
        rows = {"rounds": self.job.spec.layers + 1, "partitions": len(self.job.parts), "embeddings": made}
        return rows | {"made": dict(self.computed), "bytes_written": self.space.written}


def _messages(layer: int) -> str:
    return f"messages-{layer + 1}"


def _contiguous(rows: NDArray[np.int64]) -> slice | None:
    """The slice that ascending, distinct rows are, or ``None``."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return None


def _at(array: NDArray[Any], rows: NDArray[np.int64]) -> Floats:
    """Some rows of an array: a view of those that lie together."""
    together = _contiguous(rows)
    return np.asarray(array[rows if together is None else together])


def _put(array: NDArray[Any], rows: NDArray[np.int64], values: Floats) -> None:
    together = _contiguous(rows)
    array[rows if together is None else together] = values
