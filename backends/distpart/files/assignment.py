"""Assignment folders, as DGL's dispatcher takes them: ``<type>.txt``, a part per line, and ``partition_meta.json``."""

import json
from pathlib import Path

import numpy as np

from backends.distpart.dispatch.job import UNKNOWN
from backends.distpart.dispatch.numbering import Parts
from backends.distpart.files.json_file import read_object
from backends.distpart.typed_graph import GraphError, TypedGraph
from datasets.files import atomic_folder

META, VERSION = "partition_meta.json", "1.0.0"


def write_assignment(graph: TypedGraph, parts: Parts, count: int, method: str, folder: Path) -> None:
    """Write the part of each node, by type; raises ValueError for a folder that exists.

    DGL knows the methods ``random`` and ``metis`` alone and refuses others: ``algo_name`` is one of them, ``method``
    is the true one.
    """
    import pyarrow
    from pyarrow import csv

    refuse_existing(folder)
    known = "random" if method == "random" else "metis"
    facts = {"version": VERSION, "num_parts": count, "algo_name": known, "method": method}
    with atomic_folder(folder) as temporary:
        for kind in graph.schema.node_types:
            start = graph.starts[kind]
            table = pyarrow.table({"part": parts[start : start + graph.nodes[kind]]})
            csv.write_csv(table, temporary / f"{kind}.txt", csv.WriteOptions(include_header=False))
        (temporary / META).write_text(json.dumps(facts, indent=1))


def refuse_existing(folder: Path) -> None:
    """Raise ValueError for a folder that exists."""
    if folder.exists():
        raise ValueError(f"{folder} exists: choose another folder")


def read_assignment(graph: TypedGraph, folder: Path) -> tuple[Parts, int, str]:
    """Return the part of each node by homogeneous id, the number of parts and the method.

    Raises GraphError naming file and row for what is missing, not a number, or no part.
    """
    path = folder / META
    facts = read_object(path)
    try:
        count, method = int(facts["num_parts"]), str(facts.get("method", facts.get("algo_name", UNKNOWN)))
    except (ValueError, KeyError, TypeError) as error:
        raise GraphError(f"{path} does not say num_parts, an integer: {error}") from error
    if count < 1:
        raise GraphError(f"{path} says num_parts={count}: at least 1")
    pieces = [_read(folder / f"{kind}.txt", graph.nodes[kind], count) for kind in graph.schema.node_types]
    return np.concatenate(pieces), count, method


def _read(path: Path, nodes: int, count: int) -> Parts:
    import pyarrow
    from pyarrow import csv

    if not path.exists():
        raise GraphError(f"{path} does not exist: an assignment has a file for each node type")
    if not path.stat().st_size:
        parts = np.empty(0, dtype=np.int32)
    else:
        try:
            options = csv.ConvertOptions(column_types={"part": pyarrow.int32()})
            table = csv.read_csv(
                path, csv.ReadOptions(column_names=["part"], use_threads=False), convert_options=options
            )
        except pyarrow.ArrowException as error:
            raise GraphError(f"{path} does not have a part in every line: {error}") from error
        parts = table["part"].to_numpy().astype(np.int32)
    if len(parts) != nodes:
        raise GraphError(f"{path} has {len(parts)} lines for {nodes} nodes")
    wrong = np.flatnonzero((parts < 0) | (parts >= count))
    if len(wrong):
        raise GraphError(f"{path}: row {wrong[0]} is part {parts[wrong[0]]}: allowed are 0 to {count - 1}")
    return parts
