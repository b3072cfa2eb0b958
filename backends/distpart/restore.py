"""Rows in the order of new ids, as training on parts leaves them, back in the order of the original ids."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.dispatch.metadata import check_counts, part_folder
from backends.distpart.dispatch.part import ORIGINAL_EDGES, ORIGINAL_NODES
from backends.distpart.typed_graph import GraphError
from datasets.array_files import create_array
from datasets.files import atomic_file
from datasets.partition.description import read_description
from datasets.partition.dgl_format import read_tensors


def restore(config: Path, rows: NDArray[Any], kind: str | None, target: Path) -> None:
    """Write ``rows``, given by new id within a node type or relation, by original id; the only type is the default.

    ``config`` is the JSON of the partition. Raises GraphError for an unknown type, for another number of rows, and for
    a damaged partition.
    """
    facts = read_description(config)
    check_counts(config, facts)
    for name in ("ntypes", "etypes"):
        if not isinstance(facts[name], dict) or not facts[name]:
            raise GraphError(f"{config} says {name}={facts[name]!r}: an object that numbers each type is needed")
    kinds = dict.fromkeys(facts["ntypes"], ORIGINAL_NODES) | dict.fromkeys(facts["etypes"], ORIGINAL_EDGES)
    if kind is None:
        if len(facts["ntypes"]) > 1:
            raise GraphError(f"the graph has several types: name one of {', '.join(kinds)}")
        kind = next(iter(facts["ntypes"]))
    if kind not in kinds:
        raise GraphError(f"there is no type {kind}: name one of {', '.join(kinds)}")
    folders = [config.parent / part_folder(part) for part in range(facts["num_parts"])]
    tables = [_originals(folder / kinds[kind], kind) for folder in folders]
    total = sum(map(len, tables))
    if len(rows) != total:
        raise GraphError(f"{len(rows)} rows were given, {kind} has {total}")
    largest = max((int(table.max(initial=-1)) for table in tables), default=-1)
    shape = (max(total, largest + 1), *rows.shape[1:])
    with atomic_file(target) as temporary:
        out = create_array(temporary, rows.dtype, shape)
        start = 0
        for table in tables:
            out[table] = rows[start : start + len(table)]
            start += len(table)
        out.flush()


def _originals(path: Path, kind: str) -> NDArray[np.integer]:
    """The original ids of a type in the file of a part; raises GraphError where it has none, or none that are ids."""
    tables = read_tensors(path)
    if kind not in tables:
        raise GraphError(f"{path} has ids of {', '.join(tables) or 'nothing'}, not of {kind}: dispatch the graph again")
    ids = tables[kind]
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or ids.min(initial=0) < 0:
        raise GraphError(f"{path} has something else than ids from 0 on for {kind}: dispatch the graph again")
    return ids
