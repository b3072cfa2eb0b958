"""Gradient exchange of a worker, in place of an optimizer: through parameter servers or by all-reduce.

Both implement the methods of an optimizer that the loop of an epoch calls, ``zero_grad`` before a batch and ``step``
after it, so that one worker and many run the same loop, loss and kernels.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import distributed

from backends.base.network import Network
from backends.base.parameter_server import ParameterLayout, Vector

Call = tuple[int, str, tuple[Any, ...]]
Ask = Callable[[Sequence[Call]], list[Any]]


@dataclass
class Traffic:
    """Seconds and bytes of one worker's exchanges; ``pull`` and ``push`` exclude the ``wait`` for other workers."""

    pull: float = 0.0
    push: float = 0.0
    wait: float = 0.0
    bytes_pulled: int = 0
    bytes_pushed: int = 0
    steps: int = 0

    def plus(self, other: "Traffic") -> "Traffic":
        """Add the traffic of another exchange."""
        return Traffic(**{count.name: getattr(self, count.name) + getattr(other, count.name) for count in fields(self)})


class GradientExchange(Protocol):
    """A worker's side of the exchange; ``weight`` is the number of labels in the current batch.

    ``computed`` holds the seconds from ``zero_grad`` to ``step`` of each batch.
    """

    weight: float
    traffic: Traffic
    computed: list[float]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Prepare a batch: fetch the newest parameters and clear gradients."""
        ...

    def step(self) -> None:
        """Exchange the gradients of a batch."""
        ...

    def idle(self) -> None:
        """Take part in a step for which this worker has no batch."""
        ...

    def probe(self, gradient: Vector) -> Vector | None:
        """Average a gradient over the workers without an update; ``None`` where the servers keep the mean."""
        ...


class Servers:
    """Client of all parameter servers: splits vectors into the servers' ranges and joins their answers.

    ``ask`` executes calls (server, method, arguments), directly or through Ray, and returns the answers in order.
    """

    def __init__(self, ask: Ask, bounds: Sequence[int]) -> None:
        self.ask, self.bounds = ask, list(bounds)
        self.count = len(self.bounds) - 1

    def _split(self, vector: Vector | None) -> list[Vector | None]:
        if vector is None:
            return [None] * self.count
        return [vector[start:end] for start, end in pairwise(self.bounds)]

    def call_all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every server with the same arguments."""
        return self.ask([(server, method, arguments) for server in range(self.count)])

    def load(self, vector: Vector) -> None:
        """Reset the servers to these parameters."""
        self.ask([(server, "load", (part,)) for server, part in enumerate(self._split(vector))])

    def resume(self, snapshots: Sequence[dict[str, Any]]) -> None:
        """Let each server go on from its snapshot."""
        self.ask([(server, "resume", (snapshot,)) for server, snapshot in enumerate(snapshots)])

    def pull(self, worker: int, step: int) -> tuple[Vector, float]:
        """The parameters for a step of a worker, and the longest wait in seconds."""
        answers = self.call_all("pull", worker, step)
        return np.concatenate([values for values, _ in answers]), max(waited for _, waited in answers)

    def push(self, worker: int, step: int, gradient: Vector | None, weight: float) -> None:
        """Send a gradient, its range to each server."""
        self.ask([(at, "push", (worker, step, part, weight)) for at, part in enumerate(self._split(gradient))])

    def finish(self, worker: int, step: int) -> None:
        """Tell the servers that a worker pushed all steps before ``step``; wait until all workers have."""
        self.call_all("finish", worker, step)

    def probe(self, worker: int, gradient: Vector, weight: float) -> None:
        """Send a gradient to be averaged without an update."""
        self.ask([(at, "probe", (worker, part, weight)) for at, part in enumerate(self._split(gradient))])

    def probe_mean(self) -> Vector:
        """The mean of the probed gradients."""
        return np.concatenate(self.call_all("probe_mean"))

    def values(self) -> Vector:
        """The current parameters."""
        return np.concatenate(self.call_all("values"))

    def next_step(self, worker: int) -> int:
        """The first step of a worker that some server has not received."""
        return int(min(self.call_all("next_step", worker)))


