"""``pm_dglpart``'s work by our own partitioner: three text files in, three for each part out (DGL's guide, 7.1.2)."""

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.assign import AssignOptions, assign
from backends.distpart.dispatch.numbering import Numbering, Parts
from backends.distpart.files.text_rows import TextRows, read_rows, write_rows
from backends.distpart.typed_graph import ArrayEdges, GraphError, TypedGraph
from datasets.files import atomic_file
from datasets.schema import EDGE_TYPE, Relation, Schema

EDGE_COLUMNS = ("src_id", "dst_id", "type_edge_id", "edge_type")
STATS = ("num_nodes", "num_edges", "num_node_weights")


@dataclass(frozen=True)
class TextGraph:
    """The chapter's three files: nodes with type, weights and id within the type, edges with type and id within it."""

    nodes: TextRows
    edges: TextRows
    weights: int

    @property
    def types(self) -> NDArray[np.int64]:
        """Type of each node."""
        return self.nodes.numbers[:, 0]

    def graph(self, name: str) -> TypedGraph:
        """Nodes by type and edges in one list, whose ends are homogeneous ids; types are named by their numbers."""
        kinds = int(self.types.max(initial=0)) + 1
        names = tuple(str(kind) for kind in range(kinds))
        counts = np.bincount(self.types, minlength=kinds).tolist()
        relation = Relation("0", EDGE_TYPE, "0")
        schema = Schema(names, (relation,))
        return _UnionGraph(
            name,
            schema,
            dict(zip(names, counts, strict=True)),
            {relation: ArrayEdges(self.edges.numbers[:, 0], self.edges.numbers[:, 1])},
        )


class _UnionGraph(TypedGraph):
    """A typed graph whose only list of edges has homogeneous ids at both ends."""

    def read(self, relation: Relation, start: int, stop: int) -> tuple[Any, Any]:
        """The ids as they stand in the list, which was checked when it was read."""
        return self.edges[relation].read(start, stop)


def read_text_graph(name: str, folder: Path) -> TextGraph:
    """Read ``<name>_{stats,nodes,edges}.txt``; raises GraphError naming file and row of what is wrong."""
    path = folder / f"{name}_stats.txt"
    stats = read_rows(path, STATS)
    if len(stats) != 1:
        raise GraphError(f"{path} has {len(stats)} rows: one with {' '.join(STATS)} is needed")
    count, edge_count, weights = stats.numbers[0].tolist()
    nodes_path, edges_path = folder / f"{name}_nodes.txt", folder / f"{name}_edges.txt"
    if weights < 0:
        raise GraphError(f"{path} says {weights} node weights: at least 0")
    names = ["node_type", *(f"weight{number + 1}" for number in range(weights)), "orig_type_node_id"]
    nodes, edges = read_rows(nodes_path, names), read_rows(edges_path, EDGE_COLUMNS)
    for file, rows, expected in ((nodes_path, nodes, count), (edges_path, edges, edge_count)):
        if len(rows) != expected:
            raise GraphError(f"{file} has {len(rows)} rows, {path.name} says {expected}")
    _check_nodes(nodes_path, nodes, weights)
    _check_edges(edges_path, edges, count)
    return TextGraph(nodes, edges, weights)


def _check_nodes(path: Path, nodes: TextRows, weights: int) -> None:
    types, loads, ids = nodes.numbers[:, 0], nodes.numbers[:, 1 : 1 + weights], nodes.numbers[:, 1 + weights]
    steps = np.diff(types, prepend=0)
    _refuse(
        path,
        np.flatnonzero((steps < 0) | (steps > 1)),
        "has a node type that is not contiguous: sort by type, from 0 on",
    )
    _refuse(path, np.flatnonzero((loads < 0).any(axis=1)), "has a weight below 0")
    first = np.searchsorted(types, types, side="left")
    _refuse(path, np.flatnonzero(ids < 0), "has an orig_type_node_id below 0")
    by_type = np.lexsort((ids, types))
    repeated = np.flatnonzero((np.diff(ids[by_type]) == 0) & (np.diff(types[by_type]) == 0))
    _refuse(path, np.sort(by_type[repeated + 1]), "has an orig_type_node_id that another node of its type has")
    sizes = np.bincount(types)[types] if len(types) else first
    _refuse(path, np.flatnonzero(ids >= sizes), "has an orig_type_node_id beyond the nodes of its type")


def _check_edges(path: Path, edges: TextRows, count: int) -> None:
    ends = edges.numbers[:, :2]
    _refuse(path, np.flatnonzero(((ends < 0) | (ends >= count)).any(axis=1)), f"names a node beyond 0 to {count - 1}")
    _refuse(path, np.flatnonzero((edges.numbers[:, 2:] < 0).any(axis=1)), "has an id or a type below 0")


def _refuse(path: Path, rows: NDArray[np.integer], why: str) -> None:
    if len(rows):
        raise GraphError(f"{path}: row {rows[0] + 1} {why}")


def dglpart(name: str, folder: Path, target: Path, options: AssignOptions) -> Parts:
    """Assign the nodes of the three files, balancing each column of weights, and write the files of all parts.

    Duplicate edges and self loops do not count in the cut and stay in the output. Returns the part of each node.
    """
    text = read_text_graph(name, folder)
    graph = text.graph(name)
    weights = text.nodes.numbers[:, 1 : 1 + text.weights]
    if not text.weights:
        weights = np.ones((len(text.nodes), 1), dtype=np.int64)
    parts = assign(graph, weights, options)
    write_parts(name, text, Numbering.of(graph, parts, options.parts), target)
    return parts


