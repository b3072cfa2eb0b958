"""A user's tables on AGL's command lines: options that name their columns, and the graph that the tables become."""

import argparse
import json
import shutil
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from backends.progress import Progress, silent
from datasets.features import LAYOUTS
from datasets.graph import Graph
from datasets.tables.options import TableOptions
from datasets.tables.streaming import MEMORY, stream_tables, tables_sha256

PATHS = ("nodes", "edges")
FEATURES = {"features", "feature_columns", "feature_values"}


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


def columns_of(options: TableOptions) -> dict[str, Any]:
    """The options without the paths: what must be equal when other tables are read for the same model."""
    return {name: value for name, value in asdict(options).items() if name not in PATHS}


def read_tables(parsed: argparse.Namespace, options: TableOptions, folder: Path, progress: Progress = silent) -> Graph:
    """Write the tables as a graph into ``folder`` and map it, or map the graph that an interrupted run wrote there."""
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
        return stream_tables(options, folder, labels, most, progress=progress, sha256=sha256)
    except BaseException:
        shutil.rmtree(folder)
        raise
