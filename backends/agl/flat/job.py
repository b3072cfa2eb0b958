"""One GraphFlat run: size estimate, shards, resumption, and an output folder that appears whole or not at all."""

import hashlib
import json
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from backends.agl.cluster import Cluster
from backends.agl.config import MOST_ON_RAY, RUN_ON
from backends.agl.flat.drivers import BATCH, MOST_BYTES, FlattenRounds, flatten_batches, in_threads
from backends.agl.flat.mapreduce import FlattenTaskSetup
from backends.agl.flat.reader import MANIFEST
from backends.agl.flat.rounds import Ints
from backends.agl.flat.sampling_strategy import DRAWS, SamplingStrategy, StrategyError, check_sampler
from backends.agl.flat.shards import (
    FORMAT,
    IDENTITY,
    Sizes,
    Totals,
    count_distinct,
    features_path,
    shard_path,
    stored_shard,
    write_shard,
)
from backends.agl.flat.source import Source
from backends.folder_lock import locked
from backends.kernels.extension import threads as kernel_threads
from backends.kernels.extension import using_threads
from backends.kernels.sampling import distinct
from backends.parallel import ray_cluster as cluster
from backends.parallel.executor import RayExecutor
from backends.places import get_folder
from backends.progress import Announce, Progress, announce_nothing, gibibytes, silent
from datasets import filters
from datasets.features import SparseFeatures
from datasets.graph import SPLITS, Graph
from datasets.randomness import permutation

ESTIMATE_TARGETS = 256
ESTIMATE_EDGES = 1 << 25
ESTIMATE_MARGIN = 1.1
EDGES_PER_REDUCER = 1 << 22
MOST_PIECES = 1 << 16  # results of tasks, one of each reducer for each shard or reducer, that Ray's driver keeps
COPIES = 4  # of a batch's records in memory: its requests, its arrays, its strings, what is written


@dataclass(frozen=True)
class FlattenJob:
    """How to flatten a graph; the fields after the empty line do not change the result.

    ``filtering`` is the filter that edges pass before they are sampled. ``embed`` stores features in each record,
    otherwise once per shard of ``shard_records`` targets. With ``run_on=ray`` there are ``partitions`` reducers (0: by
    the cores, the edges that they are sent, and those of a shard); all of them rank the in-edges (``topk``) of a node
    that has more than ``hub_threshold`` (0 or ``None``: no node).
    """

    strategy: SamplingStrategy
    filtering: str | None = None
    embed: bool = True
    shard_records: int = 1024

    run_on: str = "local"
    threads: int = 1
    partitions: int = 0
    hub_threshold: int | None = 10_000
    cluster: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        """Raise ValueError for a value that is not allowed."""
        if self.run_on not in RUN_ON:
            raise ValueError(f"run_on={self.run_on!r} is unknown: allowed are {', '.join(RUN_ON)}")
        for name, least in (("shard_records", 1), ("threads", 1), ("partitions", 0), ("hub_threshold", 0)):
            if (getattr(self, name) or 0) < least:
                raise ValueError(f"{name}={getattr(self, name)} is not allowed: give at least {least}")
        if self.run_on == "ray" and self.partitions > MOST_ON_RAY:
            raise ValueError(f"partitions={self.partitions} is not allowed with run_on=ray: give at most {MOST_ON_RAY}")
        self.cluster.check(self.run_on)

    def dealt(self, targets: Ints) -> Ints:
        """The targets in the order of their shards, by a hash: a batch is of one shard, and tables may be sorted."""
        return targets[permutation(self.strategy.seed, "shards", len(targets))]

    def shards_of(self, targets: Ints) -> list[Ints]:
        """Split the targets into those of each shard, in this process; Ray's tasks split them alike."""
        return [targets[start : start + self.shard_records] for start in range(0, len(targets), self.shard_records)]

    def identity(self, graph: Graph, targets: Ints) -> str:
        """Hash of everything that the result depends on."""
        inputs = {option.name: getattr(self, option.name) for option in fields(self)[:4]}
        inputs |= {"strategy": asdict(self.strategy), "draws": DRAWS, "format": FORMAT}
        inputs |= {"graph": [graph.name, graph.sha256, graph.nodes, graph.csr.nnz, graph.width]}
        inputs |= {"sparse": isinstance(graph.features, SparseFeatures)}
        inputs |= {"targets": hashlib.sha256(targets.astype("<i8").tobytes()).hexdigest()}
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Origin:
    """Where a graph comes from: the columns of its tables, the file of its nodes' names, and a folder to keep.

    ``names`` may be absent. ``keep`` is the prepared graph's folder, which becomes ``graph`` in the output.
    """

    tables: dict[str, Any]
    names: Path
    keep: Path | None = None


