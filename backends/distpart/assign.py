"""Assignment of a graph's nodes to parts, by any of the methods, balancing what DGL can balance and more."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.contract import PartitionTask, Unsupported
from backends.distpart.backend import storage_of
from backends.distpart.config import METHODS as OWN
from backends.distpart.dispatch.numbering import Parts
from backends.distpart.typed_graph import CsrEdges, GraphError, TypedGraph
from backends.kernels.partition import UndirectedGraph
from backends.progress import gibibytes
from backends.registry import config_class, runtime
from datasets.randomness import hash_ids
from datasets.tables.out_of_core import Progress, silent

METHODS = (*OWN, "metis")
_PIECE = 1 << 20
_MOST_WEIGHT = 1 << 62  # sum of a constraint, in 64-bit integers
_MOST_CLASSES = 256  # each of which is a weight of every node
_BYTES_PER_LOAD = 16  # of a node, while the loads of all nodes are computed
OBJECTIVES = {"cut": "cut", "vol": "volume", "volume": "volume"}


@dataclass(frozen=True)
class _ShownPhases:
    """A clock that counts nothing: it shows each phase as a step that is begun and done."""

    progress: Progress

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Show a phase."""
        self.progress(name, 0, 1)
        yield
        self.progress(name, 1, 1)


@dataclass(frozen=True)
class AssignOptions:
    """``method`` and what it is to reach; edges beyond ``memory`` bytes lie in files of ``workspace``, 0: no bound.

    ``cycles`` are of ``multilevel``, ``passes`` of ``fennel`` and ``ldg``.
    """

    parts: int
    method: str = "multilevel"
    imbalance: float = 1.03
    objective: str = "cut"
    seed: int = 0
    threads: int = 1
    strict: bool = False
    memory: int = 0
    workspace: Path | None = None
    cycles: int = 1
    passes: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for values that are not allowed."""
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} is not allowed: one of {', '.join(METHODS)}")
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective={self.objective!r} is not allowed: one of {', '.join(OBJECTIVES)}")
        if min(self.parts, self.threads) < 1 or not 1 <= self.imbalance < np.inf:
            values = f"parts={self.parts}, threads={self.threads} and imbalance={self.imbalance}"
            raise ValueError(f"{values} must be at least 1")
        if min(self.cycles, self.passes) < 1:
            raise ValueError(f"cycles={self.cycles} and passes={self.passes} must be at least 1")


def assign(graph: TypedGraph, weights: NDArray[np.int64], options: AssignOptions, progress: Progress = silent) -> Parts:
    """Return the part of each node, int32 by homogeneous id; ``weights`` [nodes, constraints] are balanced.

    Raises GraphError for more parts than nodes, for weights below zero or too large to be summed, for several loads
    and ``metis``, and with ``strict`` for a bound that was not reached; ValueError for a graph beyond METIS's integers
    or that METIS fails on.
    """
    if options.parts > max(1, graph.total_nodes):
        raise GraphError(
            f"{options.parts} parts are more than the {graph.total_nodes} nodes: lower the number of parts"
        )
    wrong = np.argwhere(weights < 0)
    if len(wrong):
        raise GraphError(f"node {wrong[0][0]} has weight {weights[tuple(wrong[0])]}: at least 0")
    for constraint, total in enumerate(weights.sum(axis=0, dtype=np.float64)):
        if total > _MOST_WEIGHT:
            raise GraphError(
                f"weights of constraint {constraint} sum to {total:.3g}: at most {_MOST_WEIGHT:.3g}, divide them"
            )
    if options.parts == 1:
        return np.zeros(graph.total_nodes, dtype=np.int32)
    loads = weights.any(axis=0)  # a type without nodes is none
    if options.method == "metis" and (several := int(loads.sum())) > 1:
        raise GraphError(
            f"method 'metis' balances one load, not {several} (one for each type, class or weight of nodes, one more "
            f"for the edges of each): choose another of {', '.join(OWN)}"
        )
    objective = OBJECTIVES[options.objective]
    task = PartitionTask(options.parts, weights, options.imbalance, objective, options.seed, options.threads)
    loaded = replace(task, weights=weights[:, loads]) if loads.any() and not loads.all() else task
    parts = _assigned(graph, loaded, options, _ShownPhases(progress))
    if options.strict:
        _refuse_broken_bounds(parts, task)
    return parts


def _assigned(graph: TypedGraph, task: PartitionTask, options: AssignOptions, shown: _ShownPhases) -> Parts:
    """The parts by an engine of the harness, from edges that are read in pieces."""
    if options.method == "random":
        words = hash_ids(options.seed, "random partition", np.arange(graph.total_nodes))
        return (words % np.uint64(options.parts)).astype(np.int32)
    is_metis = options.method == "metis"
    of_ours = {"method": options.method, "cycles": options.cycles, "passes": options.passes}
    config = config_class("partitioners")(tool="metis") if is_metis else config_class("distpart")(**of_ours)
    engine: Any = runtime(config, "partition")
    engine.task = task

    with tempfile.TemporaryDirectory(dir=options.workspace) as folder:
        try:
            with shown.phase("undirected graph"):
                undirected = _undirected(graph, task, options.memory, Path(folder))
            parts: Parts = engine.assign(undirected, shown)
        except Unsupported as error:
            raise ValueError(f"{error}, one of {', '.join(OWN)}") from error
        except RuntimeError as error:
            if not is_metis:
                raise
            raise ValueError(f"METIS failed ({error}): use another partitioner, one of {', '.join(OWN)}") from error
        finally:
            engine.close()
    return parts


def _undirected(graph: TypedGraph, task: PartitionTask, memory: int, folder: Path) -> UndirectedGraph:
    """The undirected graph of all relations' edges; that of a single matrix needs no sorting."""

    def pieces() -> Iterator[tuple[Any, Any]]:
        return (graph.read(*piece) for piece in graph.chunks(_PIECE))

    first, *others = graph.edges.values()
    if isinstance(first, CsrEdges) and not others:
        volume = task.objective == "volume"
        storage = storage_of(memory, folder, first.csr.nnz if volume else None)
        return UndirectedGraph.of(first.csr, task.weights, task.threads, storage, directions=volume)
    return UndirectedGraph.from_edges(pieces, task.weights, task.threads, storage_of(memory, folder))


