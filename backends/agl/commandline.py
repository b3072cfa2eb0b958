"""AGL's command lines: how they end, settings ``-c KEY=VALUE``, typed and checked, and the tables of a user."""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite
from pathlib import Path
from typing import Any, TypeVar

from backends.agl.cluster import Cluster
from backends.agl.config import MOST_ON_RAY, RUN_ON
from backends.memory_errors import is_out_of_memory
from backends.progress import Progress, announce, silent
from backends.settings import setting, settings_in
from datasets.features import LAYOUTS
from datasets.graph import Graph
from datasets.tables.options import TableOptions
from datasets.tables.streaming import MEMORY, stream_tables, tables_sha256

Settings = TypeVar("Settings")

PATHS = ("nodes", "edges")
READING = ("labels", "memory")  # options of the reading of tables that are none of the graph
FEATURES = {"features", "feature_columns", "feature_values"}


def first_line(error: BaseException) -> str:
    """The message of an error; of one that another process raised, without the error and trace that Ray adds."""
    cause = getattr(error, "cause", None)
    return str(error).partition("\n")[0] if cause is None else first_line(cause)


def with_remedy(remedy: str, error: BaseException) -> str:
    """The message of an error, with the ``remedy`` of the command where memory ran out."""
    line = first_line(error)
    if not is_out_of_memory(error):
        return line
    return f"out of memory{f' ({line})' if line else ''}: give {remedy}"


