"""The driver of GraphFlat's tasks: map tasks with one result per reducer, reduce tasks, store tasks; and executors.

A task keeps its results in the job's partial folder; a run that was killed finds them there and goes on by round.
"""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from backends.agl.flat import mapreduce
from backends.agl.flat.local import BATCH, MOST_BYTES, bytes_of
from backends.agl.flat.mapreduce import Plan, State
from backends.agl.flat.rounds import Ints
from backends.agl.flat.shards import Sizes, shard_once
from backends.agl.flat.source import Source
from backends.agl.flat.store import Neighbourhoods, flatten

Progress = Callable[[int, int], None]
Task = Callable[..., list[Any]]


class Executor(Protocol):
    """Where tasks run; a handle stands for one result."""

    def put(self, value: Any) -> Any:
        """Make a value a handle."""
        ...

    def submit(self, results: int, task: Task, *arguments: Any) -> list[Any]:
        """Start a task that returns a list of ``results``; arguments may be handles."""
        ...

    def get(self, handles: list[Any]) -> list[Any]:
        """Wait for results."""
        ...


class Inline:
    """Runs each task at once in this process."""

    def put(self, value: Any) -> Any:
        """See ``Executor``."""
        return value

    def submit(self, results: int, task: Task, *arguments: Any) -> list[Any]:
        """See ``Executor``."""
        return task(*arguments)

    def get(self, handles: list[Any]) -> list[Any]:
        """See ``Executor``."""
        return handles


class OnRay:
    """Runs tasks on Ray, which retries them, reconstructs what was lost and spills what does not fit."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.run = ray.remote(max_retries=3)(_unpacked)

    def put(self, value: Any) -> Any:
        """See ``Executor``."""
        return self.ray.put(value)

    def submit(self, results: int, task: Task, *arguments: Any) -> list[Any]:
        """See ``Executor``."""
        made = self.run.options(num_returns=results).remote(results, task, *arguments)
        return [made] if results == 1 else list(made)

    def get(self, handles: list[Any]) -> list[Any]:
        """See ``Executor``; an error in a task is raised as it is, the end of Ray's tries as ChildProcessError."""
        failures = self.ray.exceptions
        try:
            return list(self.ray.get(handles))
        except failures.RayTaskError as error:
            raise error.cause from error
        except failures.RayError as error:
            raise ChildProcessError(f"Ray gave up on a task, another run goes on from here: {error}") from error


def _unpacked(results: int, task: Task, *arguments: Any) -> Any:
    made = task(*arguments)
    return made[0] if results == 1 else tuple(made)


def kept(path: Path, task: Task, *arguments: Any) -> list[Any]:
    """Run a task unless its results lie at ``path``; leave them there."""
    if path.is_file():
        with path.open("rb") as file:
            return list(pickle.load(file))
    made = task(*arguments)
    unnamed = path.with_name(f".{path.name}.{os.getpid()}")
    with unnamed.open("wb") as file:
        pickle.dump(made, file, protocol=5)
    unnamed.replace(path)
    return made


def store_shard(partial: Path, plan: Plan, number: int, embed: bool, *parts: Neighbourhoods) -> list[Any]:
    """Store: write a shard from what all reducers found of its targets; returns its sizes and distinct nodes."""
    source = Source.open(plan.source)
    records = bytes_of(sum(len(part.edges.asked) for part in parts), source) // parts[0].count
    size = max(1, min(BATCH, MOST_BYTES // max(records, 1)))
    batches = (flatten(found, source, embed=embed) for found in mapreduce.pieces(parts, plan.nodes, size))
    return [shard_once(partial, number, batches, source, embed)]


class Rounds:
    """One GraphFlat run by tasks."""

    def __init__(self, executor: Executor, partial: Path, plan: Plan, progress: Progress | None = None) -> None:
        self.executor, self.partial, self.progress = executor, partial, progress
        self.plan, self.held = plan, executor.put(plan)
        self.folder = partial / f"rounds-{plan.reducers}-{plan.hub_threshold}"
        self.folder.mkdir(exist_ok=True)
        self.everyone = range(plan.reducers)

    def run(self, targets: Ints, records: int, embed: bool) -> tuple[list[tuple[Sizes, Ints]], list[int]]:
        """Map once, Reduce K rounds, Store; returns what is known of the shards, and each sampling reducer's load."""
        tables, loads = self._sample()
        states = self._reduce(tables, targets)
        shards = -(-len(targets) // records)
        split = [
            self._start(f"split-{r}", shards, mapreduce.split_by_shard, states[r], len(targets), records)
            for r in self.everyone
        ]
        stored = [
            self.executor.submit(
                1, store_shard, self.partial, self.held, s, embed, *(split[r][s] for r in self.everyone)
            )
            for s in range(shards)
        ]
        done = []
        for number, (shard,) in enumerate(stored):
            done += self.executor.get([shard])
            if self.progress:
                self.progress(number + 1, shards)
        return done, loads

    def _sample(self) -> tuple[list[Any], list[int]]:
        """Map all edges, sample them where they arrive, bring the parts of hubs together."""
        count = self.plan.reducers
        edges = Source.open(self.plan.source).table.csr.nnz
        cuts = np.linspace(0, edges, count + 1).astype(np.int64).tolist()
        mapped = [self._start(f"map-{m}", count, mapreduce.map_edges, cuts[m], cuts[m + 1]) for m in self.everyone]
        parts = [
            self._start(f"sample-{r}", count + 1, mapreduce.sample_part, *(mapped[m][r] for m in self.everyone))
            for r in self.everyone
        ]
        tables = [
            self._start(f"merge-{r}", 1, mapreduce.merge_parts, *(parts[q][r] for q in self.everyone))[0]
            for r in self.everyone
        ]
        return tables, self.executor.get([part[-1] for part in parts])

    def _reduce(self, tables: list[Any], targets: Ints) -> list[Any]:
        """Run the rounds, and a last one in which the furthest nodes are remembered."""
        hops, held = self.plan.strategy.hops, self.executor.put(targets)
        asked = [[self.executor.put(part)] for part in mapreduce.start(self.plan, targets)]
        states = [self.executor.put(State()) for _ in self.everyone]
        for depth in range(hops + 1):
            results = 1 if depth == hops else self.plan.reducers + 1
            made = [
                self._start(
                    f"round-{depth + 1}-{r}",
                    results,
                    mapreduce.reduce_round,
                    depth,
                    tables[r],
                    states[r],
                    held,
                    *asked[r],
                )
                for r in self.everyone
            ]
            states = [out[-1] for out in made]
            asked = [[made[q][r] for q in self.everyone] for r in self.everyone] if depth < hops else []
        return states

    def _start(self, name: str, results: int, task: Task, *arguments: Any) -> list[Any]:
        return self.executor.submit(results, kept, self.folder / name, task, self.held, *arguments)
