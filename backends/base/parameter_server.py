"""A parameter server: a range of the vector of all parameters, its optimizer, and the synchronisation of workers.

Workers count their steps: a worker pulls before step s and pushes after it. A pull of step s waits until every worker
has pushed step ``s - 1 - slack``. Slack is 0 for synchronous training, ``staleness`` for bounded (stale synchronous
parallel, Ho et al., NIPS 2013), and infinite for asynchronous. Synchronous gradients are stored until all workers have
pushed the step, then their mean is applied; other gradients are applied on arrival.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from backends.base.optimizer import optimizer_over
from backends.model import ModelSpec, State, TrainingSpec

Vector = NDArray[np.float32]
STRATEGIES = ("sync", "async", "bounded")


@dataclass(frozen=True)
class ParameterLayout:
    """Offsets of a model's canonical parameters in the vector: one after the other, in canonical order."""

    spec: ModelSpec

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters by canonical name."""
        return self.spec.parameters()

    @cached_property
    def size(self) -> int:
        """Length of the vector."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def join(self, state: State) -> Vector:
        """Concatenate canonical parameters, or their gradients, into one vector."""
        return np.concatenate([np.asarray(state[name], dtype=np.float32).ravel() for name in self.shapes])

    def split(self, vector: Vector) -> State:
        """The canonical parameters in a vector, as views."""
        parts = np.split(vector, np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def bounds(self, servers: int) -> list[int]:
        """First element of each server's range, and the end; ranges differ by at most one element."""
        return [self.size * server // servers for server in range(servers + 1)]

    def decayed(self, training: TrainingSpec) -> int:
        """Number of elements, from the first, that have weight decay: all, or those of the first layer."""
        if training.decay_on == "all":
            return self.size
        return sum(int(np.prod(shape)) for name, shape in self.shapes.items() if name.startswith("layers.0."))


@dataclass(frozen=True)
class UpdateRules:
    """How servers combine gradients of workers; a checkpoint every ``checkpoint_every`` updates, none for 0."""

    workers: int
    strategy: str = "sync"
    staleness: int = 0
    checkpoint_every: int = 0

    @property
    def slack(self) -> float:
        """Number of steps that a worker may be ahead of the slowest."""
        return {"sync": 0.0, "bounded": float(self.staleness), "async": float("inf")}[self.strategy]


@dataclass
class StepGradients:
    """Gradients of one step by worker; their weighted mean does not depend on the order of arrival."""

    parts: dict[int, tuple[Vector, float]] = field(default_factory=dict)

    def take(self) -> Vector | None:
        """The weighted mean, ``None`` where all weights are 0."""
        weighted = [self.parts[worker] for worker in sorted(self.parts) if self.parts[worker][1] > 0]
        total = sum(weight for _, weight in weighted)
        if not weighted:
            return None
        mean = np.zeros_like(weighted[0][0])
        for gradient, weight in weighted:
            mean += gradient * np.float32(weight / total)
        return mean


class ParameterServer:
    """A range of the parameters; methods may be called from many threads at once.

    The first ``decayed`` elements have weight decay. A server whose ``checkpoint`` file exists starts from it; only
    the updates since it was written are lost. It is written every ``checkpoint_every`` updates, and when all workers
    have finished an epoch.
    """

    def __init__(self, rules: UpdateRules, training: TrainingSpec, decayed: int, checkpoint: str | None = None) -> None:
        self.rules, self.training, self.decayed = rules, training, decayed
        self.checkpoint = Path(checkpoint) if checkpoint and rules.checkpoint_every else None
        self.changed = threading.Condition()
        self.aborted = self.begun = False
        self.seconds = self.waited = 0.0
        self.updates_in_all = self.checkpoints = self.oldest = 0
        if self.checkpoint is not None and self.checkpoint.exists():
            self._restore(self.checkpoint)

    def load(self, values: Vector) -> None:
        """Start from these values, with a new optimizer and counters."""
        with self.changed:
            self._begin(torch.from_numpy(np.array(values, dtype=np.float32)))
            self._write_checkpoint()

    def _begin(self, values: torch.Tensor) -> None:
        self.vector, self.begun = values, True
        cut = min(self.decayed, len(values))
        decayed, undecayed = ([nn.Parameter(part)] if len(part) else [] for part in (values[:cut], values[cut:]))
        self.parts = decayed + undecayed
        self.optimizer = optimizer_over(decayed, undecayed, self.training)
        self.clocks = [-1] * self.rules.workers
        self.pulled_at = [0] * self.rules.workers
        self.applied, self.updates, self.finished = -1, 0, 0
        self.pending: dict[int, StepGradients] = {}
        self.probed = StepGradients()
        self.restored: int | None = None

    def pull(self, worker: int, step: int) -> tuple[Vector, float]:
        """Return the values for ``step`` of ``worker``, and the seconds that it waited for other workers.

        A pull implies that the worker pushed all earlier steps, so a restarted server does not wait for those it lost.
        """
        start = time.perf_counter()
        with self.changed:
            self._await(worker, step, self.rules.slack)
            waited = time.perf_counter() - start
            self.waited += waited
            self.pulled_at[worker] = self.updates
            values = self.vector.numpy().copy()
            self.seconds += time.perf_counter() - start - waited
            return values, waited

    def finish(self, worker: int, step: int) -> None:
        """Wait until all workers have pushed the steps before ``step``, as this one has.

        The state is written before the first worker leaves. A server that is started again later would otherwise wait
        for steps that it lost, of workers that make no call until the others are ready.
        """
        with self.changed:
            self._await(worker, step, 0)
            if self.finished < step:
                self.finished = step
                self._write_checkpoint()

    def _await(self, worker: int, step: int, slack: float) -> None:
        """Record that a worker pushed the steps before ``step``; wait until the others have, but for ``slack``."""
        self._check_loaded()
        self._tick(worker, step - 1)
        self.changed.wait_for(lambda: self.aborted or min(self.clocks) >= step - 1 - slack)
        if self.aborted:
            raise RuntimeError("another worker failed")

    def push(self, worker: int, step: int, gradient: Vector | None, weight: float) -> None:
        """Accept the mean gradient over ``weight`` labels; ``None`` is a step without a batch.

        A step that was pushed before is ignored, so a push may be repeated.
        """
        with self._busy():
            if step <= self.clocks[worker]:
                return
            self.clocks[worker] = step
            if gradient is not None and self.rules.strategy == "sync":
                self.pending.setdefault(step, StepGradients()).parts[worker] = (np.array(gradient), weight)
            elif gradient is not None and weight > 0:
                self.oldest = max(self.oldest, self.updates - self.pulled_at[worker])
                self._update(gradient)
            self._tick(worker, step)

    def _tick(self, worker: int, step: int) -> None:
        """Record that a worker finished ``step``; apply the synchronous steps that all workers have finished."""
        self.clocks[worker] = max(self.clocks[worker], step)
        while self.applied < min(self.clocks):
            self.applied += 1
            mean = self.pending.pop(self.applied, StepGradients()).take()
            if mean is not None:
                self._update(mean)
        self.changed.notify_all()

    def _update(self, gradient: Vector) -> None:
        pieces = np.split(np.array(gradient, dtype=np.float32), [len(self.parts[0])])
        for part, piece in zip(self.parts, pieces, strict=False):
            part.grad = torch.from_numpy(piece)
        self.optimizer.step()
        self.updates += 1
        self.updates_in_all += 1
        if self.rules.checkpoint_every and self.updates % self.rules.checkpoint_every == 0:
            self._write_checkpoint()

    def probe(self, worker: int, gradient: Vector, weight: float) -> None:
        """Accept a gradient for ``probe_mean``, which averages as ``push`` does but does not update."""
        with self._busy():
            self.probed.parts[worker] = (np.array(gradient), weight)

    def probe_mean(self) -> Vector | None:
        """The mean of the gradients probed since the last call."""
        with self._busy():
            mean, self.probed = self.probed.take(), StepGradients()
            return mean

    def values(self) -> Vector:
        """A copy of the current values."""
        with self._busy():
            copied: Vector = self.vector.numpy().copy()
            return copied

    def next_step(self, worker: int) -> int:
        """The first step that this worker has not pushed."""
        with self._busy():
            return self.clocks[worker] + 1

    def abort(self) -> None:
        """End all waiting pulls with an error, after a worker failed."""
        with self.changed:
            self.aborted = True
            self.changed.notify_all()

    def facts(self) -> dict[str, Any]:
        """Updates since the last ``load``; all updates, checkpoints and working seconds of this process.

        ``waited`` are seconds that pulls waited, ``oldest_gradient`` the most updates between a pull and its push.
        """
        with self.changed:
            self._check_loaded()
            counts = {"elements": len(self.vector), "updates": self.updates, "updates_in_all": self.updates_in_all}
            counts["checkpoints"] = self.checkpoints
            times = {"seconds": self.seconds, "waited": self.waited}
            return counts | times | {"oldest_gradient": self.oldest, "restored_at_update": self.restored}

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Hold the lock and add to the working seconds."""
        with self.changed:
            self._check_loaded()
            start = time.perf_counter()
            try:
                yield
            finally:
                self.seconds += time.perf_counter() - start

    def _check_loaded(self) -> None:
        """Raise RuntimeError in a server that was restarted without a checkpoint."""
        if not self.begun:
            raise RuntimeError(
                "a parameter server ended, and with checkpoint_every=0 it has no checkpoint to start from: train "
                "again, and set checkpoint_every to the updates that may be lost"
            )

    def snapshot(self) -> dict[str, Any]:
        """The values, the optimizer's state, and the steps of all workers."""
        with self._busy():
            return self._state()

    def resume(self, snapshot: dict[str, Any]) -> None:
        """Go on from what ``snapshot`` returned."""
        with self.changed:
            self._take(snapshot)
            self._write_checkpoint()

    def _state(self) -> dict[str, Any]:
        state = {"vector": self.vector.clone(), "optimizer": self.optimizer.state_dict()}
        return state | {"clocks": list(self.clocks), "applied": self.applied, "updates": self.updates}

    def _take(self, state: dict[str, Any]) -> None:
        self._begin(state["vector"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.clocks, self.applied, self.updates = list(state["clocks"]), state["applied"], state["updates"]

    def _write_checkpoint(self) -> None:
        """Write the state under a temporary name and rename it."""
        if self.checkpoint is None:
            return
        temporary = self.checkpoint.with_suffix(".tmp")
        torch.save(self._state(), temporary)
        temporary.replace(self.checkpoint)
        self.checkpoints += 1

    def _restore(self, path: Path) -> None:
        try:
            state = torch.load(path, weights_only=True)
        except Exception as error:
            raise ValueError(
                f"{path} is no complete checkpoint, its server cannot start from it: train again"
            ) from error
        self._take(state)
        self.pulled_at = [self.updates] * self.rules.workers  # staleness counts from the restart
        self.restored = self.updates
