"""What a dispatch was begun from: a digest beside its buckets, by which a later call goes on or is refused."""

import json
import re
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.typed_graph import TypedGraph, rows_at_once
from datasets.features import SparseFeatures
from datasets.files import write_atomic
from datasets.hashes import digest

WORK, PLAN = ".work", "plan.json"
_BUCKET = r"\d{3,}-\d{6,}"  # as ``Piece.folder`` names it
_OWN = re.compile(rf"{_BUCKET}|{re.escape(PLAN)}|\.({_BUCKET}|{re.escape(PLAN)})\..+")  # and what is being written
_SAMPLED = 4096  # rows of an array that are read where a hash names the data set
_EDGES = 1 << 16  # that are read at a time where none does


def begin(folder: Path, graph: TypedGraph, numbering: Numbering, options: list[Any]) -> Path:
    """Return the folder for buckets, new or that of the same dispatch; raises ValueError where it is another's."""
    refuse_foreign_folder(folder)
    work, plan = folder / WORK, _plan_of(graph, numbering, options)
    path = work / PLAN
    if path.exists():
        if json.loads(path.read_text()) != plan:
            raise ValueError(
                f"{folder} has a dispatch that was begun from other input or with other options: delete the folder, or "
                "repeat the command that began it"
            )
        _remove_leftovers(folder)
        return work
    remove_work(folder)  # of a call that was killed before it had written its plan
    work.mkdir(parents=True)
    write_atomic({path: json.dumps(plan)})
    return work


def refuse_foreign_folder(folder: Path) -> None:
    """Raise ValueError for a folder that has files and no dispatch that was begun, or files of others among buckets."""
    work = folder / WORK
    if folder.exists() and not (work / PLAN).exists() and any(entry != work for entry in folder.iterdir()):
        raise ValueError(f"{folder} is not empty: choose another folder")
    if not _is_ours(work):
        raise ValueError(f"{work} is not of a dispatch, or has files of others: choose another folder, or move them")


def remove_work(folder: Path) -> None:
    """Remove the buckets and the plan of a dispatch that needs them no more, unless files of others are there."""
    work = folder / WORK
    if work.exists() and _is_ours(work):
        shutil.rmtree(work)


def _is_ours(work: Path) -> bool:
    """Whether a folder has nothing but what a dispatch writes there; so has one that does not exist."""
    if work.is_symlink():
        return False
    return all(_OWN.fullmatch(entry.name) for entry in work.iterdir()) if work.is_dir() else not work.exists()


def _remove_leftovers(folder: Path) -> None:
    """Remove what a killed process was writing; the folder is locked by this one."""
    for path in (*folder.glob(".part*.*"), *folder.glob(".*.tmp")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _plan_of(graph: TypedGraph, numbering: Numbering, options: list[Any]) -> str:
    """Digest of sizes, numbering, options and content.

    Files are named by time and size, a data set by its hash and some rows, as its order is not in the hash; all other
    arrays are read.
    """
    is_named = bool(graph.sha256)
    attributes = [
        [str(kind), name, str(array.dtype), list(array.shape), _stamp(array, is_named)]
        for table in (graph.node_data, graph.edge_data)
        for kind, arrays in table.items()
        for name, array in arrays.items()
    ]
    lists = [graph.edges[relation] for relation in graph.schema.relations]
    edges = [[relation.count, _stamp_of_edges(relation, is_named)] for relation in lists]
    sizes = [graph.sha256, graph.schema.as_json(), dict(graph.nodes), numbering.bounds.tolist()]
    return digest([*sizes, edges, attributes, _checksum([numbering.new_ids]), options])


def _stamp(array: Any, is_named: bool) -> Any:
    """Times and sizes of an array's files, or a checksum: of all rows, of some where a hash names the data set."""
    if hasattr(array, "stamp"):
        return array.stamp()
    if is_named:
        some = array[np.linspace(0, max(0, len(array) - 1), min(len(array), _SAMPLED)).astype(np.int64)]
        return _checksum([some.dense() if isinstance(some, SparseFeatures) else np.asarray(some)])
    whole = array.arrays if isinstance(array, SparseFeatures) else (array,)
    return _checksum(
        np.asarray(one[start : start + rows_at_once(one)])
        for one in whole
        for start in range(0, len(one), rows_at_once(one))
    )


def _stamp_of_edges(edges: Any, is_named: bool) -> Any:
    """The same of a relation's edges: both ends and ids."""
    if hasattr(edges, "stamp"):
        return edges.stamp()
    if is_named:
        starts = np.linspace(0, max(0, edges.count - _SAMPLED), 8).astype(np.int64)
        spans = [(start, min(start + _SAMPLED, edges.count)) for start in starts.tolist()]
    else:
        spans = [(start, min(start + _EDGES, edges.count)) for start in range(0, edges.count, _EDGES)]
    return _checksum(
        array for span in spans for array in (*edges.read(*span), edges.original_ids(np.arange(*span, dtype=np.int64)))
    )


def _checksum(arrays: Iterable[NDArray[Any]]) -> int:
    """Checksum of the bytes of arrays, one after the other."""
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return checksum
