"""The whole dispatch: map over pieces of edges, reduce over parts, resumed where it was cut short."""

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from backends.distpart.dispatch.buckets import EdgeBuckets, pieces_of, write_bucket
from backends.distpart.dispatch.forecast import Forecast, refuse_what_does_not_fit
from backends.distpart.dispatch.metadata import check_name, part_folder, write_metadata
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.dispatch.part import PartOptions, PartWriter
from backends.distpart.dispatch.plan import begin
from backends.distpart.typed_graph import GraphError, TypedGraph
from backends.folder_lock import locked
from datasets.csr import index_dtype
from datasets.files import atomic_file
from datasets.tables.out_of_core import Progress, silent

NODE_MAP, EDGE_MAP = "node_map.npy", "edge_map.npy"
RUN_ON = ("local", "ray")


@dataclass(frozen=True)
class DispatchOptions:
    """How a dispatch runs: bytes of memory, threads, where, and what each part has beside its own edges."""

    memory: int = 2 << 30
    threads: int = 1
    run_on: str = "local"
    address: str | None = None
    hops: int = 1
    original_ids: bool = False
    method: str = "given"

    def __post_init__(self) -> None:
        """Raise ValueError for values that are not allowed."""
        if self.hops < 1 or self.threads < 1:
            raise ValueError(f"hops={self.hops} and threads={self.threads} must be at least 1")
        if self.run_on not in RUN_ON:
            raise ValueError(f"run_on={self.run_on!r} is not allowed: one of {', '.join(RUN_ON)}")


@dataclass(frozen=True, eq=False)
class DispatchJob:
    """Dispatch of a graph by the numbering of its nodes to ``folder``."""

    graph: TypedGraph
    numbering: Numbering
    folder: Path
    name: str
    options: DispatchOptions = field(default_factory=DispatchOptions)
    progress: Progress = silent

    def run(self) -> Path:
        """Write all parts; returns the path of the JSON.

        Raises GraphError for a wrong graph or assignment, OSError where memory or disk do not suffice, and ValueError
        for a folder in which another dispatch was begun or done; BlockingIOError where one works there now.
        """
        check_name(self.name)
        with locked(self.folder):
            return self._run()

    def _run(self) -> Path:
        forecast = Forecast.of(self.graph, self.options.memory, self.options.threads)
        done = self.folder / f"{self.name}.json"
        if done.exists():
            raise ValueError(f"{done} exists: choose another folder, or delete this one")
        refuse_what_does_not_fit(forecast, self.folder, self.options.memory)
        is_new = not self.folder.exists()
        options = [self.name, self.options.hops, self.options.original_ids, forecast.piece]
        work = begin(self.folder, self.graph, self.numbering, options)
        try:
            return self._write(forecast, work)
        except GraphError:  # parts of a wrong graph are of no use to a later call
            for part in range(self.numbering.count):
                shutil.rmtree(self.folder / part_folder(part), ignore_errors=True)
            for name in (NODE_MAP, EDGE_MAP):
                (self.folder / name).unlink(missing_ok=True)
            shutil.rmtree(work)
            if is_new:
                self.folder.rmdir()
            raise

    def _write(self, forecast: Forecast, work: Path) -> Path:
        numbering = self.numbering
        pieces = pieces_of(self.graph, forecast.piece)
        run = self._runner()
        run("map", write_bucket, (self.graph.without_attributes(), numbering, work), pieces)
        buckets = EdgeBuckets(work, pieces, self.numbering.count, len(self.graph.schema.relations))
        self._write_maps(numbering, buckets)
        options = PartOptions(self.options.hops, self.options.original_ids, forecast.rows)
        run(
            "write",
            write_part,
            (PartWriter(self.graph, numbering, buckets, options), self.folder),
            range(numbering.count),
        )
        path = write_metadata(
            self.folder, self.name, self.graph, numbering, buckets, self.options.method, self.options.hops
        )
        shutil.rmtree(work)
        return path

    def _write_maps(self, numbering: Numbering, buckets: EdgeBuckets) -> None:
        """The part of each original node and edge, as arrays by homogeneous original id."""
        kind = np.uint16 if self.numbering.count <= 1 << 16 else np.int32
        with atomic_file(self.folder / NODE_MAP) as temporary, temporary.open("wb") as file:
            np.save(file, numbering.parts.astype(kind))
        with atomic_file(self.folder / EDGE_MAP) as temporary:
            edges = np.lib.format.open_memmap(temporary, mode="w+", dtype=kind, shape=(self.graph.total_edges,))
            counts = [self.graph.edges[relation].count for relation in self.graph.schema.relations]
            starts = np.cumsum([0, *counts])
            for part in range(self.numbering.count):
                for share in buckets.shares(part):
                    edges[starts[share.kind] + share.rows.astype(index_dtype(max(1, len(edges))))] = part
            edges.flush()

    def _runner(self) -> Callable[..., None]:
        if self.options.run_on == "ray":
            from backends.distpart.dispatch.on_ray import run_on_ray

            return partial(run_on_ray, self.options.address, self.progress)
        return partial(_run_in_threads, self.options.threads, self.progress)


def write_part(writer: PartWriter, folder: Path, number: int) -> None:
    """Write one part, a task of the second step."""
    writer.write(number, folder / part_folder(number))


def _run_in_threads(
    threads: int,
    progress: Progress,
    step: str,
    task: Callable[..., None],
    shared: tuple[Any, ...],
    arguments: Sequence[Any],
) -> None:
    """Call ``task(*shared, argument)`` for each argument; the first error ends the step."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(task, *shared, argument) for argument in arguments]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                progress(step, done, len(futures))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
