"""Column panels: a table beyond the nearest caches is multiplied part by part, each part staying in them meanwhile.

A panel saves reads of the table and costs a pass over the result, so few edges of a row in each panel do not pay. What
share of a cache a process has is not known on a shared machine, so panels of several sizes are tried on a part of the
rows; where rows have too few edges for all of these sizes, the most panels for which they have enough.
"""

import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels import native
from backends.kernels.dispatch import IMPLEMENTATIONS
from backends.kernels.extension import extension, workers
from backends.kernels.native.aggregate import multiply
from backends.kernels.operand import Direction, operand
from datasets.csr import Csr

SIZES = (2 << 20, 4 << 20, 8 << 20, 16 << 20)  # bytes of a panel, beside a processor's share of the last cache
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}
LEAST_EDGES = 6  # of a row in a panel, on average
GAIN = 0.95  # of the seconds without panels: panels that take more are noise
TRIAL_EDGES = 1 << 22  # of the rows that are tried, and so many times the columns that the table is read
TRIAL_READS = 16
UNTRIED = 3
_TRIALS = 3


@dataclass(frozen=True)
class PanelChoice:
    """Into how many panels a table is cut, 1 for none, and the least seconds of the trial for each number tried."""

    panels: int
    seconds: dict[int, float]


def choose_panels(
    csr: Csr,
    width: int,
    weight: Tensor | None,
    transposed: bool,
    trial: bool = True,
    dtype: torch.dtype = torch.float32,
) -> PanelChoice:
    """Try products of a table of ``width`` columns in panels of several sizes, and keep the fastest for later calls.

    ``weight`` [nnz] is that of the product, in the forward order; its type is the table's, without it ``dtype``.
    Without ``trial`` every table is cut, into ``UNTRIED`` panels.
    """
    if extension is None or IMPLEMENTATIONS["cpu"] is not native:
        return PanelChoice(1, {})
    matrix = operand(csr)
    side, columns = (matrix.backward, csr.shape[0]) if transposed else (matrix.forward, csr.shape[1])
    dtype = dtype if weight is None else weight.dtype
    side.panels.pop(width, None)
    counts = _counts(side, columns, width * dtype.itemsize) if trial else [UNTRIED]
    if not counts:
        return PanelChoice(1, {})
    if weight is not None:
        weight = matrix.transposed_weight(weight) if transposed else weight.detach().contiguous()
    seconds: dict[int, float] = {}
    if trial:
        seconds = _try(_sample(side, columns), counts, torch.ones((columns, width), dtype=dtype), weight)
    best = min(seconds or counts, key=lambda count: seconds.get(count, 0.0) * (1.0 if count > 1 else GAIN))
    starts = cut_panels(side, columns, best) if best > 1 else None
    if starts is None:
        return PanelChoice(1, seconds)
    side.panels[width] = starts
    return PanelChoice(best, seconds)


def cut_panels(side: Direction, columns: int, count: int) -> NDArray[np.integer] | None:
    """Where each row's edges of each panel begin, [count + 1, rows]; ``None`` where a row's columns do not ascend."""
    starts = np.empty((count + 1, side.rows), dtype=side.indices.dtype)
    edges = int(side.indptr[-1] - side.indptr[0])
    is_ascending = extension.cut_panels(side.indptr, side.indices, columns, starts, workers(edges, 1))
    return starts if is_ascending else None


def last_cache_share(folder: Path = CACHES) -> int:
    """A processor's share of the last cache that the first one uses, bytes; 0 where the kernel does not tell it."""
    shares = [(0, 0)]
    for index in folder.glob("index*"):
        try:
            level, size, sharers = ((index / name).read_text().strip() for name in ("level", "size", "shared_cpu_list"))
        except OSError:
            continue
        spans = [re.findall(r"\d+", part) for part in sharers.split(",")]
        processors = sum(int(span[-1]) - int(span[0]) + 1 for span in spans if span)
        if processors and level.isdecimal() and (match := re.fullmatch(r"(\d+)([KMG]?)", size)):
            shares.append((int(level), (int(match[1]) << _UNITS[match[2]]) // processors))
    return max(shares)[1]


def _counts(side: Direction, columns: int, row_bytes: int) -> list[int]:
    """The numbers of panels to try, at most one for each size."""
    sizes = [size for size in (*SIZES, last_cache_share()) if size]
    counts = {count for size in sizes if (count := -(-columns * row_bytes // size)) > 1}
    most = len(side.indices) // (LEAST_EDGES * max(1, side.rows))
    allowed = {count for count in counts if count <= most}
    return sorted(allowed or ({most} if counts and most > 1 else ()))


def _sample(side: Direction, columns: int) -> Direction:
    """Consecutive rows from the middle, with enough edges to read the table often."""
    share = max(TRIAL_EDGES, TRIAL_READS * columns) / max(1, len(side.indices))
    pieces = len(side.bounds) - 1
    taken = min(pieces, max(1, round(share * pieces)))
    first = (pieces - taken) // 2
    bounds = side.bounds[first : first + taken + 1]
    indptr = side.indptr[bounds[0] : bounds[-1] + 1]
    return Direction(indptr, side.indices, bounds - bounds[0], side.hubs[:0], len(indptr) - 1)


def _try(sample: Direction, counts: list[int], x: Tensor, weight: Tensor | None) -> dict[int, float]:
    """Least seconds of the sample's product by the number of panels, in turns."""
    width = x.shape[1]
    cuts = {count: cut_panels(sample, len(x), count) for count in counts}
    seconds = {1: float("inf")} | {count: float("inf") for count, starts in cuts.items() if starts is not None}
    for _ in range(_TRIALS):
        for count in seconds:
            sample.panels.clear()
            if (starts := cuts.get(count)) is not None:
                sample.panels[width] = starts
            start = time.perf_counter()
            multiply(sample, x, weight, None)
            seconds[count] = min(seconds[count], time.perf_counter() - start)
    return seconds
