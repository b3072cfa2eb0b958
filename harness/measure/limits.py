"""Limits of a timed call: operations and bytes of its SpMMs and dense layers against the ceilings of its machine.

Per SpMM of nnz edges and f columns: ``flops = 2 nnz f``; ``bytes_least`` is what every implementation on CSR moves: row
pointers and indices, each source row that is used once, the output once; weights can be computed from degrees.
``bytes_worst`` reads a row for every edge, a weight with it, and the output before writing it. ``xnr`` is the speed in
units of the no-reuse time, ``bytes_worst / stream``: above 1 only a cache helps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from backends.memory_errors import unless_out_of_memory
from datasets.csr import Csr
from harness.measure.ceilings import LINE
from harness.measure.dense import DenseFloor

INDEX = 4
BEATEN = 1.005  # a larger share of a bound than rounding explains: the bound is wrong
REORDERED = ("panels", "tiles")  # facts that name the products whose edges are not read in the order of the matrix
Json = dict[str, Any]
Floor = Callable[[], DenseFloor | None]


class Machine(Protocol):
    """Ceilings of what computed the call, measured when they are asked for: a ``Cpu`` or a ``Gpu``."""

    @property
    def kernel(self) -> str:
        """What measures the ceilings."""

    def read_bandwidth(self) -> float:
        """Bytes per second of reading an array beyond the caches."""

    def triad_bandwidth(self) -> float:
        """Bytes per second of ``a = b + s * c`` over arrays beyond the caches."""

    def stream_bandwidth(self) -> float:
        """Bytes per second of the faster of the two streams."""

    def fastest_bandwidth(self, size: float) -> float:
        """Bytes per second at which ``size`` bytes can move at most."""

    def multiply_add_rate(self) -> float:
        """Operations per second of a dense float32 product."""

    def gather_bandwidth(self, rows: int, width: int) -> float:
        """Bytes per second, in whole lines, of reading random rows of a table [rows, width]."""

    def order_seconds(self, indices: NDArray[np.integer], rows: int, width: int, between: int) -> float | None:
        """Seconds of only reading rows in this order after ``between`` other bytes; None where no order is kept."""


def limits(
    facts: Mapping[str, Any],
    seconds: float,
    machine: Machine,
    operands: Iterable[Mapping[str, Any]] = (),
    floor: Floor = lambda: None,
) -> Json:
    """Compare the median ``seconds`` of the timed call with the limits of the SpMMs and dense layers in ``facts``.

    ``fraction_of_limit``: the larger of least bytes at the fastest stream of that size and of all operations at the
    multiply-add rate, as an engine may fuse dense layers and aggregation. ``fraction_of_gather``: worst bytes at the
    bandwidth of random rows, which an order with locality can exceed. ``fraction_of_ceiling``: per product the slower
    of its least bytes and of reading the same rows in the order of the edges in ``operands`` and nothing else; left out
    where a product has ``panels`` or ``tiles``, which change that order. Before each such reading as many other bytes
    are read as the call moves between two uses of the table. ``floor`` measures the dense products. ``beaten`` names
    the bounds, in seconds, that the call was faster than: these are wrong. Where memory does not hold what is read for
    this, ``status`` says so and the call keeps its samples.
    """
    return unless_out_of_memory(lambda: _compared(facts, seconds, machine, operands, floor))


def _compared(
    facts: Mapping[str, Any],
    seconds: float,
    machine: Machine,
    operands: Iterable[Mapping[str, Any]],
    floor: Floor,
) -> Json:
    matrices = {str(operand["name"]): operand["csr"] for operand in operands}
    wide = [spmm for spmm in facts.get("spmm", ()) if spmm["width"]]  # features without a column are no work
    products = [_product(spmm, matrices.get(str(spmm.get("name"))), machine) for spmm in wide]
    if not products or seconds <= 0:
        return {}
    dense = floor()
    reordered = _reordered(facts, matrices)
    _add_orders(products, {name: csr for name, csr in matrices.items() if name not in reordered}, machine)
    dense_flops = float(facts.get("dense_flops", 0))
    if dense is not None:
        dense_flops = min(dense_flops, dense.flops)
    dense_seconds = dense_flops / machine.multiply_add_rate()
    if dense is not None:
        dense_seconds = min(dense_seconds, dense.seconds)
    bounds = _bounds(products, dense_seconds, dense, machine)
    answer = _totals(products, dense_flops, dense_seconds, seconds, machine)
    answer["fraction_of_limit"] = bounds["limit"] / seconds
    if "ceiling" in bounds:
        answer |= {"attainable_seconds": bounds["ceiling"], "fraction_of_ceiling": bounds["ceiling"] / seconds}
    if dense is not None:
        answer["dense_floor"] = dense.seconds
    beaten = {name: bound for name, bound in bounds.items() if bound > BEATEN * seconds}
    return answer | ({"beaten": beaten} if beaten else {})


def _reordered(facts: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    """Products whose panels or tiles read rows in another order than that of the edges; all, if a rank has such."""
    ranks = facts.get("ranks")
    forms = ranks.get("forms") if isinstance(ranks, Mapping) else None
    of_ranks = [form for form in forms if isinstance(form, Mapping)] if isinstance(forms, list) else []
    if any(form.get(kind) for form in of_ranks for kind in REORDERED):
        return set(names)
    named = [facts[kind] for kind in REORDERED if isinstance(facts.get(kind), Mapping | list)]
    return {str(name) for products in named for name in products}


def _bounds(
    products: Sequence[Json], dense_seconds: float, dense: DenseFloor | None, machine: Machine
) -> dict[str, float]:
    """Least seconds of the call by several arguments; a faster call shows that one of them is wrong."""
    arithmetic = _total(products, "flops", least=True) / machine.multiply_add_rate() + dense_seconds
    bounds = {"limit": max(_total(products, "streamed", least=True), arithmetic)}
    if all(product["order"] is not None for product in products):
        attainable = [product | {"attainable": max(product["streamed"], product["order"])} for product in products]
        bounds["ceiling"] = max(_total(attainable, "attainable", least=True), arithmetic)
    return bounds | ({} if dense is None else {"dense_floor": dense.seconds})


def _totals(
    products: Sequence[Json], dense_flops: float, dense_seconds: float, seconds: float, machine: Machine
) -> Json:
    """Operations and bytes of the call, and its speed in units of what no cache helps."""
    widest = max(products, key=lambda product: product["bytes_worst"])
    return {
        "ceilings": _ceilings(machine) | {"gather": widest["gather"], "kernel": machine.kernel},
        **{key: _total(products, key) for key in ("flops", "bytes_least", "bytes_worst")},
        "dense_flops": dense_flops,
        "dense_seconds": dense_seconds,
        "xnr": _total(products, "bytes_worst") / machine.stream_bandwidth() / seconds,
        "fraction_of_gather": (_total(products, "gathered") + dense_seconds) / seconds,
    }


def _ceilings(machine: Machine) -> Json:
    streams = {"read": machine.read_bandwidth(), "triad": machine.triad_bandwidth()}
    return {"stream": machine.stream_bandwidth(), **streams, "flops": machine.multiply_add_rate()}


def _total(products: Iterable[Json], key: str, least: bool = False) -> float:
    """Sum over all batches; ``least`` leaves the last of several out, which may be short."""
    total: float = sum(max(1, product["count"] - least) * product[key] for product in products)
    return total


def _product(spmm: Mapping[str, Any], csr: Csr | None, machine: Machine) -> Json:
    """Operations, bytes and ceilings of one SpMM; without its edges no row is known to be read."""
    nnz, rows, columns, width = (int(spmm[key]) for key in ("nnz", "rows", "columns", "width"))
    row = width * 4
    pointers, table = (rows + 1) * INDEX, 0 if csr is None else row * _distinct(csr)
    least = pointers + nnz * INDEX + rows * row + table
    worst = pointers + nnz * (INDEX + 4) + 2 * rows * row + nnz * -(-row // LINE) * LINE
    gather = machine.gather_bandwidth(columns, width)
    return {
        "name": str(spmm.get("name")),
        "columns": columns,
        "width": width,
        "table": table,
        "count": spmm.get("count", 1),
        "flops": 2 * nnz * width,
        "bytes_least": least,
        "streamed": least / machine.fastest_bandwidth(least),
        "bytes_worst": worst,
        "gather": gather,
        "gathered": worst / gather,
    }


def _distinct(csr: Csr) -> int:
    """How many columns have an edge: a hub's row is read once, whatever its degree."""
    used = np.zeros(csr.shape[1], dtype=bool)
    used[csr.indices] = True
    return int(used.sum())


def _add_orders(products: Sequence[Json], matrices: Mapping[str, Csr], machine: Machine) -> None:
    """Add seconds of reading each product's rows, after what a batch moves beside its table; None without an order."""
    moved = sum(product["bytes_least"] for product in products)
    for product in products:
        csr, between = matrices.get(product["name"]), max(0, int(moved - product["table"]))
        product["order"] = (
            None if csr is None else machine.order_seconds(csr.indices, product["columns"], product["width"], between)
        )
