"""Where a trainer's batches come from: the graph in memory, GraphFlat's shards, or shards that are written first."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from backends.base.layered import LayerMatrix
from backends.base.trainer import Batch
from backends.contract import Clock, Nodes
from datasets.graph import Graph

if TYPE_CHECKING:
    from backends.agl.backend import AglTrainer


class BatchSource(Protocol):
    """Makes the batches of the trainer that opened it."""

    def open(self, trainer: "AglTrainer", clock: Clock) -> Graph:
        """Begin with a trainer that has its task; returns the graph that it trains on."""
        ...

    def is_sparse(self, graph: Graph) -> bool:
        """Whether features are stored sparse."""
        ...

    def prepare(self) -> Batch | None:
        """Build what all epochs share; returns the batch of a full-batch plan."""
        ...

    def kept_matrices(self) -> list[tuple[int, LayerMatrix]]:
        """Matrices beside those of the full batch that all epochs share, with their layers."""
        ...

    def begin(self, index: int) -> None:
        """Begin an epoch."""
        ...

    def items(self, index: int) -> Iterator[Any]:
        """What the batches of an epoch are made of, in the order of training."""
        ...

    def batch(self, item: Any) -> Batch:
        """Make a batch, in any thread."""
        ...

    def batch_of(self, targets: Nodes) -> Batch:
        """The batch of any targets, as in the first epoch."""
        ...

    def validation(self) -> Iterator[Batch]:
        """Batches of the labelled validation nodes."""
        ...

    def facts(self) -> dict[str, Any]:
        """Facts of the source."""
        ...

    def close(self) -> None:
        """Remove what was written for this run."""
        ...
