"""``python -m backends.agl.flat -n NODES -e EDGES -h HOPS -s SAMPLING -o OUT``, as in AGL's demo (section 3.5)."""

import argparse
import errno
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from backends.agl.flat.alone import alone
from backends.agl.flat.job import ENGINES, Job, Progress, flatten_to, targets_of
from backends.agl.flat.source import UnfitEdge
from backends.agl.flat.strategy import SCOPES, StrategyError, parse
from backends.parallel import ray_cluster as cluster
from datasets.graph import SPLITS, Graph
from datasets.tables.node_stream import NAMES
from datasets.tables.options import TableOptions
from datasets.tables.streaming import stream_tables, tables_sha256


def parser() -> argparse.ArgumentParser:
    """The command line; ``-h`` are the hops, as in the paper."""
    made = argparse.ArgumentParser("python -m backends.agl.flat", description=__doc__, add_help=False)
    made.add_argument("--help", action="help", help="show this message and exit")
    made.add_argument("-n", "--nodes", required=True, help="node table: .parquet or .csv, any path that fsspec opens")
    made.add_argument("-e", "--edges", required=True, help="edge table, likewise; a row is source -> target")
    made.add_argument("-l", "--labels", help="table of id, label, split, where they are not in the node table")
    made.add_argument("-h", "--hops", type=int, required=True, help="hops of a neighbourhood, from 1")
    made.add_argument("-s", "--sampling", default="full()", help="uniform(15);uniform(10): hop 1 first (full())")
    made.add_argument("-o", "--output", type=Path, required=True, help="folder of the shards; must not exist")
    made.add_argument("-f", "--filter", help="edges left before sampling: weight > 0.5 and neighbor.type in (1, 2)")
    made.add_argument("--targets", default="labelled", choices=["labelled", "all", *SPLITS], help="nodes to flatten")
    made.add_argument("--scope", default="node", choices=SCOPES, help="one sample per node, or one per target")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--shared", action="store_true", help="hold features once per shard, not in every record")
    made.add_argument("--shard-records", type=int, default=1024, help="targets of a shard (1024)")
    made.add_argument("--engine", default="local", choices=ENGINES)
    made.add_argument("--threads", type=int, default=1, help="of engine local")
    made.add_argument("--partitions", type=int, default=4, help="reducers of engine ray (4)")
    made.add_argument("--hub-threshold", type=int, default=10_000, help="in-edges above which reducers share a node")
    columns = made.add_argument_group("columns of the tables")
    for name in ("id", "source", "target", "label", "split", "weight"):
        columns.add_argument(f"--{name}", default=name)
    for name in ("node-type", "edge-type"):
        columns.add_argument(f"--{name}", default="type", help="whole numbers, for filters (type)")
    columns.add_argument("--features", nargs="*", help="numeric columns, or one of lists (all without another role)")
    columns.add_argument(
        "--edge-features", nargs="+", help="of the edge table: numeric columns, or one of lists (none)"
    )
    columns.add_argument("--width", type=int, help="features expected of every node")
    columns.add_argument("--undirected", action="store_true", help="each row is an edge both ways")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Flatten; 0 done, 1 the disk is full or a file cannot be read, 2 what was given does not fit together."""
    given = parser().parse_args(arguments)
    try:
        job = job_of(given)
        if given.output.exists():
            raise ValueError(f"{given.output} exists: delete it or choose another folder")
        manifest = flatten(given, job)
    except (ValueError, OSError, MemoryError) as error:
        print(f"error: {told_of(error, given.output)}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    sizes = manifest["sizes"]
    print(
        f"{sizes['records']:,} GraphFeatures in {manifest['seconds']:.1f} s, {manifest['shards']} shards, "
        f"{sizes['file_bytes']:,} bytes ({sizes['embedded_bytes']:,} with features in each, {sizes['shared_bytes']:,} "
        f"with features once per shard), {manifest['duplication']:.1f} copies of a node: {given.output}"
    )
    return 0


def told_of(error: Exception, output: Path) -> str:
    """What to say of a failure, and how to go on."""
    if isinstance(error, MemoryError):
        return "out of memory: give smaller --shard-records or fanouts"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return f"{output}: {error}: make room and give the same command, it goes on from what is there"
    return str(error)


def job_of(given: argparse.Namespace) -> Job:
    """What the arguments ask for; raises ValueError for what cannot be carried out."""
    if given.engine == "ray":
        cluster.require("--engine ray", "--engine local")
    strategy = parse(given.sampling, given.hops, given.scope, given.seed)
    names = ("shard_records", "engine", "threads", "partitions", "hub_threshold")
    options = {name: getattr(given, name) for name in names}
    return Job(strategy, given.filter, not given.shared, **options)


def flatten(given: argparse.Namespace, job: Job) -> dict[str, Any]:
    """Read the tables once, flatten them, and remove what only that needed; returns the manifest with its seconds."""
    started = time.perf_counter()
    with alone(tables := given.output.with_name(f".{given.output.name}.tables")), shown() as progress:
        graph = read_tables(given, tables)
        read = time.perf_counter() - started
        names = tables / NAMES if (tables / NAMES).is_file() else None
        try:
            manifest = flatten_to(given.output, graph, targets_of(graph, given.targets), job, progress, names)
        except ValueError as error:
            shutil.rmtree(tables)
            if isinstance(error, UnfitEdge):
                raise StrategyError(f"{given.edges}: row {row_of(error.edge, graph, given)}: {error.told}") from error
            raise
        shutil.rmtree(tables)
    return manifest | {"seconds": time.perf_counter() - started, "read_seconds": read}


def row_of(edge: int, graph: Graph, given: argparse.Namespace) -> int:
    """Row of the edge table, from 1, that an edge comes from."""
    rows = graph.csr.nnz // (2 if given.undirected else 1) + graph.self_loops_dropped
    return edge % rows + 1


def read_tables(given: argparse.Namespace, folder: Path) -> Graph:
    """Turn the tables into a mapped graph in ``folder``, unless an interrupted run of the same tables did."""
    options = TableOptions(**{item.name: getattr(given, item.name) for item in fields(TableOptions)})
    facts = folder / "graph.json"
    if facts.is_file() and json.loads(facts.read_text())["sha256"] == tables_sha256(
        options, [given.labels] if given.labels else []
    ):
        return Graph.load(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return stream_tables(options, folder, given.labels)
    except BaseException:
        shutil.rmtree(folder)
        raise


@contextmanager
def shown() -> Iterator[Progress]:
    """Show on stderr how many shards are done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("flatten"), BarColumn(), MofNCompleteColumn(), TextColumn("shards"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("flatten", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
