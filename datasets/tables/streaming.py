"""User tables larger than memory as a graph on disk, equal to the graph that ``datasets.tables.loader`` returns."""

import resource
import shutil
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from datasets.csr import Csr
from datasets.graph import Graph
from datasets.hashes import combined_sha256
from datasets.tables.columns import default_features
from datasets.tables.edge_stream import write_edges
from datasets.tables.id_index import write_index
from datasets.tables.node_stream import StreamedNodes, write_labels, write_nodes
from datasets.tables.options import TableOptions, check_feature_options
from datasets.tables.out_of_core import BYTES_PER_ROW, Buckets, Progress, silent
from datasets.tables.reading import most_rows, table_sha256
from datasets.tables.sparse_columns import pop_features
from datasets.tables.table import UserTable

MEMORY = 256 << 20  # bytes
BUCKETS = 8, 512  # at least and at most: each is an open file


def stream_tables(
    tables: TableOptions,
    folder: Path,
    label_table: str | None = None,
    memory: int = MEMORY,
    buckets: int | None = None,
    progress: Progress = silent,
    sha256: str | None = None,
    labelled: bool = True,
) -> Graph:
    """Write the graph of user tables into the empty ``folder``, in the files of ``Graph.save``, and map it.

    ``label_table`` holds id, label and split of some nodes instead of the node table, whose own columns of labels and
    splits are neither read nor features then, as where it is not ``labelled``. Ids that are strings are written to
    ``names.parquet`` (``node_stream.NAMES``) by number of their node. A batch of rows takes about ``memory`` bytes, and
    so does one of ``buckets`` parts of the nodes or edges, by default as many as that needs.
    ``progress(step, done, total)`` is called for each batch and part. ``sha256`` is that of ``tables_sha256``, where it
    is known. Raises TableError naming file and row.
    """
    check_feature_options(tables)
    if tables.feature_columns is not None and tables.width is None:
        raise ValueError("tables that are read in pieces need the width of their sparse features: give width")
    node_rows, edge_rows = most_rows(tables.nodes, "node"), most_rows(tables.edges, "edge")
    if buckets is None:
        rows = max(node_rows, edge_rows) * (1 + tables.undirected)
        buckets = int(np.clip(-(-rows * BYTES_PER_ROW // memory), BUCKETS[0], _most_buckets()))
    work = folder / "buckets"
    work.mkdir(parents=True)
    keys = Buckets(work, "ids", buckets, 2)
    nodes = write_nodes(tables, folder, keys, labelled and label_table is None, node_rows, memory, progress)
    index = write_index(keys, work, tables.nodes, nodes.kind)
    classes = nodes.classes
    if label_table is not None:
        classes = write_labels(tables, folder, index, label_table, nodes.count, memory)
    loops = write_edges(tables, folder, work, index, nodes.count, edge_rows, memory, progress)
    shutil.rmtree(work)
    sha256 = sha256 or tables_sha256(tables, () if label_table is None else (label_table,), progress)
    return _save_facts(folder, nodes, classes, loops, sha256)


def _most_buckets() -> int:
    """Most buckets that take at most half of the files that this process may open."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return BUCKETS[1] if files == resource.RLIM_INFINITY else min(BUCKETS[1], files // 2)


def with_named_features(tables: TableOptions, nodes: UserTable) -> TableOptions:
    """The options with the names of the features in the node table, so that other tables are read alike."""
    if tables.features is not None or tables.feature_columns is not None:
        return tables
    return replace(tables, features=default_features(nodes, tables.roles))


def tables_sha256(tables: TableOptions, more: Iterable[str] = (), progress: Progress = silent) -> str:
    """Hash the files, also those of ``more`` tables, and all options except the paths."""
    options = asdict(tables)
    paths = (options.pop("nodes"), options.pop("edges"), *more)
    hashes = {
        f"table {place}": table_sha256(path, f"MiB hashed of table {place + 1}", progress)
        for place, path in enumerate(paths)
    }
    return combined_sha256(hashes, options)


def _save_facts(folder: Path, nodes: StreamedNodes, classes: int, loops: int, sha256: str) -> Graph:
    """Map the written arrays, write ``graph.json`` and return the graph."""
    arrays: dict[str, Any] = {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}
    labels = arrays.get("labels")
    csr = Csr(arrays.pop("indptr"), arrays.pop("indices"), (nodes.count,) * 2, arrays.pop("edge_ids"))
    pop_features(arrays, nodes.count, nodes.width)
    graph = Graph(
        name="tables",
        csr=csr,
        classes=classes,
        task="none" if labels is None else "multiclass" if labels.ndim == 1 else "multilabel",
        sha256=sha256,
        trust="local",
        self_loops_dropped=loops,
        **arrays,
    )
    graph.save_facts(folder)
    return Graph.load(folder)
