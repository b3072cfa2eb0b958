"""Where the seconds of an epoch go: seconds of torch's operations by what they are for, in every engine on torch.

One more epoch runs under torch's profiler. A forward operation is named by itself and the shapes of its operands; a
backward one belongs to the forward operation that recorded it. Steps that an engine repeats from a recording call
kernels by name, with the shapes of their arrays in the name. Seconds of an operation are its own, without what it
calls. ``rest`` is what no operation accounts for: Python, autograd's engine, data structures. It grows with the number
of operations that Python or autograd calls, which is counted.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

PARTS = ("dropout", "input product", "aggregation", "dense", "loss", "optimizer", "rest")
KERNEL = "kernel "
ENGINE = "autograd::engine::evaluate_function: "
# The first pattern that is found in the name decides; products are told apart by the shapes of their operands.
PATTERNS = (
    ("rest", r"AccumulateGrad"),
    ("optimizer", r"^Optimizer\.|_fused_adam|_fused_sgd"),
    ("dropout", r"(?i)dropout|bernoulli"),
    ("loss", r"(?i)cross_?entropy|nll_?loss|log_?softmax"),
    ("product", r"^kernel (spmm|dense_forward|dense_backward|add_tiles) "),
    ("aggregation", r"^kernel "),
    (
        "product",
        r"^(aten::)?(mm|addmm|matmul|linear|bmm|_sparse_mm|_Dense|_Product|_ProductPair|_Projection|_SparseProduct"
        r"|_SparseProjection|_Sum)$",
    ),
    (
        "aggregation",
        r"GSpMM|GSDDMM|[Ee]dge_?[Ss]oftmax|_Gat|_SumOfRows|_SumLayer|Maximum|_Sddmm|_HeadAttention|Transposed",
    ),
    ("aggregation", r"scatter|index_add|segment_reduce|sampled_addmm|leaky_relu|spmm"),
)


@dataclass(frozen=True)
class EpochShape:
    """Numbers by which the operands of an epoch's operations are recognised: nodes, edges, and columns of the input.

    ``edges`` are the sizes of edge lists, with and without self loops.
    """

    nodes: int
    edges: tuple[int, ...]
    width: int


@dataclass(frozen=True)
class EpochParts:
    """Seconds of each part of an epoch, and the number of operations of torch that no other operation called."""

    seconds: dict[str, float]
    calls: int


def parts_of(call: Callable[[], object], shape: EpochShape, seconds: float) -> EpochParts | None:
    """The parts of ``call``, an epoch that takes ``seconds``: of two calls under the profiler, the faster.

    A call before them is discarded: the profiler's own first steps would be seconds of the operation that meets them.
    The profiler makes short operations longer: where all of them take more than ``seconds``, they are scaled down.
    ``None`` for an engine that runs no operation of torch in this process.
    """
    _profiled(call, shape)
    parts = min((_profiled(call, shape) for _ in range(2)), key=lambda parts: sum(parts.seconds.values()))
    total = sum(parts.seconds.values())
    if total == 0.0:
        return None
    scale = min(1.0, seconds / total)
    seconds_of = {name: value * scale for name, value in parts.seconds.items()}
    seconds_of["rest"] += max(0.0, seconds - total)
    return EpochParts(seconds_of, parts.calls)


def _profiled(call: Callable[[], object], shape: EpochShape) -> EpochParts:
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        call()
    events = profile.function_events or []
    forward = {event.sequence_nr: event for event in events if _is_forward(event)}
    seconds_of = dict.fromkeys(PARTS, 0.0)
    for event in events:
        if event.self_cpu_time_total > 0:
            seconds_of[_part(_outermost(event), forward, shape)] += 1e-6 * event.self_cpu_time_total
    return EpochParts(seconds_of, sum(event.cpu_parent is None for event in events))


def _outermost(event: Any) -> Any:
    """The operation that called this one, on the way to no other operation; dropout is one inside of any other."""
    while event.cpu_parent is not None and _named(event.name) != "dropout":
        event = event.cpu_parent
    return event


def _is_forward(event: Any) -> bool:
    return event.sequence_nr >= 0 and event.cpu_parent is None and not event.name.startswith(ENGINE)


def _part(event: Any, forward: dict[int, Any], shape: EpochShape) -> str:
    """The part of an operation that no other one called."""
    name = event.name.removeprefix(ENGINE)
    if event.name.startswith(ENGINE):
        part, origin = _named(re.sub(r"Backward\d*$", "", name)), forward.get(event.sequence_nr)
        if part in (None, "product"):
            return "dense" if origin is None else _part(origin, {}, shape)
    else:
        part = _named(name)
    shapes = [tuple(sizes) for sizes in event.input_shapes or ()]
    if part == "product" and name.startswith(KERNEL):
        return _kernel_product(name, shape)
    if part == "product":
        return _product(shapes, shape)
    over_edges = any(sizes and sizes[0] in shape.edges for sizes in shapes)
    return part or ("aggregation" if over_edges else "dense")


def _named(name: str) -> str | None:
    return next((part for part, pattern in PATTERNS if re.search(pattern, name)), None)


def _product(shapes: Sequence[tuple[int, ...]], shape: EpochShape) -> str:
    """Whether a product multiplies the input with weights, neighbours' rows, or a layer's rows with weights."""
    matrices = [sizes for sizes in shapes if len(sizes) == 2]
    if any(shape.width in sizes for sizes in matrices) and shape.width != shape.nodes:
        return "input product"
    square = any(rows == columns == shape.nodes for rows, columns in matrices)
    return "aggregation" if square or len(matrices) == 1 else "dense"


def _kernel_product(name: str, shape: EpochShape) -> str:
    """The same for a kernel of a recorded step, whose name ends with the shapes of its matrices."""
    _, kernel, *sizes = name.split()
    if any(str(shape.width) in size.split("x") for size in sizes) and shape.width != shape.nodes:
        return "input product"
    return "dense" if kernel.startswith("dense") else "aggregation"
