"""``python -m backends.agl.flat -n NODES -e EDGES -h HOPS -s SAMPLING -o OUT``, as in AGL's demo (section 3.5)."""

import argparse
import errno
import shutil
import sys
import time
from functools import partial
from typing import Any

from backends.agl.cluster import Cluster
from backends.agl.commandline import (
    add_table_options,
    columns_of,
    read_tables,
    refuse_other_run_on,
    row_of,
    run_command,
    table_options_of,
    with_remedy,
)
from backends.agl.config import RUN_ON
from backends.agl.flat.job import FlattenJob, NoRoom, Origin, flatten_to, nodes_to_flatten
from backends.agl.flat.reader import MANIFEST
from backends.agl.flat.sampling_strategy import SCOPES, StrategyError, parse_sampling
from backends.agl.flat.source import UnfitEdge
from backends.folder_lock import locked
from backends.parallel import ray_cluster as cluster
from backends.places import delivered, written
from backends.progress import Progress, announce, step_progress
from datasets.graph import SPLITS
from datasets.tables.columns import notes_of_columns, require_named
from datasets.tables.node_stream import NAMES
from datasets.tables.options import TableOptions, names_of
from datasets.tables.reading import read_columns
from datasets.tables.streaming import with_named_features
from datasets.tables.table import TableError

OF_RUN_ON = {"threads": "local", "partitions": "ray", "hub_threshold": "ray"}


def parser() -> argparse.ArgumentParser:
    """The command line; ``-h`` is the number of hops, as in the paper."""
    options = argparse.ArgumentParser("python -m backends.agl.flat", description=__doc__, add_help=False)
    options.add_argument("--help", action="help", help="show this message and exit")
    options.add_argument("-h", "--hops", type=int, required=True, help="hops of a neighbourhood, at least 1")
    options.add_argument(
        "-s", "--sampling", default="full()", help="sampler per hop, hop 1 first: uniform(15);uniform(10) (full())"
    )
    options.add_argument("-o", "--output", required=True, help="folder for the shards, any fsspec path; must not exist")
    options.add_argument("-f", "--filter", help="edges to sample from: weight > 0.5 and neighbor.type in (1, 2)")
    options.add_argument("--targets", default="labelled", choices=["labelled", "all", *SPLITS], help="nodes to flatten")
    options.add_argument("--scope", default="node", choices=SCOPES, help="one sample per node, or one per target")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--keep-graph", action="store_true", help="leave the prepared graph in OUTPUT/graph, for infer"
    )
    options.add_argument("--shared", action="store_true", help="store features once per shard, not in every record")
    options.add_argument("--shard-records", type=int, default=1024, help="targets per shard (1024)")
    options.add_argument("--run-on", default="local", choices=RUN_ON, help="this process or Ray tasks (local)")
    options.add_argument("--threads", type=int, help="of --run-on local (1)")
    options.add_argument("--partitions", type=int, help="reducers of --run-on ray (by edges and cores)")
    options.add_argument("--address", help="of --run-on ray: a running cluster, host:port or auto (one started here)")
    options.add_argument(
        "--store", help="URL that all machines of the cluster reach: s3://bucket/folder, file:///folder"
    )
    options.add_argument(
        "--hub-threshold",
        type=int,
        help="of --run-on ray: in-edges above which all reducers rank those of a node with topk (10000)",
    )
    add_table_options(options, required=True)
    return options


def main(arguments: list[str] | None = None) -> int:
    """Flatten; returns the exit code of ``run_command``."""
    parsed = parser().parse_args(arguments)
    return run_command(partial(flattened, parsed), partial(failure_message, parsed.output))


