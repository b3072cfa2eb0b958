"""One GraphFlat run: estimate, flatten shard by shard, resume, and a folder that appears whole or not at all."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from backends.agl.flat import filters
from backends.agl.flat.alone import alone
from backends.agl.flat.local import flattened, in_threads
from backends.agl.flat.mapreduce import Plan
from backends.agl.flat.reader import MANIFEST
from backends.agl.flat.rounds import Ints
from backends.agl.flat.shards import Sizes, shard_once
from backends.agl.flat.source import Source
from backends.agl.flat.strategy import Strategy, StrategyError
from backends.kernels.sampling import distinct
from datasets.graph import SPLITS, Graph
from datasets.randomness import permutation

ENGINES = ("local", "ray")
ESTIMATED_FROM = 256  # targets
MARGIN = 1.1
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Job:
    """What to flatten and how; the second block changes no byte of the result.

    ``filtering`` thins out the edges before they are sampled; ``embed`` puts features into each record, otherwise
    once into each shard of ``shard_records`` targets. Engine ``ray`` has ``partitions`` reducers; all of
    them sample the in-edges of a node that has more than ``hub_threshold`` (``None``: no node).
    """

    strategy: Strategy
    filtering: str | None = None
    embed: bool = True
    shard_records: int = 1024

    engine: str = "local"
    threads: int = 1
    partitions: int = 4
    hub_threshold: int | None = 10_000

    def __post_init__(self) -> None:
        """Refuse what cannot be carried out."""
        if self.engine not in ENGINES:
            raise ValueError(f"engine={self.engine!r} is unknown: allowed are {', '.join(ENGINES)}")
        for name in ("shard_records", "threads", "partitions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not allowed: give at least 1")

    def identity(self, graph: Graph, targets: Ints) -> str:
        """Hash of everything that the result depends on."""
        held = {item.name: getattr(self, item.name) for item in fields(self)[:4]} | {"strategy": asdict(self.strategy)}
        held |= {"graph": [graph.name, graph.sha256, graph.nodes, graph.csr.nnz, graph.width]}
        held |= {"targets": hashlib.sha256(targets.astype("<i8").tobytes()).hexdigest()}
        return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


class NoRoom(OSError):
    """The result would not fit on the disk."""


def targets_of(graph: Graph, which: str = "labelled") -> Ints:
    """Nodes to flatten: all, those of a split, or the labelled ones of all splits.

    Where no node is in a split those with labels are the labelled ones, and all nodes where none has a label.
    """
    if which in SPLITS:
        return graph.nodes_of(which)
    if which not in ("all", "labelled"):
        raise ValueError(f"targets={which!r} is unknown: allowed are all, labelled, {', '.join(SPLITS)}")
    labelled = np.sort(np.concatenate([graph.nodes_of(split) for split in SPLITS]))
    if not len(labelled) and graph.labels is not None:
        labelled = np.flatnonzero((graph.labels >= 0).reshape(graph.nodes, -1).any(axis=1))
    return labelled if which == "labelled" and len(labelled) else np.arange(graph.nodes)


def flatten_to(
    folder: Path,
    graph: Graph,
    targets: Ints,
    job: Job,
    progress: Progress | None = None,
    names: Path | None = None,
) -> dict[str, Any]:
    """Flatten ``targets`` into ``folder``, which must not exist; returns the manifest that is written there last.

    Works in ``.<folder>.partial`` beside it, where an interrupted run of the same job goes on. ``names`` is a file that
    says what the user calls the nodes; it goes along. Raises FileExistsError, BlockingIOError where another run does
    the same, NoRoom before anything large is written, StrategyError or FilterError for what the graph does not have.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} exists: delete it or choose another folder")
    if not len(targets):
        raise ValueError(f"there are no targets in {graph.name}: give labels and splits, or targets=all")
    check(graph, job)
    with alone(partial := folder.with_name(f".{folder.name}.partial")):
        return _flatten_in(partial, folder, graph, targets, job, progress, names)


def _flatten_in(
    partial: Path, folder: Path, graph: Graph, targets: Ints, job: Job, progress: Progress | None, names: Path | None
) -> dict[str, Any]:
    _claim(partial, job.identity(graph, targets))
    try:
        source = Source.build(graph, job.strategy, job.filtering, partial / "source")
        needed = estimate(source, targets, job)
        _refuse_unless_it_fits(needed, partial)
        (partial / "shards").mkdir(exist_ok=True)
        run = _flatten_with_ray if job.engine == "ray" else _flatten_here
        done, loads = run(partial, source, targets, job, progress)
    except (ValueError, NoRoom):
        shutil.rmtree(partial)  # what was given is wrong: another run could not go on from here
        raise
    shards = partial / "shards"
    if names is not None:
        shutil.copy(names, shards / names.name)
    manifest = _manifest(graph, job, done, source) | {"estimated_bytes": needed, "reducer_loads": loads}
    (shards / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True))
    shards.rename(folder)
    shutil.rmtree(partial)
    return manifest


