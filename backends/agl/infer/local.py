"""GraphInfer in one process: rounds over partitions of nodes, with memory-mapped files between the rounds.

In a round every node first sends one message, computed from its embedding, for all its out-neighbours; then each
partition receives: it gathers the messages along its in-edges. Messages are stored per node, not per edge. Memory is
bounded by a partition, apart from the file pages that the system caches.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.infer import rounds
from backends.agl.infer.job import InferenceJob
from backends.agl.infer.map_stage import (
    LayerMatrices,
    embeddings_name,
    matrix_name,
    needed_rows,
    round_name,
    scatter_rows,
    write_matrices,
)
from backends.agl.infer.slices import Slice
from backends.agl.infer.workspace import Workspace
from backends.agl.networks import model_slices
from backends.progress import Progress, silent
from datasets.features import Features, SparseFeatures

Floats = NDArray[np.float32]
TARGETS_AT_ONCE = 1 << 18


def untimed(name: str) -> AbstractContextManager[None]:
    """A phase that is not timed."""
    return nullcontext()


@dataclass
class LocalInference:
    """Map once, then K + 1 rounds; ``run`` resumes after the last round that an earlier process finished."""

    job: InferenceJob
    space: Workspace
    progress: Progress = silent
    phase: Callable[[str], AbstractContextManager[None]] = untimed
    computed: dict[str, int] = field(default_factory=dict)
    matrices: dict[str, LayerMatrices] = field(default_factory=dict)

    def map(self) -> None:
        """Write the matrices of all layers, once for all runs."""
        write_matrices(self.job, self.space, self.progress)

    def run(self) -> Floats:
        """Score the targets: logits [targets, classes]."""
        slices = model_slices(self.job.spec, self.job.state, self.job.sparse_input)
        for layer in range(self.job.spec.layers):
            step = round_name(layer)
            if not self.space.finished(step):
                self._round(slices[layer], layer)
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

    def _round(self, model_slice: Slice, layer: int) -> None:
        with self.phase("send"):
            sent = self._send(model_slice, layer)
        with self.phase("receive"):
            self._receive(model_slice, layer, sent)

    def _receive(self, model_slice: Slice, layer: int, sent: dict[str, Floats]) -> None:
        """Compute and write the embedding of every needed node, a partition at a time."""
        name = matrix_name(self.job, layer)
        if name not in self.matrices:
            self.matrices[name] = LayerMatrices(self.job, self.space, layer)
        matrices = self.matrices[name]
        shape = (self.job.graph.nodes, rounds.width_of(model_slice, layer))
        embeddings = self.space.rows(embeddings_name(layer), shape, np.float32)
        computed = 0
        for done, (first, last) in enumerate(self.job.parts):
            rows = needed_rows(self.job.needed[layer + 1], first, last)
            if len(rows):
                matrix = matrices.read(first, rows, last)
                messages = {name: _at(array, rows) if name.startswith(rounds.KEPT) else array
                          for name, array in sent.items()}  # fmt: skip
                values = rounds.receive(model_slice, layer, matrix, messages)
                embeddings.put(first, scatter_rows(values, rows, first, last))
                matrices.release(first, last)
            computed += len(rows)
            self.progress(f"round {layer + 1}: receive", done + 1, len(self.job.parts))
        for array in sent.values():
            self.space.release(array)
        self.computed[f"layer {layer + 1}"] = computed

    def _send(self, model_slice: Slice, layer: int) -> dict[str, Floats]:
        """Compute the messages of all needed nodes: an array per part of a message, indexed by node."""
        nodes = self.job.graph.nodes
        inputs = self.job.graph.features if layer == 0 else self.space.open(embeddings_name(layer - 1))
        assert inputs is not None
        messages: dict[str, Floats] = {}
        ranges = self._send_ranges(model_slice, layer, inputs)
        for done, (first, last) in enumerate(ranges):
            rows = needed_rows(self.job.needed[layer], first, last)
            if not len(rows):
                continue
            for name, value in rounds.send(model_slice, layer, _at(inputs, rows)).items():
                if len(rows) == nodes:
                    messages[name] = value
                    continue
                if name not in messages:
                    array_name = f"{_messages_name(layer)}/{name}"
                    messages[name] = self.space.scratch(array_name, (nodes, *value.shape[1:]), np.float32)
                _put(messages[name], rows, value)
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
        messages = rounds.send(model_slice, layer, row).values()
        copies = [message for message in messages if is_sparse or not np.may_share_memory(message, row)]
        return all(small((nodes, *message.shape[1:]), message.dtype) for message in copies)

    def _score(self, head: Slice) -> Floats:
        """Round K + 1: the prediction head on the targets' embeddings."""
        job = self.job
        last = self.space.open(embeddings_name(job.spec.layers - 1))
        targets = np.arange(job.graph.nodes) if job.targets is None else job.targets
        scores = np.empty((len(targets), job.spec.classes), dtype=np.float32)
        for start in range(0, len(targets), TARGETS_AT_ONCE):
            span = slice(start, start + TARGETS_AT_ONCE)
            scores[span] = rounds.score(head, last[span if job.targets is None else targets[span]])
        self.computed["scores"] = len(targets)
        return scores

    def facts(self) -> dict[str, Any]:
        """Rounds, partitions, computed embeddings (total, and by round), bytes written."""
        embeddings = sum(count for name, count in self.computed.items() if name != "scores")
        rows = {"rounds": self.job.spec.layers + 1, "partitions": len(self.job.parts), "embeddings": embeddings}
        return rows | {"made": dict(self.computed), "bytes_written": self.space.written}


def _messages_name(layer: int) -> str:
    return f"messages-{layer + 1}"


def _contiguous(rows: NDArray[np.int64]) -> slice | None:
    """The slice equal to ascending, distinct rows, or ``None`` where they have gaps."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return None


def _at(array: Any, rows: NDArray[np.int64]) -> Features:
    """Some rows of an array, as a view where they are contiguous; of sparse features a copy."""
    if isinstance(array, SparseFeatures):
        return array[rows]
    span = _contiguous(rows)
    return np.asarray(array[rows if span is None else span])


def _put(array: NDArray[Any], rows: NDArray[np.int64], values: Floats) -> None:
    span = _contiguous(rows)
    array[rows if span is None else span] = values
