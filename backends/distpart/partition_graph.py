"""``partition_graph`` with DGL's arguments, return values and files, for any graph and without DGL."""

import os
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.assign import AssignOptions, assign, constraints
from backends.distpart.dispatch.job import DispatchJob, DispatchOptions, refuse_at_once
from backends.distpart.dispatch.metadata import part_folder
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.dispatch.part import ORIGINAL_EDGES, ORIGINAL_NODES
from backends.distpart.typed_graph import TypedGraph, typed_graph
from datasets.array_files import create_array
from datasets.graph import Graph
from datasets.hashes import digest
from datasets.partition.dgl_format import read_tensors
from datasets.schema import Relation
from datasets.tables.out_of_core import Progress, silent

TRAINER = "trainer_id"
_PIECE = 1 << 20


def partition_graph(
    g: Graph | TypedGraph,
    graph_name: str,
    num_parts: int,
    out_path: str | Path,
    num_hops: int = 1,
    part_method: str = "multilevel",
    balance_ntypes: Any = None,
    balance_edges: bool = False,
    return_mapping: bool = False,
    num_trainers_per_machine: int = 1,
    objtype: str = "cut",
    graph_formats: Any = None,
    *,
    threads: int | None = None,
) -> Any:
    """Assign nodes to ``num_parts`` parts and write each with its HALO nodes, for ``dgl.distributed.load_partition``.

    The arguments are those of DGL 1.1.3's function and ``threads``, all cores unless that is a number. Methods are
    ``multilevel``, the default, ``fennel``, ``ldg``, ``random`` and ``metis``, ``graph_formats`` is ``None`` or
    ``coo``. Memory is bounded by that of the machine; each thread takes some, so there are fewer where it does
    not suffice. ``write_partition`` takes all options.

    With ``return_mapping``: the original ids of nodes and of edges in the order of their new ids; dictionaries by type
    for a typed graph, arrays else. Raises ValueError, MemoryError and OSError as the assignment and the dispatch do.
    """
    if graph_formats not in (None, "coo", ["coo"]):
        raise ValueError(f"graph_formats={graph_formats!r} is not allowed: files are in coo, which DGL converts itself")
    graph, folder = typed_graph(g) if isinstance(g, Graph) else g, Path(out_path)
    threads = len(os.sched_getaffinity(0)) if threads is None else threads
    options = AssignOptions(num_parts, part_method, objective=objtype, threads=threads)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    dispatch = DispatchOptions(memory, threads, hops=num_hops, method=part_method)
    write_partition(
        graph,
        graph_name,
        folder,
        constraints(graph, node_types=balance_ntypes, edges=balance_edges),
        options,
        dispatch,
        num_trainers_per_machine,
    )
    return original_ids_of(graph, folder, num_parts) if return_mapping else None


def write_partition(
    graph: TypedGraph,
    name: str,
    folder: Path,
    weights: NDArray[np.int64],
    options: AssignOptions,
    dispatch: DispatchOptions,
    trainers: int = 1,
    progress: Progress = silent,
) -> Numbering:
    """Assign nodes, whose ``weights`` [nodes, constraints] are balanced, and write all parts; returns the new ids.

    With ``trainers`` above 1 there are that many parts in each, stored as ``trainer_id`` of nodes and edges. Raises
    ValueError and OSError as the assignment and the dispatch do.
    """
    if trainers < 1:
        raise ValueError(f"trainers per machine are {trainers}: at least 1 is needed")
    refuse_at_once(graph, folder, name, dispatch)
    parts = assign(graph, weights, replace(options, parts=options.parts * trainers), progress)
    del weights  # the forecast of the dispatch does not count them
    numbering = Numbering.of(graph, parts // trainers if trainers > 1 else parts, options.parts)
    with tempfile.TemporaryDirectory(dir=options.workspace) as spool:
        if trainers > 1:
            graph = _with_trainers(graph, parts, Path(spool))
        DispatchJob(graph, numbering, folder, name, dispatch, progress).run()
    return numbering


def original_ids_of(graph: TypedGraph, folder: Path, parts: int) -> tuple[Any, Any]:
    """Original ids of nodes and of edges in the order of their new ids, by type for a typed graph."""
    mappings = []
    for file in (ORIGINAL_NODES, ORIGINAL_EDGES):
        tables = [read_tensors(folder / part_folder(part) / file) for part in range(parts)]
        ids = {kind: np.concatenate([table[kind] for table in tables]) for kind in tables[0]}
        mappings.append(ids)
    nodes, edges = mappings
    if not graph.is_typed:
        return next(iter(nodes.values())), next(iter(edges.values()))
    return nodes, {Relation.parse(kind): ids for kind, ids in edges.items()}


def _with_trainers(graph: TypedGraph, trainers: Any, folder: Path) -> TypedGraph:
    """The graph with the trainer of each node, and of each edge that of its destination, which lie in ``folder``."""
    node_data, edge_data = dict(graph.node_data), dict(graph.edge_data)
    for kind in graph.schema.node_types:
        of_type = trainers[graph.starts[kind] : graph.starts[kind] + graph.nodes[kind]].astype(np.int64)
        node_data[kind] = {**node_data.get(kind, {}), TRAINER: of_type}
    for number, relation in enumerate(graph.schema.relations):
        of_edges = create_array(folder / f"{number}.npy", np.dtype(np.int64), (graph.edges[relation].count,))
        edge_data[relation] = {**edge_data.get(relation, {}), TRAINER: of_edges}
    for relation, start, stop in graph.chunks(_PIECE):
        _, destinations = graph.read(relation, start, stop)
        edge_data[relation][TRAINER][start:stop] = trainers[destinations]
    sha256 = graph.sha256 and digest([graph.sha256, zlib.crc32(np.ascontiguousarray(trainers).data)])
    return replace(graph, node_data=node_data, edge_data=edge_data, sha256=sha256)
