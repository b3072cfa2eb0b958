"""DGL's assignment of nodes to parts: its own symmetric graph, then the METIS that it is built with."""

import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.base.partitioner import GraphPartitioner
from backends.contract import Clock, Nodes, PartitionTask, Unsupported, WrittenParts
from backends.dgl.quiet import dgl
from backends.dgl.sampler import in_edges_of
from backends.kernels.partition import Parts, UndirectedGraph
from backends.registry import BackendConfig
from datasets.features import SparseFeatures
from datasets.graph import Graph
from datasets.partition.description import node_attributes

IMBALANCE = 1.03  # what METIS keeps to where nothing else is asked, as by DGL


@contextlib.contextmanager
def _metis_surroundings() -> Iterator[None]:
    """Drop what DGL prints; work in the temporary folder, as METIS writes files and a killed call leaves them."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(tempfile.gettempdir()):
        yield


@contextlib.contextmanager
def _metis_on(graph: Any) -> Iterator[None]:
    """Let ``partition_graph`` assign the nodes by METIS on another graph than the one that it writes."""
    module = dgl.distributed.partition
    assignment = module.metis_partition_assignment

    def of_graph(_: Any, *arguments: Any, **options: Any) -> Any:
        return assignment(graph, *arguments, **options)

    module.metis_partition_assignment = of_graph
    try:
        yield
    finally:
        module.metis_partition_assignment = assignment


class DglPartitioner(GraphPartitioner):
    """Assigns nodes by ``metis_partition_assignment``; what it balances is within METIS's own bound."""

    reads_edges = False  # it makes its own undirected graph

    def prepare(self, graph: Graph, task: PartitionTask, clock: Clock) -> None:
        """Build DGL's graph without parallel edges, phase ``structure``.

        Raises Unsupported for loads that DGL does not balance.
        """
        super().prepare(graph, task, clock)
        dgl.utils.set_num_threads(task.threads)
        self.balance = balance_of(graph, task, self.config.part_method)
        with clock.phase("structure"):
            self.edges = _without_parallel_edges(in_edges_of(graph.csr, wide=True))

    def assign(self, graph: UndirectedGraph | None, clock: Clock) -> Parts:
        """Run DGL's function, phase ``metis``; what it prints is dropped."""
        if self.task.parts == 1:
            return np.zeros(self.graph.nodes, dtype=np.int32)
        if self.config.part_method == "random":
            dgl.seed(self.task.seed)
            return np.asarray(dgl.random.choice(self.task.parts, self.graph.nodes).numpy(), dtype=np.int32)
        objective = "vol" if self.task.objective == "volume" else "cut"
        with clock.phase("metis"), _metis_surroundings():
            parts = dgl.metis_partition_assignment(self.edges, self.task.parts, objtype=objective, **self.balance)
        return np.asarray(parts.numpy(), dtype=np.int32)