class NoRoom(OSError):
    """The shards would not fit on the disk."""


def nodes_to_flatten(graph: Graph, which: str = "labelled") -> Ints:
    """Nodes to flatten: all, those of a split, or the labelled ones.

    Labelled are the nodes of all splits; without splits, those with a label. Raises ValueError where there are none.
    """
    if which in SPLITS:
        return graph.nodes_of(which)
    if which not in ("all", "labelled"):
        raise ValueError(f"targets={which!r} is unknown: allowed are all, labelled, {', '.join(SPLITS)}")
    labelled = np.sort(np.concatenate([graph.nodes_of(split) for split in SPLITS]))
    if not len(labelled) and graph.labels is not None:
        labelled = np.flatnonzero((graph.labels >= 0).reshape(graph.nodes, -1).any(axis=1))
    if which == "labelled" and not len(labelled):
        raise ValueError(f"no node of {graph.name} has a label: say which nodes to flatten, as in --targets all")
    return labelled if which == "labelled" else np.arange(graph.nodes)


def flatten_to(
    folder: Path,
    graph: Graph,
    targets: Ints,
    job: FlattenJob,
    progress: Progress = silent,
    origin: Origin | None = None,
    announce: Announce = announce_nothing,
) -> dict[str, Any]:
    """Flatten ``targets`` into ``folder``, which must not exist; returns the manifest that is written there last.

    Works in ``.<folder>.partial`` beside it, where the next run of the same job resumes. What ``origin`` says of the
    user's tables goes along. Raises FileExistsError, BlockingIOError where another run works there,
    NoRoom before anything large is written, StrategyError or FilterError for a sampler or filter that cannot be used.
    ``announce`` gets a forecast of what the run takes. A local run has ``job.threads`` threads in all, with kernels'.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} exists: delete it or choose another folder")
    if not len(targets):
        raise ValueError(f"there are no targets in {graph.name}: give labels and splits, or targets=all")
    check_columns(graph, job.strategy, job.filtering)
    targets = job.dealt(targets)
    partial = folder.with_name(f".{folder.name}.partial")
    threads = job.threads if job.run_on == "local" else kernel_threads()  # tasks of Ray have threads of their own
    with locked(partial), using_threads(threads):
        return _flatten_in(partial, folder, graph, targets, job, progress, origin, announce)


def _flatten_in(
    partial: Path,
    folder: Path,
    graph: Graph,
    targets: Ints,
    job: FlattenJob,
    progress: Progress,
    origin: Origin | None,
    announce: Announce,
) -> dict[str, Any]:
    identity = job.identity(graph, targets)
    _claim(partial, identity)
    try:
        source = Source.build(graph, job.strategy, job.filtering, partial / "source")
        estimated_bytes, edges = estimate(source, targets, job)
        written = (partial / "shards").glob("*.parquet")  # by an earlier run
        _check_free_space(estimated_bytes - sum(shard.stat().st_size for shard in written), partial)
        announce(forecast(estimated_bytes, len(targets), job, partial))
        totals = Totals()
        if job.run_on == "ray":
            loads = _flatten_with_ray(partial, source, targets, job, totals, progress, edges)
        else:
            loads = _flatten_here(partial, source, targets, job, totals, progress)
    except (ValueError, NoRoom):
        if not any((partial / "sizes").glob("*.counts")):  # else another run goes on after the finished shards
            shutil.rmtree(partial)
        raise
    shards = partial / "shards"
    manifest = _manifest(graph, job, totals, source, count_distinct(partial, totals.shards, graph.nodes))
    manifest |= {IDENTITY: identity, "estimated_bytes": estimated_bytes, "reducer_loads": loads}
    if origin is not None:
        manifest |= {"tables": origin.tables}
        if origin.names.is_file():
            shutil.copy(origin.names, shards / origin.names.name)
        if origin.keep is not None:
            shutil.rmtree(shards / "graph", ignore_errors=True)  # of a run that ended here
            origin.keep.rename(shards / "graph")
    (shards / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True))
    shards.rename(folder)
    shutil.rmtree(partial)
    return manifest


def check_columns(graph: Graph, strategy: SamplingStrategy, filtering: str | None) -> None:
    """Raise StrategyError or FilterError where the graph lacks a column that sampling or the filter needs.

    Likewise for a sampler that is not there, or a user's own that fails or whose file has changed.
    """
    check_sampler(strategy)
    if filtering:
        filters.check_filter(graph, filtering)
    if strategy.by is not None:
        try:
            filters.edge_columns(graph, strategy.by)
        except filters.FilterError as error:
            raise StrategyError(f"sampler {strategy.method} samples by {strategy.by!r}: {error}") from error


def _claim(partial: Path, identity: str) -> None:
    """Keep the files of an interrupted run of the same job; raises ValueError for finished shards of another job."""
    marker = partial / "identity"
    if partial.exists() and (not marker.is_file() or marker.read_text() != identity):
        if shards := len([*(partial / "sizes").glob("*.counts")]):
            raise ValueError(
                f"{partial} holds {shards} finished shards of another job, or of tables that were others: repeat the "
                "command that was interrupted, delete that folder, or choose another output"
            )
        shutil.rmtree(partial)
    partial.mkdir(parents=True, exist_ok=True)
    marker.write_text(identity)


def estimate(source: Source, targets: Ints, job: FlattenJob) -> tuple[int, int]:
    """Estimate the bytes of all shards, and the edges of their records, from a sample of the targets.

    The largest record of the sample counts once: a hub that was drawn says nothing of the other targets. Without it,
    the sample ends early after ``ESTIMATE_EDGES``: by then a second record is large too.
    """
    sampled = targets[permutation(job.strategy.seed, "estimate", len(targets))[:ESTIMATE_TARGETS]]
    sizes, features, distinct_nodes, largest, most_edges = Sizes(), source.graph.features, 0, 0, 0
    for shard in job.shards_of(sampled):  # a node that targets of one shard share is stored once
        nodes = []
        with closing(flatten_batches(source, shard, job.strategy, embed=False)) as batches:
            for batch in batches:
                sizes.count_batch(batch, features, embed=False)
                nodes.append(distinct(batch.numbers))
                largest = max(largest, int(np.diff(batch.records.node_bounds).max()))
                most_edges = max(most_edges, int(np.diff(batch.records.edge_bounds).max()))
                if sizes.edges - most_edges >= ESTIMATE_EDGES:
                    break
        distinct_nodes += len(distinct(np.concatenate(nodes)))
        if sizes.edges - most_edges >= ESTIMATE_EDGES:
            break
    of_largest = largest / sizes.nodes
    scale = of_largest + (1 - of_largest) * (len(targets) - 1) / max(1, sizes.records - 1)
    stored = scale * (sizes.embedded_bytes if job.embed else sizes.shared_bytes)
    if not job.embed:
        stored += _bytes_beside_records(source.graph, targets, job, distinct_nodes * scale / len(targets))
    return int(stored * ESTIMATE_MARGIN), int(sizes.edges * scale)


def _bytes_beside_records(graph: Graph, targets: Ints, job: FlattenJob, nodes_per_target: float) -> float:
    """Bytes of features stored once per shard, of which none has more nodes than the graph: an id and a row each."""
    if graph.features is None:
        return 0.0
    counts = np.array([len(shard) for shard in job.shards_of(targets)])
    nodes = np.minimum(nodes_per_target * counts, graph.nodes).sum()
    return float(nodes * (8 + graph.features.nbytes / graph.nodes))


def forecast(estimated_bytes: int, targets: int, job: FlattenJob, folder: Path) -> str:
    """What a run will take, in a sentence: disk, and memory beside the mapped graph."""
    free = shutil.disk_usage(folder).free
    record = estimated_bytes / targets
    batch = max(min(BATCH * record, estimated_bytes, MOST_BYTES), record) * job.threads
    return (
        f"{targets:,} targets will take about {gibibytes(estimated_bytes)} of disk ({gibibytes(free)} are free), "
        f"and {gibibytes(COPIES * batch)} of memory at a time"
    )


def _check_free_space(remaining_bytes: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if remaining_bytes > free:
        raise NoRoom(
            f"the GraphFeatures need about {remaining_bytes / 2**30:.2f} GiB, {folder.parent} has "
            f"{free / 2**30:.2f} GiB free: give fewer targets or smaller fanouts, store "
            "features once per shard, write elsewhere, or free some space and repeat the command"
        )


def _flatten_here(
    partial: Path, source: Source, targets: Ints, job: FlattenJob, totals: Totals, progress: Progress
) -> list[int]:
    """Write the shards that an earlier run has not written, each in a thread, and count all; there are no reducers."""
    pieces, identity = job.shards_of(targets), (partial / "identity").read_text()
    at_once = min(job.threads, len(pieces))

    def shard(number: int) -> Sizes:
        stored = stored_shard(partial, number)
        if stored is not None:
            return stored
        threads = job.threads // at_once
        batches = flatten_batches(source, pieces[number], job.strategy, embed=job.embed, threads=threads)
        with closing(batches):
            return write_shard(partial, number, batches, source, job.embed, identity)

    with closing(in_threads(shard, range(len(pieces)), at_once)) as written:
        for sizes in written:
            totals.add(sizes)
            progress("flatten", totals.shards, len(pieces))
    return []


def reducers_of(job: FlattenJob, cores: int, edges: int) -> int:
    """Reducers of a job: as many as it names, or as the cores and ``edges`` need, those of a round that they share."""
    return job.partitions or max(cores, min(-(-edges // EDGES_PER_REDUCER), isqrt(MOST_PIECES)))


def shards_at_once(reducers: int, cores: int, edges_of_shard: float) -> int:
    """Shards that are searched together: with ``EDGES_PER_REDUCER`` for each core in all, of ``MOST_PIECES`` pieces.

    Not for fewer than the reducers, which exchange as many pieces as their square.
    """
    by_edges = cores * EDGES_PER_REDUCER / max(edges_of_shard, 1)
    return max(1, int(min(by_edges, max(MOST_PIECES / reducers, reducers))))


def _flatten_with_ray(
    partial: Path, source: Source, targets: Ints, job: FlattenJob, totals: Totals, progress: Progress, edges: int
) -> list[int]:
    """Run the same rounds as Ray tasks, for about ``edges``; returns how many each reducer was sent, or read."""
    identity = (partial / "identity").read_text()
    ray = cluster.acquire(job.cluster.address)
    try:
        cores, edges_of_shard = cluster.cpus(ray), edges * min(1, job.shard_records / len(targets))
        with job.cluster.publishing(ray, partial / "source", identity) as place:
            work = partial if place is None else place
            folder = f"{place}/source" if place else partial / "source"
            size = source.graph.nodes, source.table.csr.nnz
            setup = FlattenTaskSetup(folder, job.strategy, *size, cores, job.hub_threshold, identity)
            sent = 0 if setup.draws_per_request else setup.edges
            setup = replace(setup, reducers=reducers_of(job, cores, max(sent, int(edges_of_shard))))
            at_once = shards_at_once(setup.reducers, cores, edges_of_shard)
            rounds = FlattenRounds(RayExecutor(ray), work, setup, at_once, progress)
            loads = rounds.run(targets, job.shard_records, job.embed, totals)
            if place is not None:
                has_shared = not job.embed and source.graph.features is not None
                fetch_shards(place, partial / "shards", totals.shards, has_shared)
                get_folder(f"{place}/sizes", partial / "sizes")
            return loads
    finally:
        cluster.release()


def fetch_shards(place: str, folder: Path, count: int, has_shared: bool) -> None:
    """Copy the shards of a run from its place in a store, with files of features where it ``has_shared`` ones.

    Raises OSError where a file of one of ``count`` shards is not there.
    """
    get_folder(f"{place}/shards", folder)
    shards = [shard_path(folder, number) for number in range(count)]
    files = [file for shard in shards for file in (shard, features_path(shard))[: 1 + has_shared]]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        lost = f"{len(missing)} of {len(files)} files of shards are no longer there, the first is {missing[0]}"
        raise OSError(f"{place}: {lost}: delete that folder and repeat the command")


def _manifest(graph: Graph, job: FlattenJob, totals: Totals, source: Source, nodes: int) -> dict[str, Any]:
    return {
        "graph": graph.name,
        "sha256": graph.sha256,
        "task": graph.task,
        "classes": graph.classes,
        "width": graph.width,
        "sparse": isinstance(graph.features, SparseFeatures),
        "weighted": source.weighted_degrees is not None,
        "edge_width": 0 if graph.edge_features is None else graph.edge_features.shape[1],
        "strategy": asdict(job.strategy),
        "draws": DRAWS,
        "filter": job.filtering,
        "embed": job.embed,
        "shards": totals.shards,
        "sizes": asdict(totals.sizes),
        "distinct_nodes": nodes,
        "duplication": totals.sizes.nodes / nodes,
        "engine": job.run_on,
    }
