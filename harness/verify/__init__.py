"""The parity gate: before a cell is timed, its engine's numbers are compared with a definition."""

from collections.abc import Callable
from typing import Any

from backends.contract import Unsupported
from backends.registry import load_object
from datasets.graph import Graph
from harness.planning.schema import RunConfig

Gate = Callable[[RunConfig, Graph], dict[str, Any]]
GATES = {
    "train": "harness.verify.models:verify_model",
    "infer": "harness.verify.models:verify_model",
    "flatten": "harness.verify.flatten:verify_flattening",
    "sample": "harness.verify.sample:verify_sampling",
    "spmm": "harness.verify.products:verify_product",
    "partition": "harness.verify.partition:verify_partition",
    "dispatch": "harness.verify.dispatch:verify_dispatch",
}


def gate_of(scenario: str) -> Gate:
    """Return the gate of a scenario: it answers with the record's ``parity`` and raises Incorrect.

    Raises Unsupported for a scenario without a gate, with the names of those that have one.
    """
    if scenario not in GATES:
        raise Unsupported(f"scenario {scenario!r} has no parity gate: allowed are {', '.join(GATES)}")
    gate: Gate = load_object(GATES[scenario])
    return gate