class DglDispatcher:
    """A ``contract.Dispatcher`` by ``partition_graph``, with METIS or at random."""

    def __init__(self, config: BackendConfig) -> None:
        self.config: Any = config

    def prepare(self, graph: Graph, task: PartitionTask, clock: Clock) -> None:
        """Build DGL's graph with its attributes, phase ``structure``, where METIS needs it one without parallel edges.

        Raises Unsupported for loads that DGL does not balance, and for a graph without edges.
        """
        self.balance = balance_of(graph, task, self.config.part_method)
        if not graph.csr.nnz:
            raise Unsupported(f"backend dgl writes no parts of {graph.name}, which has no edges: set backend=distpart")
        torch.set_num_threads(task.threads)
        dgl.utils.set_num_threads(task.threads)
        self.graph, self.task = graph, task
        with clock.phase("structure"):
            self.edges = in_edges_of(graph.csr, wide=True).formats(["coo", "csc", "csr"])
            metis = self.config.part_method == "metis" and task.parts > 1
            # any other graph is assigned as DGL does it
            self.simple = _without_parallel_edges(self.edges) if metis and self.edges.is_multigraph else None
            for name, array in node_attributes(graph, slice(0, graph.nodes)).items():
                dense = array.dense() if isinstance(array, SparseFeatures) else np.array(array)
                self.edges.ndata[name] = torch.from_numpy(dense)
            for name, column in edge_attributes(graph).items():
                self.edges.edata[name] = torch.from_numpy(np.array(column))

    def dispatch(self, folder: Path, clock: Clock) -> None:
        """Run ``partition_graph``, phase ``partition_graph``; what it prints is dropped.

        Raises Unsupported for a part without nodes or edges, which DGL does not write.
        """
        self.folder = folder
        dgl.seed(self.task.seed)
        metis = contextlib.nullcontext() if self.simple is None else _metis_on(self.simple)
        with clock.phase("partition_graph"), _metis_surroundings(), metis:
            try:
                self.nodes, self.edge_positions = self._partitioned(folder)
            except LookupError as error:  # it takes the first and last node and edge of each part
                raise Unsupported(
                    f"backend dgl writes no part without nodes or edges, and of {self.task.parts} parts of "
                    f"{self.graph.name} one has none: lower scenario.parts"
                ) from error

    def _partitioned(self, folder: Path) -> Any:
        """Assign and write; the original ids of nodes, and positions of edges, by new id."""
        objective = "vol" if self.task.objective == "volume" else "cut"
        return dgl.distributed.partition_graph(
            self.edges,
            "graph",
            self.task.parts,
            str(folder.resolve()),
            part_method=self.config.part_method,
            objtype=objective,
            return_mapping=True,
            **self.balance,
        )

    def written(self) -> WrittenParts:
        """The JSON and the maps that DGL returned; its edge ids are positions in the matrix."""
        edges = np.asarray(self.graph.csr.ids[self.edge_positions.numpy()], dtype=np.int64)
        return WrittenParts(self.folder / "graph.json", self.nodes.numpy(), edges)

    def facts(self) -> dict[str, Any]:
        """Nothing beside what the harness computes from the files."""
        return {}

    def close(self) -> None:
        """Nothing runs between the calls."""


def _without_parallel_edges(graph: Any) -> Any:
    """The same graph for METIS, which as DGL builds it writes beyond its arrays where edges are parallel.

    Its in-degrees, which ``balance_edges`` asks for, remain those of all edges.
    """
    simple, degrees = dgl.to_simple(graph), graph.in_degrees()
    simple.in_degrees = lambda nodes=None: degrees if nodes is None else degrees[nodes]
    return simple


def edge_attributes(graph: Graph) -> dict[str, NDArray[Any]]:
    """Weights, types and features of the edges, in the order of the matrix, where the graph has them.

    Types are numbers of relations in a graph with a schema, and no attribute there.
    """
    types = None if graph.schema is not None else graph.edge_types
    arrays = {"weight": graph.edge_weights, "type": types, "feat": graph.edge_features}
    return {name: array for name, array in arrays.items() if array is not None}


def balance_of(graph: Graph, task: PartitionTask, method: str) -> dict[str, Any]:
    """The arguments ``balance_ntypes`` and ``balance_edges`` that ask for the task's loads.

    DGL balances the nodes of each class, and with ``balance_edges`` their in-degrees too; nodes in none of the task's
    classes become one more. Raises Unsupported for other loads, and other bounds of METIS.
    """
    if task.imbalance != IMBALANCE and task.parts > 1 and method == "metis":
        raise Unsupported(
            f"backend dgl has METIS keep to {IMBALANCE} times the mean, not scenario.imbalance={task.imbalance:g}: "
            f"set scenario.imbalance={IMBALANCE}"
        )
    degrees, weights = graph.csr.in_degrees[:, None], task.weights
    if weights.shape[1] == 1 and np.array_equal(weights, degrees):
        return {"balance_edges": True}
    for classes, by_edges in ((weights.shape[1], False), (weights.shape[1] // 2, True)):
        shares = weights[:, :classes]
        wanted = np.concatenate([shares, shares * degrees], axis=1) if by_edges else shares
        if (
            classes
            and shares.max(initial=0) <= 1
            and shares.sum(axis=1).max(initial=0) <= 1
            and _equal(wanted, weights)
        ):
            if classes == 1 and shares.all() and not by_edges:
                return {}
            numbers = np.where(shares.any(axis=1), shares.argmax(axis=1), classes)
            return {"balance_ntypes": torch.from_numpy(numbers), "balance_edges": by_edges}
    raise Unsupported(
        "backend dgl balances the nodes of classes that do not overlap, alone or with their in-degrees: "
        "scenario.balance can be [nodes], [edges], [nodes,edges], [split], [types] or [types,edges_by_type]"
    )


def _equal(one: Nodes, other: Nodes) -> bool:
    return one.shape == other.shape and bool((one == other).all())
