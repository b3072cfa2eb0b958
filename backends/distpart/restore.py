"""Rows in the order of new ids, as training on parts leaves them, back in the order of the original ids."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from backends.distpart.dispatch.metadata import part_folder
from backends.distpart.dispatch.part import ORIGINAL_EDGES, ORIGINAL_NODES
from backends.distpart.typed_graph import GraphError
from datasets.array_files import create_array
from datasets.files import atomic_file
from datasets.partition.description import read_description
from datasets.partition.dgl_format import read_tensors


def restore(config: Path, rows: NDArray[Any], kind: str | None, target: Path) -> None:
    """Write ``rows``, given by new id within a node type or relation, by original id; the only type is the default.

    ``config`` is the JSON of the partition. Raises GraphError for an unknown type and for another number of rows.
    """
    facts = read_description(config)
    kinds = dict.fromkeys(facts["ntypes"], ORIGINAL_NODES) | dict.fromkeys(facts["etypes"], ORIGINAL_EDGES)
    if kind is None:
        if len(facts["ntypes"]) > 1:
            raise GraphError(f"the graph has several types: name one of {', '.join(kinds)}")
        kind = next(iter(facts["ntypes"]))
    if kind not in kinds:
        raise GraphError(f"there is no type {kind}: name one of {', '.join(kinds)}")
    tables = [read_tensors(config.parent / part_folder(part) / kinds[kind])[kind] for part in range(facts["num_parts"])]
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