def check(graph: Graph, job: Job) -> None:
    """Raise StrategyError or FilterError where the graph lacks what the job asks for."""
    if job.filtering:
        filters.check(graph, job.filtering)
    if job.strategy.by is not None:
        try:
            filters.edge_columns(graph, job.strategy.by)
        except filters.FilterError as error:
            raise StrategyError(f"sampler {job.strategy.method} goes by {job.strategy.by!r}: {error}") from error


def _claim(partial: Path, identity: str) -> None:
    """Go on in a folder that the same job left; start anew in one of another job."""
    held = partial / "identity"
    if partial.exists() and (not held.is_file() or held.read_text() != identity):
        shutil.rmtree(partial)
    partial.mkdir(parents=True, exist_ok=True)
    held.write_text(identity)


def estimate(source: Source, targets: Ints, job: Job) -> int:
    """Bytes that the shards will take, from a sample of the targets."""
    some = targets[permutation(job.strategy.seed, "estimate", len(targets))[:ESTIMATED_FROM]]
    sizes, width, held = Sizes(), source.graph.width, []
    for batch in flattened(source, some, job.strategy, embed=False):
        sizes.see(batch, width, embed=False)
        held.append(distinct(batch.numbers))
    sizes.share(len(distinct(np.concatenate(held))), width)
    return int((sizes.embedded_bytes if job.embed else sizes.shared_bytes) / len(some) * len(targets) * MARGIN)


def _refuse_unless_it_fits(needed: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise NoRoom(
            f"the GraphFeatures need about {needed / 2**30:.2f} GiB, {folder.parent} has {free / 2**30:.2f} GiB free: "
            f"take fewer targets or smaller fanouts, hold features once per shard, or write elsewhere"
        )


def shard_targets(targets: Ints, job: Job) -> list[Ints]:
    """Targets of each shard."""
    return [targets[start : start + job.shard_records] for start in range(0, len(targets), job.shard_records)]


def _flatten_here(
    partial: Path, source: Source, targets: Ints, job: Job, progress: Progress | None
) -> tuple[list[tuple[Sizes, Ints]], list[int]]:
    """Write the shards, one in each thread at a time; those of an earlier run stay."""
    pieces = shard_targets(targets, job)
    abreast = min(job.threads, len(pieces))

    def one(number: int) -> tuple[Sizes, Ints]:
        inside = job.threads // abreast
        batches = flattened(source, pieces[number], job.strategy, embed=job.embed, threads=inside)
        return shard_once(partial, number, batches, source, job.embed)

    done = []
    for held in in_threads(one, range(len(pieces)), abreast):
        done.append(held)
        if progress:
            progress(len(done), len(pieces))
    return done, []


def _flatten_with_ray(
    partial: Path, source: Source, targets: Ints, job: Job, progress: Progress | None
) -> tuple[list[tuple[Sizes, Ints]], list[int]]:
    """Let Ray run the same rounds as tasks, started and stopped here; also returns the reducers' loads."""
    from backends.agl.flat.distributed import OnRay, Rounds
    from backends.parallel import ray_cluster as cluster

    plan = Plan(partial / "source", job.strategy, source.graph.nodes, job.partitions, job.hub_threshold)
    ray = cluster.acquire()
    try:
        return Rounds(OnRay(ray), partial, plan, progress).run(targets, job.shard_records, job.embed)
    finally:
        cluster.release()


def _manifest(graph: Graph, job: Job, done: list[tuple[Sizes, Ints]], source: Source) -> dict[str, Any]:
    total, seen = Sizes(), np.zeros(graph.nodes, dtype=bool)
    for sizes, nodes in done:
        total.add(sizes)
        seen[nodes] = True
    distinct = int(seen.sum())
    return {
        "graph": graph.name,
        "sha256": graph.sha256,
        "task": graph.task,
        "classes": graph.classes,
        "width": graph.width,
        "weighted": source.weighted_degrees is not None,
        "strategy": asdict(job.strategy),
        "filter": job.filtering,
        "embed": job.embed,
        "shards": len(done),
        "sizes": asdict(total),
        "distinct_nodes": distinct,
        "duplication": total.nodes / distinct,
        "engine": job.engine,
    }
