"""What a dispatch was begun from: a digest beside its buckets, by which a later call goes on or is refused."""

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.typed_graph import TypedGraph
from datasets.features import SparseFeatures
from datasets.files import write_atomic
from datasets.hashes import digest

WORK, PLAN = ".work", "plan.json"
_SAMPLED = 4096  # rows of an array in memory that its stamp is made from


def begin(folder: Path, graph: TypedGraph, numbering: Numbering, options: list[Any]) -> Path:
    """Return the folder for buckets, new or that of the same dispatch; raises ValueError where it is another's."""
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
    refuse_foreign_folder(folder)
    if work.exists():  # of a call that was killed before it had written its plan
        shutil.rmtree(work)
    work.mkdir(parents=True)
    write_atomic({path: json.dumps(plan)})
    return work


def refuse_foreign_folder(folder: Path) -> None:
    """Raise ValueError for a folder that has files and no dispatch that was begun."""
    work = folder / WORK
    if folder.exists() and not (work / PLAN).exists() and any(entry != work for entry in folder.iterdir()):
        raise ValueError(f"{folder} is not empty: choose another folder")


def _remove_leftovers(folder: Path) -> None:
    """Remove what a killed process was writing; the folder is locked by this one."""
    for path in folder.glob(".*"):
        if path.name != WORK:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _plan_of(graph: TypedGraph, numbering: Numbering, options: list[Any]) -> str:
    """Digest of sizes, numbering, options, and of the content as far as that is cheap: files by time and size."""
    lists = [graph.edges[relation] for relation in graph.schema.relations]
    attributes = [
        [str(kind), name, str(array.dtype), list(array.shape), _stamp(array)]
        for table in (graph.node_data, graph.edge_data)
        for kind, arrays in table.items()
        for name, array in arrays.items()
    ]
    edges = [[relation.count, _stamp_of_edges(relation)] for relation in lists]
    nodes = zlib.crc32(np.ascontiguousarray(numbering.new_ids).tobytes())
    return digest(
        [graph.schema.as_json(), dict(graph.nodes), edges, attributes, nodes, numbering.bounds.tolist(), options]
    )


def _stamp(array: Any) -> Any:
    """Times and sizes of an array's files, or a checksum of rows spread over it."""
    if hasattr(array, "stamp"):
        return array.stamp()
    rows = np.linspace(0, max(0, len(array) - 1), min(len(array), _SAMPLED)).astype(np.int64)
    sample = array[rows]
    sample = sample.dense() if isinstance(sample, SparseFeatures) else np.asarray(sample)
    return zlib.crc32(np.ascontiguousarray(sample).tobytes())


def _stamp_of_edges(edges: Any) -> Any:
    if hasattr(edges, "ends"):
        return _stamp(edges.ends)
    starts = np.linspace(0, max(0, edges.count - _SAMPLED), 8).astype(np.int64).tolist()
    pieces = [edges.read(start, min(start + _SAMPLED, edges.count)) for start in starts]
    return zlib.crc32(np.concatenate([np.concatenate(piece) for piece in pieces]).tobytes())