def run_command(command: Callable[[], str], message: Callable[[Exception], str]) -> int:
    """Run a command and print its result, or its error as a sentence.

    Returns 0 where it is done, 1 where the disk is full, a file cannot be read, a worker is lost or it is interrupted,
    2 for wrong arguments.
    """
    try:
        print(command())
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        print(f"error: {message(error)}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt:
        print("error: interrupted: repeat the command, which goes on from what is finished", file=sys.stderr)
        return 1
    return 0


def refuse_other_run_on(stated: Mapping[str, str], run_on: str, prefix: str = "--run-on ") -> None:
    """Raise ValueError for a stated option, by name as it is written, that another ``run_on`` uses."""
    for option, used_by in stated.items():
        if used_by != run_on:
            other = f"{prefix}{used_by}"
            raise ValueError(f"{prefix}{run_on} does not use {option}: leave it out, or give {other}")


def announce_small_batches(largest: int, size: int, targets: int) -> None:
    """Say where batches have at most ``largest`` targets, not ``size`` of them or all, as each is of one shard."""
    if largest < min(size, targets):
        announce(
            f"batches have at most {largest:,} targets, not -c batch_size={size}: each is of one shard, so flatten "
            "with larger --shard-records for larger batches"
        )


@dataclass(frozen=True)
class TrainSettings:
    """Settings of one training; ``batch_size`` is per worker, ``servers=0`` is one server in this process.

    ``source`` is ``shards``, or ``graph``: the graph in memory that GraphFlat kept beside them.
    """

    hidden: int = setting(64, least=1)
    heads: int = setting(1, least=1)
    output_heads: int = setting(1, least=1)
    slope: float = 0.2
    head: str = setting("none", choices=("none", "linear"))
    epochs: int = setting(10, least=1)
    batch_size: int = setting(1024, least=1)
    optimizer: str = setting("adam", choices=("adam", "sgd"))
    rate: float = setting(0.01, least=0)
    decay: float = setting(0.0, least=0)
    dropout: float = setting(0.0, least=0)
    attention_dropout: float = setting(0.0, least=0)
    seed: int = 0
    threads: int = setting(2, least=1)
    workers: int = setting(1, least=1)
    servers: int = setting(0, least=0)
    staleness: int = setting(2, least=0)
    checkpoint_every: int = setting(100, least=0)
    source: str = setting("shards", choices=("shards", "graph"))


@dataclass(frozen=True)
class InferSettings:
    """Settings of one inference; ``fanouts`` has one entry per layer, first layer first.

    ``infer`` is ``graphinfer`` or ``neighbourhood``, empty to choose by the sampling. The settings of sampling are for
    parameters whose file does not say how they were trained. ``address`` is that of a running Ray cluster, whose
    machines find the graph in ``store``.
    """

    run_on: str = setting("local", choices=RUN_ON)
    infer: str = setting("", choices=("", "graphinfer", "neighbourhood"))
    batch_size: int = setting(1024, least=1)
    partitions: int = 0
    threads: int = setting(2, least=1)
    seed: int = 0
    fanouts: tuple[int, ...] = ()
    sampler: str = "uniform"
    replacement: bool = False
    hub_threshold: int = setting(10_000, least=0)
    unmap: bool = False
    slope: float = 0.2
    address: str = ""
    store: str = ""


def read_train_settings(pairs: list[str]) -> TrainSettings:
    """Read ``key=value`` pairs; raises ValueError naming what is allowed."""
    settings = read_pairs(pairs, TrainSettings)
    for name in ("dropout", "attention_dropout"):
        if getattr(settings, name) >= 1:
            raise ValueError(f"-c {name}={getattr(settings, name)} is not allowed: below 1")
    return settings


def read_infer_settings(pairs: list[str]) -> InferSettings:
    """Read ``key=value`` pairs; raises ValueError naming what is allowed."""
    settings = read_pairs(pairs, InferSettings)
    if settings.infer == "neighbourhood" and settings.run_on == "ray":
        raise ValueError("-c infer=neighbourhood runs in this process: give run_on=local")
    Cluster(settings.address or None, settings.store or None).check(settings.run_on)
    if settings.run_on == "ray" and settings.partitions > MOST_ON_RAY:
        raise ValueError(f"-c partitions={settings.partitions} is not allowed with run_on=ray: at most {MOST_ON_RAY}")
    return settings


def read_pairs(pairs: list[str], kind: type[Settings]) -> Settings:
    """Read pairs into a dataclass whose fields have defaults; raises ValueError naming what is allowed."""
    types = {option.name: type(option.default) for option in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if key not in types or not sign:
            raise ValueError(f"-c {pair} is not understood: give key=value with a key of {', '.join(types)}")
        values[key] = _parse_value(key, text, types[key])
    settings = kind(**values)
    for key, limits, value in settings_in(settings):
        if limits.choices and value not in limits.choices:
            allowed = ", ".join(filter(None, limits.choices))
            raise ValueError(f"-c {key}={value} is not allowed: one of {allowed}")
        if limits.least is not None and not limits.least <= value < inf:
            raise ValueError(f"-c {key}={value} is not allowed: at least {limits.least}")
    for key, value in values.items():
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"-c {key}={value} is not allowed: give a finite number")
    return settings


def _parse_value(key: str, text: str, kind: type) -> Any:
    try:
        if kind is tuple:
            return tuple(int(part) for part in text.split(",") if part)
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (ValueError, KeyError) as error:
        descriptions: dict[Any, str] = {tuple: "whole numbers with commas between", bool: "true or false"}
        expected = descriptions.get(kind, f"one {kind.__name__}")
        raise ValueError(f"-c {key}={text} is not understood: give {expected}") from error


def add_table_options(options: argparse.ArgumentParser, required: bool) -> None:
    """Add the tables and the names of their columns; options that are not given are absent from the namespace."""
    tables = options.add_argument_group("tables", argument_default=argparse.SUPPRESS)
    tables.add_argument(
        "-n", "--nodes", required=required, help="node table: .parquet or .csv, any path that fsspec opens"
    )
    tables.add_argument(
        "-e", "--edges", required=required, help="edge table, likewise; a row is an edge source -> target"
    )
    tables.add_argument("-l", "--labels", help="table of id, label and split, where the node table has none")
    for name in ("id", "source", "target", "label", "weight"):
        tables.add_argument(f"--{name}", help=f"column ({name})")
    tables.add_argument(
        "--split",
        help="column (split), or the shares of the labelled nodes to draw: 0.8,0.1,0.1 for train,validation,test",
    )
    for name in ("node-type", "edge-type"):
        tables.add_argument(f"--{name}", help="column of whole numbers, for filters (type)")
    tables.add_argument(
        "--features", nargs="*", help="numeric columns, or one column of lists (all without another role)"
    )
    tables.add_argument(
        "--edge-features", nargs="+", help="of the edge table: numeric columns, or one column of lists (none)"
    )
    tables.add_argument(
        "--feature-columns", help="a column of lists of the columns that are set, in place of --features"
    )
    tables.add_argument("--feature-values", help="a column of lists of their values (1)")
    tables.add_argument("--layout", choices=LAYOUTS, help="of features: sparse where few are set (auto)")
    tables.add_argument("--width", type=int, help="expected features per node")
    tables.add_argument("--memory", type=float, help="GiB of a part of the tables while it is read or sorted (0.25)")
    tables.add_argument("--undirected", action="store_true", help="each row is an edge in both directions")


def table_options_of(parsed: argparse.Namespace, defaults: dict[str, Any] | None = None) -> TableOptions:
    """The options of a command line; those that it leaves out are ``defaults``, such as those of a training.

    Features that it names replace those of the defaults, whether columns hold them or lists.
    """
    names = {option.name for option in fields(TableOptions)}
    stated = {name: value for name, value in vars(parsed).items() if name in names}
    renamed = dict.fromkeys(FEATURES) if stated.keys() & FEATURES else {}
    return TableOptions(**(defaults or {}) | renamed | stated)


def stated_table_options(parsed: argparse.Namespace) -> list[str]:
    """The options of a command line that say how tables are read, as they are written, in their order."""
    names = {option.name for option in fields(TableOptions)}.union(READING).difference(PATHS)
    return [f"--{name.replace('_', '-')}" for name in vars(parsed) if name in names]


def columns_of(options: TableOptions) -> dict[str, Any]:
    """The options without the paths: what must be equal when other tables are read for the same model."""
    return {name: value for name, value in asdict(options).items() if name not in PATHS}


def read_tables(
    parsed: argparse.Namespace,
    options: TableOptions,
    folder: Path,
    progress: Progress = silent,
    *,
    labelled: bool = True,
) -> Graph:
    """Write the tables as a graph into ``folder`` and map it, or map the graph that an interrupted run wrote there.

    Labels and splits of the node table are read only where it is ``labelled`` and ``parsed`` names no table of labels.
    """
    facts, labels, memory = folder / "graph.json", getattr(parsed, "labels", None), getattr(parsed, "memory", None)
    if memory is not None and not 0 < memory < float("inf"):
        raise ValueError(f"--memory {memory} is not allowed: give GiB above 0")
    sha256 = tables_sha256(options, [labels] if labels else [], progress)
    if facts.is_file() and json.loads(facts.read_text())["sha256"] == sha256:
        return Graph.load(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    most = MEMORY if memory is None else max(int(memory * 2**30), 1)
    try:
        return stream_tables(options, folder, labels, most, progress=progress, sha256=sha256, labelled=labelled)
    except BaseException:
        shutil.rmtree(folder)
        raise


def row_of(edge: int, graph: Graph, undirected: bool) -> int:
    """Row of the edge table, from 1, of an edge id."""
    rows = graph.csr.nnz // (2 if undirected else 1) + graph.self_loops_dropped
    return edge % rows + 1
