"""The protocols between harness and engines, one per scenario, and the data that cross them; no framework."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from backends.batches import BatchPlan
from backends.model import ModelSpec, State, TrainingSpec
from datasets.csr import Csr
from datasets.features import Features
from datasets.graph import Graph

Floats = NDArray[np.floating]
Nodes = NDArray[np.int64]

# Environment variable: the ``time.monotonic()`` by which this process has to answer the harness; absent elsewhere.
DEADLINE = "HARNESS_DEADLINE"


class Clock(Protocol):
    """Adds up the seconds of named phases; handed to engines by the harness."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the seconds inside the context to ``name``."""
        ...


class Unsupported(Exception):
    """Raised in ``prepare`` for a cell that an engine cannot run; its one sentence is the record's message."""


class Trainer(Protocol):
    """Scenario ``train``: one epoch is the timed call."""

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Do everything that is done once, for the training view of a graph; phases named and timed apart."""
        ...

    def epoch(self, index: int, clock: Clock) -> float:
        """Train one epoch; its mean loss over all targets; phases load, vectorize, forward, backward, step, comm."""
        ...

    def loss_and_gradients(self, targets: Nodes) -> tuple[Floats, float, dict[str, Floats]]:
        """Return logits [targets, classes], loss and canonical gradients, by the same code path as ``epoch``."""
        ...

    def predict(self, graph: Graph, nodes: Nodes) -> Floats:
        """Return logits [len(nodes), classes] on any graph, without dropout; the harness scores them."""
        ...

    def load(self, state: State) -> None:
        """Take over canonical parameters; reset the optimizer and seed the random numbers: masks of dropout repeat."""
        ...

    def state(self) -> State:
        """Return the parameters under their canonical names."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return sizes of the work: ``spmm`` (list of nnz, rows, columns, width per SpMM of an epoch) and more."""
        ...

    def close(self) -> None:
        """Stop loaders and threads; the process is idle afterwards."""
        ...


class Inferrer(Protocol):
    """Scenario ``infer``: the scores of the plan's nodes are the timed call."""

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Do everything that is done once; ``plan.nodes`` are the nodes to score."""
        ...

    def infer(self, clock: Clock) -> Floats:
        """Score the plan's nodes: logits [len(plan.nodes), classes]."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return sizes of the work: ``spmm`` (list of nnz, rows, columns, width per SpMM of a call) and more."""
        ...

    def close(self) -> None:
        """Stop loaders and threads; the process is idle afterwards."""
        ...


@dataclass(frozen=True, eq=False)
class Sampling:
    """How neighbourhoods are drawn: the edges, the registered sampler, one fanout per layer, layer 1 first.

    ``csr`` holds the edges that pass the filter, with the whole graph's edge ids; ``weight`` [nnz] is the column that
    the sampler draws by. With ``per_target`` a node has a sample of its own in every neighbourhood.
    """

    csr: Csr
    sampler: str
    fanouts: tuple[int | None, ...]
    seed: int
    weight: Floats | None = None
    replacement: bool = False
    per_target: bool = False


@dataclass(frozen=True, eq=False)
class GraphFeature:
    """The stored neighbourhood of one target: original ids in ``nodes`` [n], target first; degrees of the whole graph.

    Edges [m] go from ``sources`` to ``destinations``, both given as places in ``nodes``.
    """

    nodes: Nodes
    distance: Nodes
    degrees: Nodes
    features: Features | None
    destinations: Nodes
    sources: Nodes
    ranks: Nodes
    edge_ids: Nodes


class Flattener(Protocol):
    """Scenario ``flatten``: writing the neighbourhoods of all targets as records is the timed call."""

    def prepare(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan, clock: Clock) -> None:
        """Do everything that is done once; ``plan.targets(0)`` are flattened to ``spec.layers`` hops by its fanouts."""
        ...

    def flatten(self, clock: Clock) -> None:
        """Flatten all targets into the engine's sink."""
        ...

    def sampling(self) -> Sampling:
        """Return how the neighbourhoods are drawn."""
        ...

    def stored(self) -> Iterator[GraphFeature]:
        """Read back the records of the last ``flatten``, or build them where none were stored; in any order."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return records, their nodes, edges and bytes, and the rate of the last call."""
        ...

    def close(self) -> None:
        """Stop threads and processes, and delete the files of the measurement."""
        ...


