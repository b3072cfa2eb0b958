"""GraphFlat by tasks (AGL, section 3.2.1): the driver of Map, Reduce and Store.

On Ray results stay in its object store, which computes lost ones again. Shards are the only files: the next run of an
interrupted job goes on after those that were written.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from backends.agl.flat import mapreduce
from backends.agl.flat.local import BATCH, MOST_BYTES, bytes_of
from backends.agl.flat.mapreduce import FlattenTaskSetup, ReducerState
from backends.agl.flat.rounds import Ints
from backends.agl.flat.shards import Sizes, Totals, read_sizes, shard_once
from backends.agl.flat.source import Source
from backends.agl.flat.store import TargetNeighbourhoods, encode_neighbourhoods
from backends.agl.places import get_files, holds, put_folder
from backends.parallel.executor import Executor, Task
from backends.progress import Progress, silent


def store_shard(
    partial: Path | str, setup: FlattenTaskSetup, number: int, embed: bool, *parts: TargetNeighbourhoods
) -> list[Any]:
    """Store: write a shard from all reducers' parts of its neighbourhoods; returns its sizes and distinct nodes.

    ``partial`` is a folder, or a URL that the shard is uploaded to.
    """
    source = setup.open()
    record_bytes = bytes_of(sum(len(part.edges.requests) for part in parts), source) // parts[0].count
    size = max(1, min(BATCH, MOST_BYTES // max(record_bytes, 1)))
    neighbourhoods = mapreduce.batches_of_shard(parts, setup.nodes, size)
    batches = (encode_neighbourhoods(batch, source, embed=embed) for batch in neighbourhoods)
    if isinstance(partial, Path):
        return [shard_once(partial, number, batches, source, embed)]
    return [_uploaded_shard(partial, number, batches, source, embed)]


def _uploaded_shard(place: str, number: int, batches: Any, source: Source, embed: bool) -> tuple[Sizes, Ints]:
    """Write a shard here and upload it, sizes last; one that an earlier run uploaded is not written again."""
    with TemporaryDirectory(prefix="agl-") as name:
        folder = Path(name)
        (folder / "shards").mkdir()
        facts = [f"sizes/{number}.json", f"sizes/{number}.npy"]
        if all(holds(f"{place}/{file}") for file in facts):
            return read_sizes(get_files(place, facts, folder), number)
        shard = shard_once(folder, number, batches, source, embed)
        for part in ("shards", "sizes"):
            put_folder(folder / part, f"{place}/{part}")
        return shard


class FlattenRounds:
    """One GraphFlat run by tasks: Map and sampling once, K reduce rounds, Store."""

    def __init__(
        self, executor: Executor, partial: Path | str, setup: FlattenTaskSetup, progress: Progress = silent
    ) -> None:
        self.executor, self.partial, self.progress = executor, partial, progress
        self.setup, self.setup_handle = setup, executor.put(setup)
        self.reducers = range(setup.reducers)

    def run(self, targets: Ints, records: int, embed: bool, totals: Totals) -> list[int]:
        """Run all stages and count the shards; returns how many in-edges each reducer was sent, or read itself."""
        if self.setup.draws_per_request:
            states = self._reduce([None] * self.setup.reducers, targets)
            answered = [self._start(1, mapreduce.edges_answered, states[r])[0] for r in self.reducers]
            loads = self.executor.get(answered)
        else:
            tables, loads = self._sample()
            states = self._reduce(tables, targets)
        shards = -(-len(targets) // records)
        by_shard = [
            self._start(shards, mapreduce.split_by_shard, states[r], len(targets), records) for r in self.reducers
        ]
        running = [
            self.executor.submit(
                1, store_shard, self.partial, self.setup_handle, s, embed, *(by_shard[r][s] for r in self.reducers)
            )
            for s in range(shards)
        ]
        for (shard,) in running:
            totals.add(*self.executor.get([shard])[0])
            self.progress("flatten", totals.shards, shards)
        return loads

    def _sample(self) -> tuple[list[Any], list[int]]:
        """Map all edges to reducers, sample each reducer's part, merge the parts of hubs."""
        count = self.setup.reducers
        edges = self.setup.open().table.csr.nnz
        cuts = np.linspace(0, edges, count + 1).astype(np.int64).tolist()
        mapped = [self._start(count, mapreduce.map_edges, cuts[m], cuts[m + 1]) for m in self.reducers]
        parts = [
            self._start(count + 1, mapreduce.sample_part, *(mapped[m][r] for m in self.reducers)) for r in self.reducers
        ]
        tables = [
            self._start(1, mapreduce.merge_parts, *(parts[q][r] for q in self.reducers))[0] for r in self.reducers
        ]
        return tables, self.executor.get([part[-1] for part in parts])

    def _reduce(self, tables: list[Any], targets: Ints) -> list[Any]:
        """Run the rounds, and a last one that records the furthest nodes; returns the reducers' states."""
        hops, targets_handle = self.setup.strategy.hops, self.executor.put(targets)
        requests = [[self.executor.put(part)] for part in mapreduce.first_requests(self.setup, targets)]
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
