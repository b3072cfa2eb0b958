"""Ceilings of a CUDA device, measured when they are needed: streams, multiply-adds, rows gathered from a table.

A device starts a call while the one before it still runs, so that each is timed as one of a queue.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels import spmm
from datasets.csr import Csr
from harness.measure.best import queued_best
from harness.measure.ceilings import LINE
from harness.measure.shared_values import best_of_processes

STREAM_BYTES = 1 << 30
SIZES = (1 << 22, 1 << 24, STREAM_BYTES)  # bytes of the arrays that streams are measured over
SQUARES = (2048, 4096)  # rows of the matrices that multiply-adds are measured with
GATHER_BYTES = 1 << 30
GATHERED = 32  # rows that are added up to one
CACHED = 1 << 26  # bytes below which an array may stay in a cache, and is read many times in one pass
ROW = 256  # bytes of its rows


@dataclass(frozen=True)
class Gpu:
    """One device, ``cuda`` or ``cuda:1``; its programs read the rows of a matrix in no order, so that none bounds."""

    device: str

    @property
    def kernel(self) -> str:
        """The device, and torch, whose kernels and ours measure it."""
        return f"{torch.cuda.get_device_name(self.device)}, torch {torch.__version__}"

    def read_bandwidth(self, size: int = STREAM_BYTES) -> float:
        """Bytes per second of reading an array of ``size`` bytes; by default one beyond the caches."""

        def measure() -> float:
            if size < CACHED:  # one pass would take less time than its start
                rows = size // ROW
                return self._gathered(np.arange(GATHER_BYTES // ROW, dtype=np.int32) % rows, rows, ROW // 4)
            source = self._ones(size // 4)
            return size / self._best([partial(torch.sum, source), partial(torch.amax, source)])

        return self._shared(f"read {size} bytes", measure)

    def triad_bandwidth(self, size: int = STREAM_BYTES) -> float:
        """Bytes per second of ``a = b + s * c`` over arrays of ``size`` bytes; a device writes without reading."""

        def measure() -> float:
            a, b, c = (self._ones(size // 4) for _ in range(3))
            copy = size / self._best([partial(a.copy_, b)])
            return max(2 * copy, 3 * size / self._best([partial(torch.add, b, c, alpha=2.0, out=a)]))

        return self._shared(f"triad of {size} bytes", measure)

    def stream_bandwidth(self, size: int = STREAM_BYTES) -> float:
        """Bytes per second of the faster of the two streams."""
        return max(self.read_bandwidth(size), self.triad_bandwidth(size))

    def fastest_bandwidth(self, size: float) -> float:
        """Bytes per second at which ``size`` bytes can move at most: those of arrays no larger, or of larger ones."""
        largest_below = max((known for known in SIZES if known <= size), default=SIZES[0])
        return max(self.stream_bandwidth(known) for known in SIZES if known >= largest_below)

    def multiply_add_rate(self) -> float:
        """Operations per second of a dense float32 product, two per multiply-add; of several sizes the fastest."""

        def measure() -> float:
            rates = []
            for size in SQUARES:
                a = self._ones(size * size).view(size, size)
                rates.append(2 * size**3 / self._best([partial(torch.mm, a, a, out=torch.empty_like(a))]))
            return max(rates)

        return self._shared("multiply-adds", measure)

    def gather_bandwidth(self, rows: int, width: int) -> float:
        """Bytes per second, in whole lines, of adding up random rows of a table [rows, width] by our kernel."""

        def measure() -> float:
            draw = np.random.Generator(np.random.Philox(key=1))
            count = max(1, GATHER_BYTES // _row_bytes(width))
            return self._gathered(draw.integers(0, rows, count, dtype=np.int32), rows, width)

        return self._shared(f"random rows, {rows} of {width}", measure)

    def _gathered(self, indices: NDArray[np.int32], rows: int, width: int) -> float:
        """Bytes per second of adding up these rows, some at a time."""
        bounds = np.append(np.arange(0, len(indices), GATHERED, dtype=np.int32), len(indices)).astype(np.int32)
        csr = Csr(bounds, indices, (len(bounds) - 1, rows))
        table = self._ones(rows * width).view(rows, width)
        return len(indices) * _row_bytes(width) / self._best([partial(spmm, csr, table)])

    def order_seconds(self, indices: NDArray[np.integer], rows: int, width: int, between: int) -> None:
        """No order bounds a device."""

    def _ones(self, count: int) -> Tensor:
        return torch.ones(count, device=self.device)

    def _best(self, forms: list[Callable[[], object]]) -> float:
        with torch.no_grad():
            return queued_best(forms, partial(torch.cuda.synchronize, self.device))

    def _shared(self, name: str, measure: Callable[[], float]) -> float:
        return best_of_processes(f"{name}, {self.device}", measure, max)


def _row_bytes(width: int) -> int:
    return -(-width * 4 // LINE) * LINE
