"""One parameter server: a range of the parameters, their optimiser, and the rule by which workers wait.

Every worker counts its steps: before step s it pulls, after it it pushes. A pull of step s waits until every worker has
pushed step ``s - 1 - slack``: slack is 0 when synchronous, ``staleness`` when bounded (Ho et al., NIPS 2013), without
bound when asynchronous. Synchronous gradients are kept until all workers have pushed that step, then their mean is
applied; the others are applied as they arrive.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from backends.agl.train.parameters import Vector
from backends.base.optimizer import optimizer_over
from backends.model import TrainingSpec

STRATEGIES = ("sync", "async", "bounded")


@dataclass(frozen=True)
class Rules:
    """How the workers' gradients come together; ``checkpoint_every`` counts updates, 0 writes no checkpoint."""

    workers: int
    strategy: str = "sync"
    staleness: int = 0
    checkpoint_every: int = 0

    @property
    def slack(self) -> float:
        """Steps by which a worker may be ahead of the slowest."""
        return {"sync": 0.0, "bounded": float(self.staleness), "async": float("inf")}[self.strategy]


@dataclass
class Mean:
    """Gradients of one step by worker, averaged by weight; the order of arrival does not show in the sum."""

    parts: dict[int, tuple[Vector, float]] = field(default_factory=dict)

    def take(self) -> Vector | None:
        """Return the weighted mean, ``None`` where nothing has weight."""
        kept = [self.parts[worker] for worker in sorted(self.parts) if self.parts[worker][1] > 0]
        total = sum(weight for _, weight in kept)
        if not kept:
            return None
        mean = np.zeros_like(kept[0][0])
        for gradient, weight in kept:
            mean += gradient * np.float32(weight / total)
        return mean


