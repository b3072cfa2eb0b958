"""How far a time is from what the machine could do: ceilings measured on the spot, bytes and operations counted.

Per SpMM of nnz edges and f columns: ``flops = 2 nnz f``; ``bytes_best`` streams the matrix and the output and reads
each source row once; ``bytes_worst`` reads a row for every edge. ``xnr`` is the speed in units of the no-reuse bound,
``bytes_worst / stream``: above 1 only a cache helps.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch

from backends.kernels import spmm
from backends.kernels.native import description
from datasets.csr import Csr

LINE = 64
INDEX = 4
STREAM_BYTES = 96 << 20
GATHER_BYTES = 64 << 20
DEGREE = 32
REPEATS = 5
Json = dict[str, Any]


def limits(facts: Mapping[str, Any], seconds: float, threads: int) -> Json:
    """Set the median ``seconds`` of the timed call beside the limits of the SpMMs and dense layers in ``facts``.

    ``fraction_of_limit`` is floor / seconds: the floor adds up, over products, the larger of best bytes at stream
    bandwidth and operations at the multiply-add rate. ``fraction_of_gather`` takes worst bytes at the bandwidth of
    gathering random rows of that table instead, which an order with locality can exceed.
    """
    held = [_product(item, threads) for item in facts.get("spmm", ())]
    if not held or seconds <= 0:
        return {}
    stream, rate = stream_bandwidth(threads), multiply_add_rate(threads)
    dense = float(facts.get("dense_flops", 0))
    floor = sum(item["count"] * max(item["bytes_best"] / stream, item["flops"] / rate) for item in held)
    gathered = sum(item["count"] * item["bytes_worst"] / item["gather"] for item in held)
    total = {key: sum(item["count"] * item[key] for item in held) for key in ("flops", "bytes_best", "bytes_worst")}
    widest = max(held, key=lambda item: item["bytes_worst"])
    return {
        "ceilings": {"stream": stream, "flops": rate, "gather": widest["gather"], "kernel": description()},
        **total,
        "dense_flops": dense,
        "dense_seconds": dense / rate,
        "xnr": total["bytes_worst"] / stream / seconds,
        "fraction_of_limit": (floor + dense / rate) / seconds,
        "fraction_of_gather": (gathered + dense / rate) / seconds,
    }


def _product(item: Mapping[str, Any], threads: int) -> Json:
    """Operations, bytes and the gather bandwidth of one SpMM."""
    nnz, rows, columns, width = (int(item[key]) for key in ("nnz", "rows", "columns", "width"))
    row = width * 4
    stream = (rows + 1) * INDEX + nnz * (INDEX + 4) + 2 * rows * row
    return {
        "count": item.get("count", 1),
        "flops": 2 * nnz * width,
        "bytes_best": stream + min(columns, nnz) * row,
        "bytes_worst": stream + nnz * -(-row // LINE) * LINE,
        "gather": gather_bandwidth(columns, width, threads),
    }


def best_of(call: Callable[[], object]) -> float:
    """Least seconds of some calls after one that does not count: a ceiling is what was reached once."""
    call()
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


@cache
def stream_bandwidth(threads: int) -> float:
    """Bytes per second of ``a = b + s * c`` over arrays beyond the caches, the write's allocation counted."""
    torch.set_num_threads(threads)
    a, b, c = (torch.ones(STREAM_BYTES // 4) for _ in range(3))
    return 4 * STREAM_BYTES / best_of(lambda: torch.add(b, c, alpha=2.0, out=a))


@cache
def multiply_add_rate(threads: int, size: int = 1024) -> float:
    """Operations per second of a dense float32 product, two per multiply-add."""
    torch.set_num_threads(threads)
    a, out = torch.ones(size, size), torch.empty(size, size)
    return 2 * size**3 / best_of(lambda: torch.mm(a, a, out=out))


@cache
def gather_bandwidth(rows: int, width: int, threads: int) -> float:
    """Bytes per second of summing random rows of a table [rows, width]: what an order without locality allows."""
    torch.set_num_threads(threads)
    line = -(-width * 4 // LINE) * LINE
    edges = max(DEGREE, GATHER_BYTES // line // DEGREE * DEGREE)
    random = np.random.Generator(np.random.Philox(key=1))
    indices = random.integers(0, rows, edges, dtype=np.int32)
    indptr = np.arange(0, edges + 1, DEGREE, dtype=np.int32)
    csr, table = Csr(indptr, indices, (len(indptr) - 1, rows)), torch.ones(rows, width)
    return edges * line / best_of(lambda: spmm(csr, table))
