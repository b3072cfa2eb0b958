"""Data set ``partition``: the parts that ``python -m backends.distpart`` or DGL wrote, as one graph in their order."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import csr_from_edges
from datasets.graph import MISSING, NO_SPLIT, SPLITS, Graph
from datasets.options import check_options
from datasets.partition.description import MASKS, part_folders, read_description
from datasets.partition.dgl_format import FormatError, StoredGraph, read_graph, read_tensors
from datasets.partition.identity import (
    EDGE_FEATURES,
    GRAPH,
    NODE_FEATURES,
    ORIGINAL_EDGES,
    ORIGINAL_NODES,
    config_path,
    content_sha256,
)
from datasets.paths import Files, Options
from datasets.tables.columns import MOST_CLASSES


def load(name: str, files: Files, options: Options) -> Graph:
    """Read the partition whose JSON ``options["config"]`` names; nodes stand in the order of their new ids.

    ``part_bounds`` are the first nodes of the parts. Original ids of nodes and edges stay where they are stored, so
    that what is drawn by id does not depend on the partition. Of a typed graph all relations are one, and attributes
    that not all types have alike are left out, with a note. Raises ValueError for a JSON that describes no partition,
    for files that are damaged or not those of a given ``sha256``, and for labels that are no classes.
    """
    check_options("option of data set partition", options, ("config", "sha256"))
    path = config_path(options)
    sha256 = content_sha256(path)
    if not sha256.startswith(str(options.get("sha256") or "")):
        raise ValueError(f"{path} or a file of its parts was changed since the run began: start it again")
    try:
        return _read(path, sha256)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} and the files of its parts do not belong together ({error!r}): write the partition again"
        ) from error


def _read(path: Path, sha256: str) -> Graph:
    """Join the parts; raises KeyError, IndexError and the like where their files do not belong together."""
    facts = read_description(path)
    folders = part_folders(path, facts)
    kinds, relations = list(facts["ntypes"]), list(facts["etypes"])
    nodes, edges = ([read_tensors(folder / file) for folder in folders] for file in (NODE_FEATURES, EDGE_FEATURES))
    sources, destinations = _edges([_undamaged(folder / GRAPH) for folder in folders])
    no_loops = np.flatnonzero(sources != destinations)
    csr = csr_from_edges(sources[no_loops], destinations[no_loops], (facts["num_nodes"],) * 2, no_loops)
    position = csr.ids
    node_ids, id_notes = _originals(folders, ORIGINAL_NODES, kinds, facts["num_nodes"])
    edge_ids, _ = _originals(folders, ORIGINAL_EDGES, relations, facts["num_edges"])
    node_map = {kind: facts["node_map"][kind] for kind in kinds}
    edge_map = {relation: facts["edge_map"][relation] for relation in relations}
    features, notes = _attribute(nodes, node_map, "feat")
    stored_labels, label_notes = _attribute(nodes, node_map, "label")
    labels, classes, task = _labels(stored_labels)
    weights, weight_notes = _attribute(edges, edge_map, "weight")
    edge_features, edge_notes = _attribute(edges, edge_map, "feat")
    for what, values in (("feat", features), ("weight", weights), ("feat of edges", edge_features)):
        _refuse_not_finite(what, values)
    several = len(kinds) > 1 or len(relations) > 1
    return Graph(
        name=str(facts["graph_name"]),
        csr=type(csr)(csr.indptr, csr.indices, csr.shape, edge_ids[position]),
        features=None if features is None else _rows(features).astype(np.float32),
        labels=labels,
        split=_split(nodes, facts["node_map"], facts["num_nodes"]),
        classes=classes,
        task=task,
        node_ids=node_ids,
        node_types=_typed(facts["node_map"], kinds).astype(np.int32) if several else None,
        edge_types=_typed(facts["edge_map"], relations)[position].astype(np.int32) if several else None,
        edge_weights=None if weights is None else weights.reshape(len(sources))[position].astype(np.float32),
        edge_features=None if edge_features is None else _rows(edge_features)[position].astype(np.float32),
        part_bounds=_part_bounds(facts, kinds),
        self_loops_dropped=len(sources) - len(no_loops),
        sha256=sha256,
        trust="local",
        notes=tuple(id_notes + notes + label_notes + weight_notes + edge_notes),
    )


def _undamaged(path: Path) -> StoredGraph:
    graph = read_graph(path)
    if damage := graph.damage():
        raise FormatError(f"{path}: {damage}: write the partition again")
    return graph


def _labels(stored: NDArray[Any] | None) -> tuple[NDArray[np.integer] | None, int, str]:
    """Labels as in ``Graph``, their number of classes and their task; NaN is a missing one, as -1 is.

    One column holds classes, several hold 0 or 1 for each class, as does one of 8 bits, in which we write such labels.
    Raises ValueError for other numbers.
    """
    if stored is None:
        return None, 0, "none"
    columns = _rows(np.where(np.isnan(stored), MISSING, stored) if stored.dtype.kind == "f" else stored)
    is_class = columns.shape[1] == 1 and not (stored.ndim == 2 and stored.dtype == np.int8)
    is_whole = np.isfinite(columns) & (columns == np.floor(columns)) & (columns >= MISSING)
    allowed = is_whole if is_class else np.isin(columns, (MISSING, 0, 1))
    if not allowed.all():
        row, column = np.argwhere(~allowed)[0].tolist()
        expected = "whole numbers from 0" if is_class else "0 or 1 in several columns"
        raise ValueError(
            f"label of new node {row} is {columns[row, column]}: labels are {expected}, missing ones -1 or NaN; write "
            "the partition with such labels or without"
        )
    if not is_class:
        return columns.astype(np.int8), columns.shape[1], "multilabel"
    classes = columns[:, 0].astype(np.int64)
    if (largest := int(classes.max(initial=MISSING))) >= MOST_CLASSES:
        raise ValueError(
            f"label {largest} of new node {int(classes.argmax())} is an id or a code, no class: classes are whole "
            f"numbers below {MOST_CLASSES}, write the partition with such labels or without"
        )
    return classes, largest + 1, "multiclass"


def _refuse_not_finite(what: str, values: NDArray[Any] | None) -> None:
    """Raise ValueError for an attribute with NaN or an infinite number, naming its row."""
    if values is None or values.dtype.kind != "f":
        return
    wrong = ~np.isfinite(_rows(values)).all(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{what}: row {row} in the order of new ids is not finite: write the partition with numbers")


def _rows(array: NDArray[Any]) -> NDArray[Any]:
    """An attribute as [rows, width]; one number for each row is a width of 1."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _typed(ranges: dict[str, list[list[int]]], kinds: list[str]) -> NDArray[np.int64]:
    """The number of the type of each new id."""
    sizes = [[end - start for start, end in ranges[kind]] for kind in kinds]
    parts = len(sizes[0])
    return np.concatenate([np.full(sizes[k][part], k) for part in range(parts) for k in range(len(kinds))])


