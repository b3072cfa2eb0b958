"""What a worker trains through instead of an optimiser of its own: parameter servers, or all-reduce.

Both have the two methods that an epoch's loop calls, ``zero_grad`` before a batch is computed and ``step`` after it, so
that the loop, its loss and its kernels are those of one worker.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import distributed

from backends.agl.train.parameters import Layout, Vector
from backends.base.network import Network

Call = tuple[int, str, tuple[Any, ...]]
Ask = Callable[[Sequence[Call]], list[Any]]


@dataclass
class Traffic:
    """Seconds and bytes that one worker spent on its parameters; ``wait`` is for other workers, inside no other."""

    pull: float = 0.0
    push: float = 0.0
    wait: float = 0.0
    bytes_pulled: int = 0
    bytes_pushed: int = 0
    steps: int = 0

    def plus(self, other: "Traffic") -> "Traffic":
        """Add up."""
        return Traffic(**{item.name: getattr(self, item.name) + getattr(other, item.name) for item in fields(self)})


class Link(Protocol):
    """A worker's side of the exchange; ``weight`` is the number of labels of the batch at hand.

    ``computed`` collects the seconds between the two calls of each batch.
    """

    weight: float
    traffic: Traffic
    computed: list[float]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Make ready for a batch: newest parameters, no gradients."""
        ...

    def step(self) -> None:
        """Hand over the gradients of a batch."""
        ...

    def idle(self) -> None:
        """Take part in a step without a batch."""
        ...

    def probe(self, gradient: Vector) -> Vector | None:
        """Average a gradient over the workers and change nothing; ``None`` where the servers hold the mean."""
        ...


class Servers:
    """All servers as one: vectors are cut into their ranges and put together again.

    ``ask`` carries calls (server, method, arguments) out and returns their answers in order: directly, or through Ray.
    """

    def __init__(self, ask: Ask, bounds: Sequence[int]) -> None:
        self.ask, self.bounds = ask, list(bounds)
        self.count = len(self.bounds) - 1

    def _cut(self, vector: Vector | None) -> list[Vector | None]:
        if vector is None:
            return [None] * self.count
        return [vector[start:end] for start, end in pairwise(self.bounds)]

    def every(self, method: str, *arguments: Any) -> list[Any]:
        """Call one method of every server."""
        return self.ask([(server, method, arguments) for server in range(self.count)])

    def load(self, vector: Vector) -> None:
        """See ``ParameterServer``, as for the methods below."""
        self.ask([(server, "load", (part,)) for server, part in enumerate(self._cut(vector))])

    def pull(self, worker: int, step: int) -> tuple[Vector, float]:
        """The vector, and the longest wait."""
        answers = self.every("pull", worker, step)
        return np.concatenate([values for values, _ in answers]), max(waited for _, waited in answers)

    def push(self, worker: int, step: int, gradient: Vector | None, weight: float) -> None:
        """Push a range to each server."""
        self.ask([(at, "push", (worker, step, part, weight)) for at, part in enumerate(self._cut(gradient))])

    def probe(self, worker: int, gradient: Vector, weight: float) -> None:
        """Probe a range at each server."""
        self.ask([(at, "probe", (worker, part, weight)) for at, part in enumerate(self._cut(gradient))])

    def probe_mean(self) -> Vector:
        """The mean of what was probed."""
        return np.concatenate(self.every("probe_mean"))

    def values(self) -> Vector:
        """The vector as it is."""
        return np.concatenate(self.every("values"))

    def next_step(self, worker: int) -> int:
        """The first step of a worker that some server lacks."""
        return int(min(self.every("next_step", worker)))


class ServedLink:
    """Pull before each batch, push after it (AGL, section 3.3.1)."""

    def __init__(self, model: Network, layout: Layout, servers: Servers, rank: int, next_step: int = 0) -> None:
        self.model, self.layout, self.servers, self.rank = model, layout, servers, rank
        self.next_step = next_step
        self.weight, self.traffic = 0.0, Traffic()
        self.computed: list[float] = []
        self.since = 0.0

    def _pull(self) -> Vector:
        start = time.perf_counter()
        values, waited = self.servers.pull(self.rank, self.next_step)
        spent = max(0.0, time.perf_counter() - start - waited)
        self.traffic = self.traffic.plus(Traffic(pull=spent, wait=waited, bytes_pulled=values.nbytes))
        return values

    def _push(self, gradient: Vector | None) -> None:
        start = time.perf_counter()
        self.servers.push(self.rank, self.next_step, gradient, self.weight)
        size = 0 if gradient is None else gradient.nbytes
        self.traffic = self.traffic.plus(Traffic(push=time.perf_counter() - start, bytes_pushed=size, steps=1))
        self.next_step += 1

    def zero_grad(self, set_to_none: bool = True) -> None:
        """See ``Link``."""
        self.model.zero_grad(set_to_none=set_to_none)
        self.model.load(self.layout.split(self._pull()))
        self.since = time.perf_counter()

    def step(self) -> None:
        """See ``Link``."""
        self.computed.append(time.perf_counter() - self.since)
        self._push(self.layout.join(self.model.gradients()))

    def idle(self) -> None:
        """See ``Link``; nothing is pulled."""
        self._push(None)

    def probe(self, gradient: Vector) -> Vector | None:
        """See ``Link``."""
        self.servers.probe(self.rank, gradient, self.weight)
        return None


class ReducedLink:
    """Average gradients over all processes of torch.distributed, each with an optimiser of the same state."""

    def __init__(self, model: Network, layout: Layout, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.layout, self.optimizer = model, layout, optimizer
        self.weight, self.traffic = 0.0, Traffic()
        self.computed: list[float] = []
        self.since = 0.0

    def _mean(self, gradient: Vector) -> Vector | None:
        start = time.perf_counter()
        both = torch.from_numpy(np.append(gradient * np.float32(self.weight), np.float32(self.weight)))
        distributed.all_reduce(both)
        total = float(both[-1])
        sent = int(both.nbytes)
        spent = Traffic(push=time.perf_counter() - start, bytes_pushed=sent, bytes_pulled=sent, steps=1)
        self.traffic = self.traffic.plus(spent)
        return (both[:-1] / total).numpy() if total else None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """See ``Link``."""
        self.optimizer.zero_grad(set_to_none=set_to_none)
        self.since = time.perf_counter()

    def step(self) -> None:
        """See ``Link``."""
        self.computed.append(time.perf_counter() - self.since)
        self._apply(self.layout.join(self.model.gradients()))

    def idle(self) -> None:
        """See ``Link``."""
        self.weight = 0.0
        self._apply(np.zeros(self.layout.size, dtype=np.float32))

    def _apply(self, gradient: Vector) -> None:
        mean = self._mean(gradient)
        if mean is None:
            return
        for name, value in self.layout.split(mean).items():
            parameter, transposed = self.model.canonical()[name]
            found = torch.from_numpy(value)
            parameter.grad = (found.T if transposed else found).reshape(parameter.shape)
        self.optimizer.step()

    def probe(self, gradient: Vector) -> Vector | None:
        """See ``Link``."""
        return self._mean(gradient)