def _refuse_broken_bounds(parts: Parts, task: PartitionTask) -> None:
    loads = np.zeros((task.parts, task.weights.shape[1]), dtype=np.int64)
    np.add.at(loads, parts, task.weights)
    for constraint, bound in enumerate(task.bounds):
        part = int(loads[:, constraint].argmax())
        if loads[part, constraint] > bound:
            raise GraphError(
                f"part {part} has a load of {loads[part, constraint]} in constraint {constraint}, {bound} were asked: "
                "raise the imbalance, or leave strict out"
            )


def constraints(
    graph: TypedGraph,
    *,
    node_types: Mapping[str, Any] | NDArray[np.integer] | None = None,
    edges: bool = False,
    memory: int = 0,
) -> NDArray[np.int64]:
    """The weights by which DGL's METIS balances, int64 [nodes, constraints].

    Without arguments each node type is balanced, one constraint per type. ``node_types`` are classes of nodes to
    balance instead, by homogeneous id or by node type. ``edges`` balances in-degrees: alone if there is one class,
    beside the number of nodes of each class else (DGL's ``metis_partition_assignment``). Raises MemoryError where they
    take more than ``memory`` bytes, 0: no bound.
    """
    classes = _classes(graph, node_types)
    kinds = int(classes.max(initial=0)) + 1
    if node_types is not None and kinds > _MOST_CLASSES:
        raise GraphError(f"there are {kinds} classes to balance: at most {_MOST_CLASSES}, give some nodes the same")
    _refuse_loads_beyond(memory, graph.total_nodes, kinds * (2 if edges else 1))
    shares = (classes[:, None] == np.arange(kinds)).astype(np.int64)
    if not edges:
        return shares
    degrees = _in_degrees(graph)[:, None]
    return degrees if kinds == 1 and node_types is None else np.concatenate([shares, shares * degrees], axis=1)


def _refuse_loads_beyond(memory: int, nodes: int, loads: int) -> None:
    needed = nodes * loads * _BYTES_PER_LOAD
    if memory and needed > memory:
        raise MemoryError(
            f"{loads} loads of {nodes:,} nodes need {gibibytes(needed)} of memory, {gibibytes(memory)} were given: "
            "raise it (--memory), or balance fewer classes of nodes (--balance)"
        )


def _classes(graph: TypedGraph, node_types: Mapping[str, Any] | NDArray[np.integer] | None) -> NDArray[np.int64]:
    """The class of each node, numbered from 0 on; types that a dictionary leaves out are a class each."""
    if isinstance(node_types, Mapping):
        unknown = set(node_types) - set(graph.nodes)
        if unknown:
            raise GraphError(f"balance names node type {min(unknown)}: there are {', '.join(graph.schema.node_types)}")
        pieces, first = [], 0
        for kind in graph.schema.node_types:
            values = np.asarray(node_types.get(kind, np.zeros(graph.nodes[kind])))
            pieces.append(np.unique(values, return_inverse=True)[1].reshape(-1) + first)
            first += int(pieces[-1].max(initial=first - 1)) + 1 - first
        classes = np.concatenate(pieces)
    elif node_types is None:
        sizes = [graph.nodes[kind] for kind in graph.schema.node_types]
        classes = np.repeat(np.arange(len(sizes)), sizes)
    else:
        classes = np.unique(np.asarray(node_types), return_inverse=True)[1].reshape(-1)
    if len(classes) != graph.total_nodes:
        raise GraphError(
            f"there are {len(classes)} classes to balance for {graph.total_nodes} nodes: give one for each"
        )
    return classes.astype(np.int64)


def _in_degrees(graph: TypedGraph) -> NDArray[np.int64]:
    degrees = np.zeros(graph.total_nodes, dtype=np.int64)
    for relation, start, stop in graph.chunks(1 << 22):
        _, destinations = graph.read(relation, start, stop)
        first = int(destinations.min())
        counts = np.bincount(destinations - first)  # of the chunk's own range: there may be many small relations
        degrees[first : first + len(counts)] += counts
    return degrees
