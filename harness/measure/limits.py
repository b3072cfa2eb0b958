"""Limits of a timed call: operations and bytes of its SpMMs and dense layers against this machine's ceilings.

Per SpMM of nnz edges and f columns: ``flops = 2 nnz f``; ``bytes_best`` streams the matrix, writes the output around
the caches and reads each source row once; ``bytes_worst`` reads a row for every edge, and the output before writing it.
``xnr`` is the speed in units of the no-reuse bound, ``bytes_worst / stream``: above 1 only a cache helps.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from backends.kernels.extension import description
from datasets.csr import Csr
from harness.measure import ceilings

INDEX = 4
Json = dict[str, Any]


def limits(
    facts: Mapping[str, Any],
    seconds: float,
    threads: int,
    operands: Iterable[Mapping[str, Any]] = (),
    dense_floor: float | None = None,
) -> Json:
    """Compare the median ``seconds`` of the timed call with the limits of the SpMMs and dense layers in ``facts``.

    ``fraction_of_limit``: best bytes at stream bandwidth or operations at the multiply-add rate, whichever is slower,
    as if caches held every row. ``fraction_of_gather``: worst bytes at the bandwidth of random rows, which an order
    with locality can exceed. ``fraction_of_ceiling``: per product the slower of the first and of reading the same rows
    in the order of the edges in ``operands`` and nothing else; only tiles, which change that order, can exceed it.
    Before each such reading as many other bytes are read as the call moves between two uses of the table.
    ``dense_floor``, the seconds of the same layers without aggregation, is passed on.
    """
    orders = {str(operand["name"]): operand for operand in operands}
    products = [_product(spmm, threads) for spmm in facts.get("spmm", ())]
    if not products or seconds <= 0:
        return {}
    between = _total(products, "bytes_best")
    for product in products:
        product["order"] = _in_order(product, orders.get(product["name"], {}).get("csr"), between, threads)
    stream, rate = ceilings.stream_bandwidth(threads), ceilings.multiply_add_rate(threads)
    dense = float(facts.get("dense_flops", 0))
    for product in products:
        product["floor"] = max(product["bytes_best"] / stream, product["flops"] / rate)
    floor = _total(products, "floor") + dense / rate
    widest = max(products, key=lambda product: product["bytes_worst"])
    answer = {
        "ceilings": _ceilings(threads) | {"gather": widest["gather"], "kernel": description()},
        **{key: _total(products, key) for key in ("flops", "bytes_best", "bytes_worst")},
        "dense_flops": dense,
        "dense_seconds": dense / rate,
        "xnr": _total(products, "bytes_worst") / stream / seconds,
        "fraction_of_limit": floor / seconds,
        "fraction_of_gather": (_total(products, "gathered") + dense / rate) / seconds,
    }
    if all(product["order"] is not None for product in products):
        attainable = (
            sum(product["count"] * max(product["floor"], product["order"]) for product in products) + dense / rate
        )
        answer |= {"attainable_seconds": attainable, "fraction_of_ceiling": attainable / seconds}
    return answer | ({} if dense_floor is None else {"dense_floor": dense_floor})


def _ceilings(threads: int) -> Json:
    streams = {"read": ceilings.read_bandwidth(threads), "triad": ceilings.triad_bandwidth(threads)}
    return {"stream": ceilings.stream_bandwidth(threads), **streams, "flops": ceilings.multiply_add_rate(threads)}


def _total(products: Iterable[Json], key: str) -> float:
    total: float = sum(product["count"] * product[key] for product in products)
    return total


def _product(spmm: Mapping[str, Any], threads: int) -> Json:
    """Operations, bytes and ceilings of one SpMM."""
    nnz, rows, columns, width = (int(spmm[key]) for key in ("nnz", "rows", "columns", "width"))
    row = width * 4
    stream = (rows + 1) * INDEX + nnz * (INDEX + 4) + rows * row
    worst = stream + rows * row + nnz * -(-row // ceilings.LINE) * ceilings.LINE
    gather, table = ceilings.gather_bandwidth(columns, width, threads), min(columns, nnz) * row
    return {
        "name": str(spmm.get("name")),
        "columns": columns,
        "width": width,
        "table": table,
        "count": spmm.get("count", 1),
        "flops": 2 * nnz * width,
        "bytes_best": stream + table,
        "bytes_worst": worst,
        "gather": gather,
        "gathered": worst / gather,
    }


def _in_order(product: Json, csr: Csr | None, moved: float, threads: int) -> float | None:
    """Seconds of reading one product's rows, after the other bytes that the call moves; None without its edges."""
    if csr is None:
        return None
    between = max(0, int(moved - product["table"]))
    return ceilings.order_seconds(csr.indices, product["columns"], product["width"], threads, between)