def flattened(parsed: argparse.Namespace) -> str:
    """Flatten tables to any place; returns what was written, in a sentence."""
    place, command = parsed.output, str(vars(parsed))
    job = flatten_job_of(parsed)
    if delivered(place, MANIFEST, command):
        return f"uploaded what was finished before: {place}"
    if parsed.address:
        cluster.reach(parsed.address)
    with written(place, MANIFEST, command) as parsed.output:
        if parsed.output.exists():
            raise ValueError(f"{parsed.output} exists: delete it or choose another folder")
        manifest = flatten_tables(parsed, job)
    sizes = manifest["sizes"]
    return (
        f"{sizes['records']:,} GraphFeatures in {manifest['seconds']:.1f} s, {manifest['shards']} shards, "
        f"{sizes['file_bytes']:,} bytes ({sizes['embedded_bytes']:,} with features in each, {sizes['shared_bytes']:,} "
        f"with features once per shard), {manifest['duplication']:.1f} copies of a node: {place}"
    )


REMEDY = "smaller --shard-records or fanouts, or a smaller --memory where tables were being read"


def failure_message(output: str, error: Exception) -> str:
    """The message of a failure, with advice."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return f"{output}: {error}: free some space and repeat the command, which resumes from the finished shards"
    return with_remedy(REMEDY, error)


def flatten_job_of(parsed: argparse.Namespace) -> FlattenJob:
    """The job of the arguments; raises ValueError for an unknown sampler, an unused option or a missing Ray."""
    stated = {name: getattr(parsed, name) for name in OF_RUN_ON}
    options: dict[str, Any] = {name: value for name, value in stated.items() if value is not None}
    refuse_other_run_on({"--" + name.replace("_", "-"): OF_RUN_ON[name] for name in options}, parsed.run_on)
    if parsed.run_on == "ray":
        cluster.require("--run-on ray", "--run-on local")
    strategy = parse_sampling(parsed.sampling, parsed.hops, parsed.scope, parsed.seed)
    options |= {"run_on": parsed.run_on, "cluster": Cluster(parsed.address, parsed.store)}
    return FlattenJob(strategy, parsed.filter, not parsed.shared, parsed.shard_records, **options)


def flatten_tables(parsed: argparse.Namespace, job: FlattenJob) -> dict[str, Any]:
    """Read the tables into a temporary mapped graph and flatten it; returns the manifest with the seconds taken."""
    started = time.perf_counter()
    tables = parsed.output.with_name(f".{parsed.output.name}.tables")
    with locked(tables), step_progress() as progress:
        options = named_columns(parsed, progress)
        graph = read_tables(parsed, options, tables, progress)
        origin = Origin(columns_of(options), tables / NAMES, tables if parsed.keep_graph else None)
        try:
            targets = nodes_to_flatten(graph, parsed.targets)
            manifest = flatten_to(parsed.output, graph, targets, job, progress, origin, announce)
        except (ValueError, NoRoom) as error:
            shutil.rmtree(tables)
            if isinstance(error, UnfitEdge):
                row = row_of(error.edge, graph, options.undirected)
                raise StrategyError(f"{parsed.edges}: row {row}: {error.reason}: {error.advice}") from error
            raise
        shutil.rmtree(tables, ignore_errors=True)
    return manifest | {"seconds": time.perf_counter() - started}


def named_columns(parsed: argparse.Namespace, progress: Progress) -> TableOptions:
    """The options with the names of all features; raises TableError for labels or splits that the node table lacks."""
    options = table_options_of(parsed)
    nodes = read_columns(options.nodes, "node", progress)
    if not getattr(parsed, "labels", None):
        require_named(options, ("label", "split"), [nodes])
        if parsed.targets == "labelled" and not any(map(nodes.has, (*names_of(options.label), options.split))):
            raise TableError(
                f"{options.nodes} has no column {options.label!r} or {options.split!r}: name one, give a table of "
                "labels by -l, or say which nodes to flatten, as in --targets all"
            )
    if options.features is None and options.feature_columns is None:
        for note in notes_of_columns(nodes, options.roles):
            announce(f"{options.nodes}: {note}")
    return with_named_features(options, nodes)


if __name__ == "__main__":
    sys.exit(main())
