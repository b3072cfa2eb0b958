"""The whole dispatch: map over pieces of edges, reduce over parts, resumed where it was cut short."""

import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from backends.distpart.dispatch.buckets import EdgeBuckets, pieces_of, write_bucket
from backends.distpart.dispatch.edge_map import write_edge_map
from backends.distpart.dispatch.forecast import Forecast, refuse_what_does_not_fit
from backends.distpart.dispatch.metadata import check_name, part_folder, write_metadata
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.dispatch.part import PartOptions, PartWriter
from backends.distpart.dispatch.plan import begin, refuse_foreign_folder, remove_work
from backends.distpart.dispatch.steps import DispatchStep, run_in_threads, run_on_ray
from backends.distpart.typed_graph import GraphError, TypedGraph, check_names
from backends.folder_lock import locked
from backends.parallel import ray_cluster
from datasets.array_files import save_array
from datasets.files import atomic_file
from datasets.partition.dgl_format import FormatError, check_type
from datasets.tables.out_of_core import Progress, silent

NODE_MAP, EDGE_MAP = "node_map.npy", "edge_map.npy"
RUN_ON = ("local", "ray")
BUCKETS = 2  # the files of a bucket: another version's are not gone on from
UNKNOWN = "unknown"  # method of an assignment that does not say it


@dataclass(frozen=True)
class DispatchOptions:
    """How a dispatch runs: bytes of memory, threads, where, and what each part has beside its own edges."""

    memory: int = 2 << 30
    threads: int = 1
    run_on: str = "local"
    address: str | None = None
    hops: int = 1
    original_ids: bool = False
    method: str = UNKNOWN

    def __post_init__(self) -> None:
        """Raise ValueError for values that are not allowed."""
        if self.hops < 1 or self.threads < 1:
            raise ValueError(f"hops={self.hops} and threads={self.threads} must be at least 1")
        if self.run_on not in RUN_ON:
            raise ValueError(f"run_on={self.run_on!r} is not allowed: one of {', '.join(RUN_ON)}")


def refuse_at_once(graph: TypedGraph, folder: Path, name: str, options: DispatchOptions) -> None:
    """Raise what a dispatch raises whatever the assignment: of name, folder, types, memory, disk and Ray."""
    check_name(name)
    with locked(folder):
        _checked(graph, folder, name, options)


def _checked(graph: TypedGraph, folder: Path, name: str, options: DispatchOptions) -> Forecast:
    """The forecast of a dispatch that is not refused."""
    done = folder / f"{name}.json"
    if done.exists():
        with suppress(OSError):
            remove_work(folder)  # of a call that was killed after its last step
        raise ValueError(f"{done} exists: choose another folder, or delete this one")
    refuse_foreign_folder(folder)
    check_names(graph)
    for attribute, array in graph.attributes():
        try:
            check_type(np.dtype(array.dtype))
        except FormatError as error:
            raise GraphError(f"{attribute}: {error}") from error
    forecast = Forecast.of(graph, options.memory, options.threads, options.hops)
    refuse_what_does_not_fit(forecast, folder, options.memory)
    if options.run_on == "ray":
        ray_cluster.require("run_on=ray", "run_on=local")
        _refuse_long_path(options.address)
    return forecast


def _refuse_long_path(address: str | None) -> None:
    """Raise ValueError where Ray is to be started and its sockets' path would be too long."""
    folder, ray = tempfile.gettempdir(), sys.modules.get("ray")
    is_started = ray is not None and ray.is_initialized()
    if address is None and not is_started and len(folder) > ray_cluster.LONGEST_FOLDER:
        raise ValueError(
            f"{folder} is too long a path for Ray's sockets: set TMPDIR to one of at most {ray_cluster.LONGEST_FOLDER} "
            "characters, or name a running cluster (--address)"
        )


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
            return self._run(_checked(self.graph, self.folder, self.name, self.options))

    def _run(self, forecast: Forecast) -> Path:
        is_new = not self.folder.exists()
        options = [BUCKETS, self.name, self.options.hops, self.options.original_ids, forecast.piece]
        work = begin(self.folder, self.graph, self.numbering, options)
        try:
            return self._write(forecast, work)
        except GraphError:  # parts of a wrong graph are of no use to a later call; those of any other error are
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
        shared = self.graph.without_attributes(), numbering, work
        self._run_step(DispatchStep("map", write_bucket, shared, pieces), forecast.threads)
        buckets = EdgeBuckets(work, pieces, numbering.count, len(self.graph.schema.relations))
        self._write_maps(numbering, buckets)
        options = PartOptions(self.options.hops, self.options.original_ids, forecast.rows)
        writer = PartWriter(self.graph, numbering, buckets, options)
        step = DispatchStep("write", write_part, (writer, self.folder), range(numbering.count))
        self._run_step(step, forecast.threads)
        path = write_metadata(
            self.folder, self.name, self.graph, numbering, buckets, self.options.method, self.options.hops
        )
        shutil.rmtree(work)
        return path

    def _write_maps(self, numbering: Numbering, buckets: EdgeBuckets) -> None:
        """The part of each original node and edge, as arrays by homogeneous original id."""
        with atomic_file(self.folder / NODE_MAP) as temporary:
            save_array(temporary, numbering.parts.astype(numbering.part_dtype))
        with atomic_file(self.folder / EDGE_MAP) as temporary:
            write_edge_map(temporary, self.graph, buckets, np.dtype(numbering.part_dtype))

    def _run_step(self, step: DispatchStep, threads: int) -> None:
        if self.options.run_on == "ray":
            run_on_ray(step, self.options.address, self.progress)
        else:
            run_in_threads(step, threads, self.progress)


def write_part(writer: PartWriter, folder: Path, number: int) -> None:
    """Write one part, a task of the second step."""
    writer.write(number, folder / part_folder(number))