class ParameterServer:
    """A range of the parameters; every method may be called from many threads at once.

    ``decayed`` elements, from the first, take weight decay. With a ``checkpoint`` file that exists, the server goes on
    from there: what was applied after it was written is lost, nothing else.
    """

    def __init__(self, rules: Rules, training: TrainingSpec, decayed: int, checkpoint: str | None = None) -> None:
        self.rules, self.training, self.decayed = rules, training, decayed
        self.checkpoint = Path(checkpoint) if checkpoint and rules.checkpoint_every else None
        self.changed = threading.Condition()
        self.aborted = self.begun = False
        self.seconds = self.waited = 0.0
        self.updates_in_all = self.checkpoints = self.oldest = 0
        if self.checkpoint is not None and self.checkpoint.exists():
            self._restore(self.checkpoint)

    def load(self, values: Vector) -> None:
        """Start anew from these values: optimiser, steps and counters."""
        with self.changed:
            self._begin(torch.from_numpy(np.array(values, dtype=np.float32)))
            self._write_checkpoint()

    def _begin(self, values: torch.Tensor) -> None:
        self.vector, self.begun = values, True
        cut = min(self.decayed, len(values))
        first, rest = ([nn.Parameter(part)] if len(part) else [] for part in (values[:cut], values[cut:]))
        self.parts = first + rest
        self.optimizer = optimizer_over(first, rest, self.training)
        self.clocks = [-1] * self.rules.workers
        self.pulled_at = [0] * self.rules.workers
        self.applied, self.updates = -1, 0
        self.pending: dict[int, Mean] = {}
        self.probed = Mean()
        self.restored: int | None = None

    def pull(self, worker: int, step: int) -> tuple[Vector, float]:
        """Return the values from which ``worker`` computes ``step``, and the seconds it had to wait for others.

        To ask for a step says that all earlier ones were pushed, so what a restarted server lost is not waited for.
        """
        start = time.perf_counter()
        with self.changed:
            self._refuse_lost()
            self._tick(worker, step - 1)
            self.changed.wait_for(lambda: self.aborted or min(self.clocks) >= step - 1 - self.rules.slack)
            if self.aborted:
                raise RuntimeError("another worker failed")
            waited = time.perf_counter() - start
            self.waited += waited
            self.pulled_at[worker] = self.updates
            values = self.vector.numpy().copy()
            self.seconds += time.perf_counter() - start - waited
            return values, waited

    def push(self, worker: int, step: int, gradient: Vector | None, weight: float) -> None:
        """Take the mean gradient over ``weight`` labels; ``None`` only says that the step is over.

        A step that came before is ignored, so a push may be repeated.
        """
        with self._busy():
            if step <= self.clocks[worker]:
                return
            self.clocks[worker] = step
            if gradient is not None and self.rules.strategy == "sync":
                self.pending.setdefault(step, Mean()).parts[worker] = (np.array(gradient), weight)
            elif gradient is not None and weight > 0:
                self.oldest = max(self.oldest, self.updates - self.pulled_at[worker])
                self._update(gradient)
            self._tick(worker, step)

    def _tick(self, worker: int, step: int) -> None:
        """Note that a worker is done with ``step``; apply the synchronous steps with which all are done."""
        self.clocks[worker] = max(self.clocks[worker], step)
        while self.applied < min(self.clocks):
            self.applied += 1
            mean = self.pending.pop(self.applied, Mean()).take()
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
        """Take a gradient that changes nothing; ``probe_mean`` averages it as ``push`` would."""
        with self._busy():
            self.probed.parts[worker] = (np.array(gradient), weight)

    def probe_mean(self) -> Vector | None:
        """Return the mean of the gradients probed since the last call."""
        with self._busy():
            mean, self.probed = self.probed.take(), Mean()
            return mean

    def values(self) -> Vector:
        """Copy the values as they are."""
        with self._busy():
            copied: Vector = self.vector.numpy().copy()
            return copied

    def next_step(self, worker: int) -> int:
        """The first step that this worker has not pushed."""
        with self._busy():
            return self.clocks[worker] + 1

    def abort(self) -> None:
        """Let no worker wait for one that failed."""
        with self.changed:
            self.aborted = True
            self.changed.notify_all()

    def facts(self) -> dict[str, Any]:
        """Updates since the last ``load``, and, of this process: all updates, checkpoints, seconds at work.

        ``waited`` are the seconds of pulls, ``oldest_gradient`` the most updates that came between pull and push.
        """
        with self.changed:
            self._refuse_lost()
            counts = {"elements": len(self.vector), "updates": self.updates, "updates_in_all": self.updates_in_all}
            counts["checkpoints"] = self.checkpoints
            spent = {"seconds": self.seconds, "waited": self.waited}
            return counts | spent | {"oldest_gradient": self.oldest, "restored_at_update": self.restored}

    @contextmanager
    def _busy(self) -> Iterator[None]:
        with self.changed:
            self._refuse_lost()
            start = time.perf_counter()
            try:
                yield
            finally:
                self.seconds += time.perf_counter() - start

    def _refuse_lost(self) -> None:
        """Raise RuntimeError where the parameters went with an earlier process of this server."""
        if not self.begun:
            raise RuntimeError(
                "a parameter server ended, and checkpoint_every=0 kept nothing that it could go on from: train again, "
                "and set checkpoint_every to the updates that may be lost"
            )

    def _write_checkpoint(self) -> None:
        """Write the state, whole or not at all."""
        if self.checkpoint is None:
            return
        held = {
            "vector": self.vector.clone(),
            "optimizer": self.optimizer.state_dict(),
            "clocks": list(self.clocks),
            "applied": self.applied,
            "updates": self.updates,
        }
        temporary = self.checkpoint.with_suffix(".tmp")
        torch.save(held, temporary)
        temporary.replace(self.checkpoint)
        self.checkpoints += 1

    def _restore(self, path: Path) -> None:
        try:
            held = torch.load(path, weights_only=True)
        except Exception as error:
            raise ValueError(f"{path} is no whole checkpoint, its server cannot go on: train again") from error
        self._begin(held["vector"])
        self.optimizer.load_state_dict(held["optimizer"])
        self.clocks, self.applied, self.updates = held["clocks"], held["applied"], held["updates"]
        self.pulled_at = [self.updates] * self.rules.workers  # what came before is no worker's staleness
        self.restored = self.updates
