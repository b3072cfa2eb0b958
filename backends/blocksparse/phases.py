"""What a rank's seconds are for: products with the matrix, messages, and what is left, the dense layers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

AGGREGATION = "aggregation"  # name in torch's profiles of sections that hold products with the matrix alone
_ENGINE = "autograd::engine::evaluate_function: "


@dataclass(frozen=True)
class RankPhases:
    """Seconds of one forward and backward pass of a rank.

    ``aggregate`` are the products with the matrix, ``comm`` those of all messages, ``exposed`` those of them that
    nothing covered, ``dense`` what is left of the pass.
    """

    aggregate: float
    dense: float
    comm: float
    exposed: float


def aggregation_seconds(events: Sequence[Any]) -> float:
    """Seconds of the sections ``AGGREGATION`` of a profile, and of the backward passes of the operations in them.

    Kernels and torch's own operations are told apart by their section, not by their names: features that are a sparse
    matrix are multiplied by the same operations.
    """
    is_aggregation, microseconds = dict[int, bool](), 0.0  # by the number of an operation's node of autograd
    for event in events:  # in the order of time: of operations with one number, the last makes the node
        callers = [caller.name for caller in _callers(event)]
        if event.name == AGGREGATION:
            microseconds += event.cpu_time_total
        elif event.name.startswith(_ENGINE):
            microseconds += event.cpu_time_total if is_aggregation.get(event.sequence_nr) else 0.0
        elif event.sequence_nr >= 0 and not any(name.startswith(_ENGINE) for name in callers):
            is_aggregation[event.sequence_nr] = AGGREGATION in callers
    return 1e-6 * microseconds


def _callers(event: Any) -> Iterator[Any]:
    """The sections and operations that an operation lies in."""
    while (event := event.cpu_parent) is not None:
        yield event
