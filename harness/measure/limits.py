"""Limits of a timed call: operations and bytes of its SpMMs and dense layers against this machine's ceilings.

Per SpMM of nnz edges and f columns: ``flops = 2 nnz f``; ``bytes_least`` is what every implementation on CSR moves: row
pointers and indices, each source row that is used once, the output once; weights can be computed from degrees.
``bytes_worst`` reads a row for every edge, a weight with it, and the output before writing it. ``xnr`` is the speed in
units of the no-reuse time, ``bytes_worst / stream``: above 1 only a cache helps.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from backends.kernels.extension import description
from datasets.csr import Csr
from harness.measure import ceilings
from harness.measure.dense import DenseFloor

INDEX = 4
BEATEN = 1.005  # a larger share of a bound than rounding explains: the bound is wrong
Json = dict[str, Any]


def limits(
    facts: Mapping[str, Any],
    seconds: float,
    threads: int,
    operands: Iterable[Mapping[str, Any]] = (),
    dense: DenseFloor | None = None,
) -> Json:
    """Compare the median ``seconds`` of the timed call with the limits of the SpMMs and dense layers in ``facts``.

    ``fraction_of_limit``: the larger of least bytes at the fastest stream of that size and of all operations at the
    multiply-add rate, as an engine may fuse dense layers and aggregation. ``fraction_of_gather``: worst bytes at the
    bandwidth of random rows, which an order with locality can exceed. ``fraction_of_ceiling``: per product the slower
    of its least bytes and of reading the same rows in the order of the edges in ``operands`` and nothing else; only
    tiles, which change that order, can exceed it. Before each such reading as many other bytes are read as the call
    moves between two uses of the table. ``dense`` are the least seconds of the dense products.
    ``beaten`` names the bounds, in seconds, that the call was faster than: these are wrong.
    """
    matrices = {str(operand["name"]): operand["csr"] for operand in operands}
    products = [_product(spmm, matrices.get(str(spmm.get("name"))), threads) for spmm in facts.get("spmm", ())]
    if not products or seconds <= 0:
        return {}
    _add_orders(products, matrices, threads)
    dense_flops = float(facts.get("dense_flops", 0))
    if dense is not None:
        dense_flops = min(dense_flops, dense.flops)
    dense_seconds = dense_flops / ceilings.multiply_add_rate(threads)
    if dense is not None:
        dense_seconds = min(dense_seconds, dense.seconds)
    bounds = _bounds(products, dense_seconds, dense, threads)
    answer = _totals(products, dense_flops, dense_seconds, seconds, threads)
    answer["fraction_of_limit"] = bounds["limit"] / seconds
    if "ceiling" in bounds:
        answer |= {"attainable_seconds": bounds["ceiling"], "fraction_of_ceiling": bounds["ceiling"] / seconds}
    if dense is not None:
        answer["dense_floor"] = dense.seconds
    beaten = {name: bound for name, bound in bounds.items() if bound > BEATEN * seconds}
    return answer | ({"beaten": beaten} if beaten else {})


def _bounds(products: Sequence[Json], dense_seconds: float, dense: DenseFloor | None, threads: int) -> dict[str, float]:
    """Least seconds of the call by several arguments; a faster call shows that one of them is wrong."""
    arithmetic = _total(products, "flops", least=True) / ceilings.multiply_add_rate(threads) + dense_seconds
    bounds = {"limit": max(_total(products, "streamed", least=True), arithmetic)}
    if all(product["order"] is not None for product in products):
        attainable = [product | {"attainable": max(product["streamed"], product["order"])} for product in products]
        bounds["ceiling"] = max(_total(attainable, "attainable", least=True), arithmetic)
    return bounds | ({} if dense is None else {"dense_floor": dense.seconds})


def _totals(products: Sequence[Json], dense_flops: float, dense_seconds: float, seconds: float, threads: int) -> Json:
    """Operations and bytes of the call, and its speed in units of what no cache helps."""
    widest = max(products, key=lambda product: product["bytes_worst"])
    return {
        "ceilings": _ceilings(threads) | {"gather": widest["gather"], "kernel": description()},
        **{key: _total(products, key) for key in ("flops", "bytes_least", "bytes_worst")},
        "dense_flops": dense_flops,
        "dense_seconds": dense_seconds,
        "xnr": _total(products, "bytes_worst") / ceilings.stream_bandwidth(threads) / seconds,
        "fraction_of_gather": (_total(products, "gathered") + dense_seconds) / seconds,
    }


def _ceilings(threads: int) -> Json:
    streams = {"read": ceilings.read_bandwidth(threads), "triad": ceilings.triad_bandwidth(threads)}
    return {"stream": ceilings.stream_bandwidth(threads), **streams, "flops": ceilings.multiply_add_rate(threads)}


def _total(products: Iterable[Json], key: str, least: bool = False) -> float:
    """Sum over all batches; ``least`` leaves the last of several out, which may be short."""
    total: float = sum(max(1, product["count"] - least) * product[key] for product in products)
    return total


def _product(spmm: Mapping[str, Any], csr: Csr | None, threads: int) -> Json:
    """Operations, bytes and ceilings of one SpMM; without its edges no row is known to be read."""
    nnz, rows, columns, width = (int(spmm[key]) for key in ("nnz", "rows", "columns", "width"))
    row = width * 4
    pointers, table = (rows + 1) * INDEX, 0 if csr is None else row * _distinct(csr)
    least = pointers + nnz * INDEX + rows * row + table
    worst = pointers + nnz * (INDEX + 4) + 2 * rows * row + nnz * -(-row // ceilings.LINE) * ceilings.LINE
    gather = ceilings.gather_bandwidth(columns, width, threads)
    return {
        "name": str(spmm.get("name")),
        "columns": columns,
        "width": width,
        "table": table,
        "count": spmm.get("count", 1),
        "flops": 2 * nnz * width,
        "bytes_least": least,
        "streamed": least / ceilings.fastest_bandwidth(threads, least),
        "bytes_worst": worst,
        "gather": gather,
        "gathered": worst / gather,
    }


def _distinct(csr: Csr) -> int:
    """How many columns have an edge: a hub's row is read once, whatever its degree."""
    used = np.zeros(csr.shape[1], dtype=bool)
    used[csr.indices] = True
    return int(used.sum())


def _add_orders(products: Sequence[Json], matrices: Mapping[str, Csr], threads: int) -> None:
    """Add seconds of reading each product's rows, after the other bytes that the call moves; None without its edges."""
    moved = _total(products, "bytes_least")
    for product in products:
        csr, between = matrices.get(product["name"]), max(0, int(moved - product["table"]))
        product["order"] = (
            None
            if csr is None
            else ceilings.order_seconds(csr.indices, product["columns"], product["width"], threads, between)
        )