def _edges(graphs: list[StoredGraph]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """New ids of both ends of all inner edges, in the order of their new ids, in which DGL's files are not always."""
    sources, destinations = [], []
    for graph in graphs:
        inner, ids = np.flatnonzero(graph.edata["inner_edge"]), graph.ndata["_ID"]
        inner = inner[np.argsort(graph.edata["_ID"][inner], kind="stable")]
        sources.append(ids[graph.sources[inner]])
        destinations.append(ids[graph.destinations[inner]])
    return np.concatenate(sources), np.concatenate(destinations)


def _originals(folders: list[Path], file: str, kinds: list[str], count: int) -> tuple[NDArray[np.int64], list[str]]:
    """Original ids in the order of new ids; those of later types come after all of the types before.

    ``count`` new ids in their place, with a note, where no part has them, as DGL writes them.
    """
    if not any((folder / file).is_file() for folder in folders):
        return np.arange(count), ["ids: the new ones, as the partition has no original ones"]
    tables = [read_tensors(folder / file) for folder in folders]
    sizes = {kind: max((int(table[kind].max(initial=-1)) for table in tables), default=-1) + 1 for kind in kinds}
    starts = dict(zip(kinds, np.cumsum([0, *sizes.values()]), strict=False))
    return np.concatenate([table[kind] + starts[kind] for table in tables for kind in kinds]), []


def _attribute(
    tables: list[dict[str, Any]], ranges: dict[str, list[list[int]]], name: str
) -> tuple[NDArray[Any] | None, list[str]]:
    """An attribute in the order of new ids, ``None`` with a note where not all types have it alike.

    Raises IndexError where a part has another number of rows than of new ids.
    """
    pieces = []
    for part, table in enumerate(tables):
        for kind, spans in ranges.items():
            if (key := f"{kind}/{name}") in table:
                start, end = spans[part]
                if len(table[key]) != end - start:
                    raise IndexError(f"{key} of part {part} has {len(table[key])} rows, {end - start} are expected")
                pieces.append(table[key])
    if not pieces:
        return None, []
    shapes = {(piece.dtype, piece.shape[1:]) for piece in pieces}
    if len(pieces) < len(tables) * len(ranges) or len(shapes) > 1:
        return None, [f"{name}: left out, as not all types have it alike"]
    return np.concatenate(pieces), []


def _split(tables: list[dict[str, Any]], ranges: dict[str, list[list[int]]], nodes: int) -> NDArray[np.int8] | None:
    """Splits from the masks; a type without masks is in none."""
    split, has_masks = np.full(nodes, NO_SPLIT, dtype=np.int8), False
    for part, table in enumerate(tables):
        for kind, spans in ranges.items():
            for mask, name in MASKS.items():
                if f"{kind}/{mask}" in table:
                    has_masks = True
                    split[slice(*spans[part])][table[f"{kind}/{mask}"].astype(bool)] = SPLITS[name]
    return split if has_masks else None


def _part_bounds(facts: dict[str, Any], kinds: list[str]) -> NDArray[np.int64]:
    ends = [facts["node_map"][kinds[-1]][part][1] for part in range(facts["num_parts"])]
    return np.array([0, *ends], dtype=np.int64)