class ServerExchange:
    """Exchange through parameter servers: pull before each batch, push after it (AGL, section 3.3)."""

    def __init__(
        self, model: Network, layout: ParameterLayout, servers: Servers, rank: int, next_step: int = 0
    ) -> None:
        self.model, self.layout, self.servers, self.rank = model, layout, servers, rank
        self.next_step = next_step
        self.weight, self.traffic = 0.0, Traffic()
        self.computed: list[float] = []
        self.since = 0.0

    def _pull(self) -> Vector:
        start = time.perf_counter()
        values, waited = self.servers.pull(self.rank, self.next_step)
        seconds = max(0.0, time.perf_counter() - start - waited)
        self.traffic = self.traffic.plus(Traffic(pull=seconds, wait=waited, bytes_pulled=values.nbytes))
        return values

    def _push(self, gradient: Vector | None) -> None:
        start = time.perf_counter()
        self.servers.push(self.rank, self.next_step, gradient, self.weight)
        size = 0 if gradient is None else gradient.nbytes
        self.traffic = self.traffic.plus(Traffic(push=time.perf_counter() - start, bytes_pushed=size, steps=1))
        self.next_step += 1

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Pull the parameters and load them into the model."""
        self.model.zero_grad(set_to_none=set_to_none)
        self.model.load(self.layout.split(self._pull()))
        self.since = time.perf_counter()

    def step(self) -> None:
        """Push the gradients of the batch."""
        self.computed.append(time.perf_counter() - self.since)
        self._push(self.layout.join(self.model.gradients()))

    def idle(self) -> None:
        """Tell the servers that this step has no gradient; nothing is pulled."""
        self._push(None)

    def probe(self, gradient: Vector) -> Vector | None:
        """Send a gradient to be averaged; the servers keep the mean."""
        self.servers.probe(self.rank, gradient, self.weight)
        return None


class AllReduceExchange:
    """Exchange by all-reduce: gradients are averaged over all ranks, each with an optimizer of the same state."""

    def __init__(self, model: Network, layout: ParameterLayout, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.layout, self.optimizer = model, layout, optimizer
        self.weight, self.traffic = 0.0, Traffic()
        self.computed: list[float] = []
        self.since = 0.0

    def _mean(self, gradient: Vector) -> Vector | None:
        start = time.perf_counter()
        summed = torch.from_numpy(np.append(gradient * np.float32(self.weight), np.float32(self.weight)))
        distributed.all_reduce(summed)
        total = float(summed[-1])
        size, seconds = int(summed.nbytes), time.perf_counter() - start
        self.traffic = self.traffic.plus(Traffic(push=seconds, bytes_pushed=size, bytes_pulled=size, steps=1))
        return (summed[:-1] / total).numpy() if total else None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; every rank holds the newest parameters already."""
        self.optimizer.zero_grad(set_to_none=set_to_none)
        self.since = time.perf_counter()

    def step(self) -> None:
        """Average the gradients over all ranks and update."""
        self.computed.append(time.perf_counter() - self.since)
        self._apply(self.layout.join(self.model.gradients()))

    def idle(self) -> None:
        """Take part in the average with weight 0, and update."""
        self.weight = 0.0
        self._apply(np.zeros(self.layout.size, dtype=np.float32))

    def _apply(self, gradient: Vector) -> None:
        mean = self._mean(gradient)
        if mean is None:
            return
        for name, value in self.layout.split(mean).items():
            parameter, transposed = self.model.canonical()[name]
            gradient_part = torch.from_numpy(value)
            parameter.grad = (gradient_part.T if transposed else gradient_part).reshape(parameter.shape)
        self.optimizer.step()

    def probe(self, gradient: Vector) -> Vector | None:
        """The mean of a gradient over all ranks."""
        return self._mean(gradient)