@dataclass(frozen=True, eq=False)
class Hop:
    """One hop of a sampled neighbourhood: distinct ``nodes`` [n], at most ``fanout`` (``None``: all) in-edges of each.

    ``edges`` [m] are the drawn edges, as places in the graph's edge order; in any order.
    """

    nodes: Nodes
    fanout: int | None
    edges: Nodes


class Sampler(Protocol):
    """Scenario ``sample``: the neighbourhoods of all batches of an epoch, no features and no compute, are timed."""

    def prepare(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan, clock: Clock) -> None:
        """Do everything that is done once; batches have ``spec.layers`` hops, drawn by ``spec.fanouts``."""
        ...

    def sample(self, index: int, clock: Clock) -> None:
        """Draw the neighbourhoods of ``plan.targets(index)``, batch by batch; every epoch draws anew."""
        ...

    def draw(self, targets: Nodes) -> list[Hop]:
        """Return the hops of one batch, drawn by the same code path as ``sample``; the targets' hop first."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return counts of the last ``sample`` (batches, targets, distinct nodes, drawn edges) and rates."""
        ...

    def close(self) -> None:
        """Stop loaders and threads; the process is idle afterwards."""
        ...


@dataclass(frozen=True, eq=False)
class PartitionTask:
    """How nodes are to be divided: the number of parts, what they balance, the objective.

    ``weights`` int64 [nodes, constraints] are the loads of a node, at least 0; a part has at most ``imbalance`` times
    the mean of each. ``objective`` is ``cut`` (edges between parts) or ``volume`` (rows that parts need of others).
    """

    parts: int
    weights: Nodes
    imbalance: float
    objective: str
    seed: int
    threads: int

    @property
    def bounds(self) -> Nodes:
        """The largest load of a part in each constraint, int64 [constraints]; no less than an even share needs."""
        total: Nodes = self.weights.sum(0, dtype=np.int64)
        if self.imbalance >= self.parts:
            return total  # a bound beyond it may not fit 64 bits
        bounds: Nodes = np.maximum((self.imbalance * total / self.parts).astype(np.int64), -(-total // self.parts))
        return bounds


class Partitioner(Protocol):
    """Scenario ``partition``: assigning all nodes to parts is the timed call."""

    def prepare(self, graph: Graph, task: PartitionTask, clock: Clock) -> None:
        """Do everything that is done once."""
        ...

    def partition(self, clock: Clock) -> None:
        """Assign all nodes, from the graph's directed edges on."""
        ...

    def assignment(self) -> Nodes:
        """Return the part of each node, int64 [nodes], of the last ``partition``."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what the engine counts; the harness computes the quality of the assignment itself."""
        ...

    def close(self) -> None:
        """Stop threads; the process is idle afterwards."""
        ...


@dataclass(frozen=True, eq=False)
class WrittenParts:
    """Parts on disk as DGL's ``load_partition`` reads them: the JSON, and the map from new ids to the graph's.

    ``nodes`` int64 [nodes] and ``edges`` int64 [edges] are the graph's node and edge id of each new one.
    """

    config: Path
    nodes: Nodes
    edges: Nodes


class Dispatcher(Protocol):
    """Scenario ``dispatch``: assigning all nodes and writing all parts with their attributes is the timed call."""

    def prepare(self, graph: Graph, task: PartitionTask, clock: Clock) -> None:
        """Do everything that is done once."""
        ...

    def dispatch(self, folder: Path, clock: Clock) -> None:
        """Write all parts into ``folder``, which is not there yet."""
        ...

    def written(self) -> WrittenParts:
        """Return what the last ``dispatch`` wrote."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what the engine counts; the harness computes the quality of the assignment itself."""
        ...

    def close(self) -> None:
        """Stop threads; the process is idle afterwards."""
        ...


class Multiplier(Protocol):
    """Scenario ``spmm``: one aggregation, forward and backward, is the timed call."""

    def prepare(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, clock: Clock) -> None:
        """Do everything that is done once per graph; the operands are those of ``backends.base.operands``."""
        ...

    def multiply(self, clock: Clock) -> None:
        """Aggregate once, then compute the operands' gradients; phases forward, backward."""
        ...

    def products(self) -> tuple[Floats, dict[str, Floats]]:
        """Return the output of the last ``multiply`` and the gradient of each operand."""
        ...

    def release(self) -> None:
        """Free the output and the gradients of the last ``multiply``; ``products`` has none until the next."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return sizes of the work: ``spmm`` (list of nnz, rows, columns, width per SpMM of a call) and more."""
        ...

    def close(self) -> None:
        """Stop loaders and threads; the process is idle afterwards."""
        ...