def write_parts(name: str, text: TextGraph, numbering: Numbering, target: Path) -> None:
    """Write ``p<part>-<name>_{nodes,edges,stats}.txt``; new ids are contiguous by part, and by type inside of it."""
    target.mkdir(parents=True, exist_ok=True)
    new_ids, edges = numbering.new_ids, text.edges.numbers
    owners = numbering.parts[edges[:, 1]].astype(numbering.part_dtype, copy=False)
    ends = np.cumsum(np.bincount(owners, minlength=numbering.count))
    edges_of = np.split(np.argsort(owners, kind="stable"), ends[:-1])
    for part in range(numbering.count):
        first, last = numbering.owned(part)
        nodes = numbering.originals[first:last]
        in_edges = edges_of[part]
        rows = {
            "nodes": ([np.arange(first, last), *text.nodes.numbers[nodes].T], text.nodes.rest.take(_indices(nodes))),
            "edges": (
                [*new_ids[edges[in_edges, :2]].T, *edges[in_edges].T],
                text.edges.rest.take(_indices(in_edges)),
            ),
            "stats": ([np.array([value]) for value in (len(nodes), len(in_edges), text.weights)], _texts([""])),
        }
        for what, (numbers, rest) in rows.items():
            with atomic_file(target / f"p{part:03d}-{name}_{what}.txt") as temporary:
                write_rows(temporary, numbers, rest)


def dglpart_of_lists(name: str, nodes_list: Path, edges_list: Path, target: Path, options: AssignOptions) -> Parts:
    """Today's dialect: lists of files in, ``<name>_part.<parts>`` with node and part in each row out.

    A row of ``nodes_list`` is a file, the first homogeneous id in it and the end; of ``edges_list`` a file. A file of
    nodes has type, weights and id within the type, one of edges the two homogeneous ids.
    """
    pieces = []
    for row, line in enumerate(_lines(nodes_list), start=1):
        words = line.split()
        if len(words) != 3 or not all(word.isdigit() for word in words[1:]):
            raise GraphError(f"{nodes_list}: row {row} is {line!r}: a file, its first id and its end are needed")
        path = _beside(nodes_list, words[0])
        pieces.append((int(words[1]), int(words[2]), read_rows(path, _all_columns(path)), path))
    pieces.sort(key=lambda piece: piece[0])
    end = 0
    for first, last, rows, path in pieces:
        if first != end or last - first != len(rows):
            raise GraphError(f"{path} has {len(rows)} rows for ids {first} to {last}: the next id is {end}")
        end = last
    if not pieces:
        raise GraphError(f"{nodes_list} names no files")
    table = np.concatenate([rows.numbers for _, _, rows, _ in pieces])
    ends = [read_rows(_beside(edges_list, line), ("src_id", "dst_id")) for line in _lines(edges_list)]
    for line, rows in zip(_lines(edges_list), ends, strict=True):
        wrong = np.flatnonzero(((rows.numbers < 0) | (rows.numbers >= end)).any(axis=1))
        _refuse(Path(line), wrong, f"names a node beyond 0 to {end - 1}")
    edges = np.concatenate([np.empty((0, 2), np.int64), *(rows.numbers for rows in ends)])
    relation = Relation("0", EDGE_TYPE, "0")
    graph = _UnionGraph(name, Schema(("0",), (relation,)), {"0": end}, {relation: ArrayEdges(edges[:, 0], edges[:, 1])})
    weights = table[:, 1:-1] if table.shape[1] > 2 else np.ones((end, 1), dtype=np.int64)
    parts = assign(graph, weights, options)
    target.mkdir(parents=True, exist_ok=True)
    with atomic_file(target / f"{name}_part.{options.parts}") as temporary:
        write_rows(temporary, [np.arange(end), parts], _texts([""] * end))
    return parts


def run_pm_dglpart(arguments: list[str], processes: int, folder: Path) -> None:
    """Run the program that is installed, under ``mpirun``; raises ValueError where it is not on PATH, or fails."""
    for tool in ("pm_dglpart", "mpirun"):
        if shutil.which(tool) is None:
            raise ValueError(
                f"{tool} is not on PATH: install it, or leave --tool out for the partitioner of this package"
            )
    command = ["mpirun", "-np", str(processes), "pm_dglpart", *arguments]
    status = subprocess.run(command, cwd=folder, check=False).returncode
    if status:
        raise ValueError(f"{' '.join(command)} ended with exit code {status}")


def _all_columns(path: Path) -> list[str]:
    """As many names as the first row has columns, all of them integers."""
    try:
        with path.open() as file:
            return [f"column {number + 1}" for number in range(max(2, len(file.readline().split())))]
    except FileNotFoundError as error:
        raise GraphError(f"{path} does not exist") from error


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text().splitlines() if line.strip()]
    except FileNotFoundError as error:
        raise GraphError(f"{path} does not exist") from error


def _beside(listing: Path, name: str) -> Path:
    return Path(name) if Path(name).is_absolute() else listing.parent / name


def _indices(rows: NDArray[np.integer]) -> Any:
    import pyarrow

    return pyarrow.array(rows.astype(np.int64))


def _texts(texts: Iterable[str]) -> Any:
    import pyarrow

    return pyarrow.array(list(texts), pyarrow.large_string())
