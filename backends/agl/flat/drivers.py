"""Drivers of a GraphFlat run: batches of targets in threads of one process, or tasks of MapReduce (AGL, section 3.2.1).

One process runs K rounds per batch over a memory-mapped graph. By tasks, Map runs once, then Reduce and Store for some
shards at a time, so that pieces and memory grow with those alone. On Ray results stay in its object store, which
computes lost ones again. Shards are the only files: the next run of an interrupted job goes on after those that were
written.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import torch

from backends.agl.flat import mapreduce
from backends.agl.flat.mapreduce import FlattenTaskSetup, ReducerState
from backends.agl.flat.rounds import Ints, answer_requests, drop_seen, next_requests
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.flat.shards import (
    EncodedBatch,
    TargetNeighbourhoods,
    Totals,
    encode_neighbourhoods,
    stored_shard,
    write_shard,
)
from backends.agl.flat.source import Source
from backends.kernels.extension import threads as kernel_threads
from backends.kernels.extension import using_threads
from backends.kernels.neighbourhood import expansions
from backends.parallel.executor import Executor, Task
from backends.places import put_folder
from backends.progress import Progress, silent

Result = TypeVar("Result")
BATCH = 256  # targets; their features and records fit a processor's cache
MOST_BYTES = 256 << 20  # of a batch's records
BYTES_PER_EDGE = 64  # an edge and its source node, both without features
LOOKUPS = 16  # of stored shards at once: on another machine each takes a while


class TooLarge(Exception):
    """Neighbourhoods of several targets that would take more than ``MOST_BYTES``."""


def bytes_of(edges: int, source: Source) -> int:
    """Bytes of records with ``edges`` edges: at most these with dense features, about these with sparse ones."""
    features, of_edges = source.graph.features, source.graph.edge_features
    bytes_per_node = 0 if features is None else -(-features.nbytes // max(len(features), 1))
    bytes_of_edge_features = 0 if of_edges is None else 4 * of_edges.shape[1]
    return edges * (BYTES_PER_EDGE + bytes_per_node + bytes_of_edge_features)


def neighbourhoods(source: Source, targets: Ints, strategy: SamplingStrategy) -> TargetNeighbourhoods:
    """Search the neighbourhood of each target in K rounds; raises TooLarge for several targets over ``MOST_BYTES``."""
    count, sampled = source.graph.nodes, 0
    fresh = np.arange(len(targets)) * count + targets
    seen, levels, edges = fresh, [fresh], []
    for limit in expansions(strategy.fanouts):
        sampled += _edges_sampled(source, fresh % count, limit, strategy.replacement)
        check_size(len(targets), sampled, source)
        edges.append(answer_requests(fresh, targets, source.table, strategy, limit))
        fresh = drop_seen(next_requests(edges[-1], count), seen)
        seen = np.sort(np.concatenate((seen, fresh)))
        levels.append(fresh)
    return TargetNeighbourhoods.of_levels(len(targets), levels, edges)


def check_size(targets: int, edges: int, source: Source) -> None:
    """Raise TooLarge where records of several targets, of so many edges in all, would take more than ``MOST_BYTES``."""
    if targets > 1 and bytes_of(edges, source) > MOST_BYTES:
        raise TooLarge


def _edges_sampled(source: Source, nodes: Ints, limit: int | None, replacement: bool) -> int:
    """How many edges are sampled of some nodes, of those that pass the filter."""
    indptr = source.table.csr.indptr
    degrees = indptr[nodes + 1] - indptr[nodes]
    if limit is not None:
        degrees = np.where(degrees > 0, limit, 0) if replacement else np.minimum(degrees, limit)
    return int(degrees.sum(dtype=np.int64))


def within_memory(work: Callable[[Ints], Result], targets: Ints) -> Iterator[Result]:
    """Yield ``work`` of some targets in order, halving them while it raises TooLarge."""
    try:
        batch = [work(targets)]
    except TooLarge:
        for half in np.array_split(targets, 2):
            yield from within_memory(work, half)
    else:
        yield batch.pop()  # its memory is free once it is encoded, not when the next one is asked for


def batch_bounds(edges: Ints, source: Source) -> Ints:
    """The bounds of the batches that ``flatten_batches`` makes of targets, of which each has so many ``edges``."""

    def size(part: Ints) -> int:
        check_size(len(part), int(part.sum()), source)
        return len(part)

    batches = (edges[start : start + BATCH] for start in range(0, len(edges), BATCH))
    return np.cumsum([0, *chain.from_iterable(within_memory(size, batch) for batch in batches)])


def flatten_batches(
    source: Source,
    targets: Ints,
    strategy: SamplingStrategy,
    *,
    embed: bool = True,
    threads: int = 1,
    batch: int = BATCH,
) -> Generator[EncodedBatch, None, None]:
    """Yield batches of GraphFeatures in the order of ``targets``; ``threads`` of them are computed ahead.

    Of a batch that is too large for memory only the first part is: the others are computed when they are asked for.
    """
    search = partial(neighbourhoods, source, strategy=strategy)
    encode = partial(encode_neighbourhoods, source=source, embed=embed)

    def encoded(start: int) -> Iterator[EncodedBatch]:
        return map(encode, within_memory(search, targets[start : start + batch]))

    def begun(start: int) -> Iterator[EncodedBatch]:
        parts = encoded(start)
        return chain(list(islice(parts, 1)), parts)

    starts = range(0, len(targets), batch)
    yield from chain.from_iterable(map(encoded, starts) if threads == 1 else in_threads(begun, starts, threads))


def _use_threads(count: int) -> None:
    """Let kernels use ``count`` threads when this thread calls them."""
    torch.get_num_threads()  # a thread's first call takes the process's number, and would undo one set before it
    torch.set_num_threads(count)


def in_threads(work: Callable[[int], Result], numbers: range, threads: int) -> Generator[Result, None, None]:
    """Yield ``work(number)`` in order, computed by ``threads`` threads; after a failure no more are started.

    They share the threads that kernels may use here: each has its part, at least one. Close the iterator to stop early.
    """
    workers = min(threads, len(numbers))
    if workers < 2:
        yield from map(work, numbers)
        return
    remaining, of_kernels = iter(numbers), kernel_threads()
    share = _use_threads, (max(1, of_kernels // workers),)
    # a thread that sets its own number also sets that of threads which start later: it is set again at the end
    with using_threads(of_kernels), ThreadPoolExecutor(workers, "flatten", *share) as pool:
        running = deque(pool.submit(work, number) for number in islice(remaining, workers))
        while running:
            result = running.popleft().result()
            running.extend(pool.submit(work, number) for number in islice(remaining, 1))
            yield result


def store_shard(
    work: Path | str, setup: FlattenTaskSetup, number: int, embed: bool, *parts: TargetNeighbourhoods
) -> list[Any]:
    """Store: write a shard from all reducers' parts of its neighbourhoods; returns its sizes.

    ``work`` is a folder, or a URL that the shard is uploaded to. One that an earlier run wrote is not written again.
    """
    stored = stored_shard(work, number)
    if stored is not None:
        return [stored]
    source = setup.open()
    edges = np.sum([part.edges_by_target(setup.nodes) for part in parts], axis=0)
    neighbourhoods = mapreduce.batches_of_shard(parts, setup.nodes, batch_bounds(edges, source))
    batches = (encode_neighbourhoods(batch, source, embed=embed) for batch in neighbourhoods)
    if isinstance(work, Path):
        return [write_shard(work, number, batches, source, embed, setup.identity)]
    with TemporaryDirectory(prefix="agl-") as folder:
        shard = write_shard(Path(folder), number, batches, source, embed, setup.identity)
        for written in ("shards", "sizes"):
            put_folder(Path(folder) / written, f"{work}/{written}")
        return [shard]


class FlattenRounds:
    """One GraphFlat run by tasks: Map and sampling once, then K reduce rounds and Store for ``at_once`` shards."""

    def __init__(
        self,
        executor: Executor,
        work: Path | str,
        setup: FlattenTaskSetup,
        at_once: int,
        progress: Progress = silent,
    ) -> None:
        self.executor, self.work, self.at_once, self.progress = executor, work, at_once, progress
        self.setup, self.setup_handle = setup, executor.put(setup)
        self.reducers = range(setup.reducers)

    def run(self, targets: Ints, records: int, embed: bool, totals: Totals) -> list[int]:
        """Run all stages and count the shards; returns how many in-edges each reducer was sent, or read itself.

        Shards of an earlier run before the first that is missing are only counted, and are no reducer's load.
        """
        shards = -(-len(targets) // records)
        lookups = in_threads(partial(stored_shard, self.work), range(shards), LOOKUPS)
        with closing(lookups) as by_earlier_runs:
            for sizes in takewhile(lambda of_shard: of_shard is not None, by_earlier_runs):
                totals.add(sizes)
        if totals.shards == shards:
            return []
        per_request, loads = self.setup.draws_per_request, np.zeros(self.setup.reducers, dtype=np.int64)
        tables: list[Any] = [None] * self.setup.reducers
        if not per_request:
            tables, loads = self._sample()
        for first in range(totals.shards, shards, self.at_once):
            some = targets[first * records : (first + self.at_once) * records]
            answered, handles = self._search(tables, some, first, records, embed)
            if per_request:
                loads = loads + self.executor.get(answered)
            for shard in handles:
                totals.add(self.executor.get([shard])[0])
                self.progress("flatten", totals.shards, shards)
        return loads.tolist()

    def _search(
        self, tables: list[Any], targets: Ints, first: int, records: int, embed: bool
    ) -> tuple[list[Any], list[Any]]:
        """Start to search some targets, and to store them from shard ``first`` on.

        Returns the handles of the numbers of edges that each reducer answered itself, and those of the shards.
        """
        states, shards = self._reduce(tables, targets), -(-len(targets) // records)
        asked = states if self.setup.draws_per_request else []
        answered = [self._start(1, mapreduce.edges_answered, state)[0] for state in asked]
        by_shard = [self._start(shards, mapreduce.split_by_shard, state, len(targets), records) for state in states]
        return answered, [
            self.executor.submit(1, store_shard, self.work, self.setup_handle, first + s, embed, *parts)[0]
            for s, parts in enumerate(zip(*by_shard, strict=True))
        ]

    def _sample(self) -> tuple[list[Any], Ints]:
        """Map all edges to reducers, sample each reducer's part, merge the parts of hubs."""
        count = self.setup.reducers
        cuts = np.linspace(0, self.setup.edges, count + 1).astype(np.int64).tolist()
        mapped = [self._start(count, mapreduce.map_edges, cuts[m], cuts[m + 1]) for m in self.reducers]
        parts = [
            self._start(count + 1, mapreduce.sample_part, *(mapped[m][r] for m in self.reducers)) for r in self.reducers
        ]
        tables = [
            self._start(1, mapreduce.merge_parts, *(parts[q][r] for q in self.reducers))[0] for r in self.reducers
        ]
        return tables, np.array(self.executor.get([part[-1] for part in parts]))

    def _reduce(self, tables: list[Any], targets: Ints) -> list[Any]:
        """Run the rounds, and a last one that records the furthest nodes; returns the reducers' states."""
        hops, targets_handle = self.setup.strategy.hops, self.executor.put(targets)
        of_targets = np.arange(len(targets)) * self.setup.nodes + targets  # the targets' own in-edges
        requests = [[self.executor.put(part)] for part in self.setup.split_requests(of_targets)]
        states = [self.executor.put(ReducerState()) for _ in self.reducers]
        for depth in range(hops + 1):
            results = 1 if depth == hops else self.setup.reducers + 1
            outputs = [
                self._start(
                    results,
                    mapreduce.reduce_round,
                    depth,
                    tables[r],
                    states[r],
                    targets_handle,
                    *requests[r],
                )
                for r in self.reducers
            ]
            states = [output[-1] for output in outputs]
            requests = [[outputs[q][r] for q in self.reducers] for r in self.reducers] if depth < hops else []
        return states

    def _start(self, results: int, task: Task, *arguments: Any) -> list[Any]:
        return self.executor.submit(results, task, self.setup_handle, *arguments)
